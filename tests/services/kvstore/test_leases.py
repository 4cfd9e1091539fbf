"""Leases end by their owner, by time, or with their owner's life."""

from common.domain.ids import Incarnation, ProcessId, ProcessName, UnitHash
from services.kvstore.leases import LeaseBook

A, B = UnitHash(b"a" * 32), UnitHash(b"b" * 32)
ME = ProcessId(ProcessName("decode-0"), Incarnation(1))
NEXT = ProcessId(ProcessName("decode-0"), Incarnation(2))
OTHER = ProcessId(ProcessName("decode-1"), Incarnation(1))


def test_a_lease_ends_once_and_only_by_its_owner() -> None:
    book = LeaseBook()
    number = book.grant(ME, (A, B), 0.0)
    assert number > 0
    assert book.end(number, OTHER) == ()
    assert book.end(number, ME) == (A, B)
    assert book.end(number, ME) == ()
    assert book.end(99, ME) == ()


def test_numbers_are_never_used_again() -> None:
    book = LeaseBook()
    first = book.grant(ME, (A,), 0.0)
    book.end(first, ME)
    assert book.grant(ME, (A,), 0.0) != first


def test_what_is_overdue_expires_and_the_rest_stays() -> None:
    book = LeaseBook(lease_s=10.0)
    book.grant(ME, (A, B), 0.0)
    book.grant(OTHER, (A,), 0.0)
    late = book.grant(ME, (B,), 5.0)
    assert book.expire(9.9) == []
    assert book.expire(10.0) == [A, B, A]
    assert len(book) == 1
    assert book.end(late, ME) == (B,)


def test_a_new_life_ends_the_leases_of_the_one_before_and_of_nobody_else() -> None:
    book = LeaseBook()
    book.grant(ME, (A,), 0.0)
    kept = [book.grant(NEXT, (B,), 0.0), book.grant(OTHER, (A,), 0.0)]
    assert book.replace_owner(NEXT) == [A]
    assert [book.end(kept[0], NEXT), book.end(kept[1], OTHER)] == [(B,), (A,)]
