"""Whose blocks match, and that a life's entries end with it."""

from common.domain.peer import Medium
from services.router.index import BlockIndex, Holder
from tests.support.router_world import ROOT, process, prompt_of, units_of

A, B, STORE = process("decode-0"), process("decode-1"), process("kvstore-0")
UNITS = units_of(prompt_of(4))


def test_holders_are_told_apart_by_process_and_medium() -> None:
    index = BlockIndex(1_000)
    index.store(A, Medium.DEVICE, ROOT, UNITS)
    index.store(A, Medium.HOST, ROOT, UNITS[:1])
    index.store(STORE, Medium.HOST, ROOT, UNITS[:6])
    assert index.match(UNITS) == {
        Holder(A, Medium.DEVICE): 8,
        Holder(A, Medium.HOST): 1,
        Holder(STORE, Medium.HOST): 6,
    }
    assert index.count(A) == 9


def test_removed_units_do_not_match() -> None:
    index = BlockIndex(1_000)
    index.store(A, Medium.DEVICE, ROOT, UNITS)
    index.remove(A, Medium.HOST, UNITS)
    index.remove(B, Medium.DEVICE, UNITS)
    index.remove(A, Medium.DEVICE, UNITS[6:])
    assert index.match(UNITS) == {Holder(A, Medium.DEVICE): 6}


def test_a_successor_of_the_same_name_has_nothing_of_its_predecessor_s() -> None:
    index = BlockIndex(1_000)
    index.store(A, Medium.DEVICE, ROOT, UNITS)
    index.drop_process(A)
    assert index.match(UNITS) == {}
    assert len(index) == 0
    index.store(process("decode-0", 2), Medium.DEVICE, ROOT, UNITS[:2])
    assert index.match(UNITS) == {Holder(process("decode-0", 2), Medium.DEVICE): 2}


def test_dropping_one_process_leaves_the_others() -> None:
    index = BlockIndex(1_000)
    index.store(A, Medium.DEVICE, ROOT, UNITS)
    index.store(B, Medium.DEVICE, ROOT, UNITS[:4])
    index.drop_process(A)
    assert index.match(UNITS) == {Holder(B, Medium.DEVICE): 4}


def test_a_replacement_is_all_there_is_afterwards() -> None:
    index = BlockIndex(1_000)
    other = units_of(prompt_of(1, label=9))
    index.store(A, Medium.DEVICE, ROOT, UNITS)
    index.replace(A, Medium.DEVICE, zip([ROOT, *other], other, strict=False))
    assert index.match(UNITS) == {}
    assert index.match(other) == {Holder(A, Medium.DEVICE): 2}
