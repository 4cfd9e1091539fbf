"""What the router hears is what the directory did, numbered without a gap."""

from dataclasses import replace

import pytest

from common.domain.peer import Medium
from common.wire.columns import pack_hashes, unpack_hashes
from services.kvstore import events
from services.kvstore.directory import BlockSpec
from services.kvstore.events import EventLog
from tests.support.blocks import ROOT, Chain


def specs(chain: Chain) -> list[BlockSpec]:
    units, names = chain.units, chain.names
    return [
        BlockSpec(name, parent, tuple(units[2 * i : 2 * i + 2]), chain.layout)
        for i, (name, parent) in enumerate(zip(names, [ROOT, *names], strict=False))
    ]


def test_a_run_is_one_event_and_a_gap_begins_another() -> None:
    log, chain, other = EventLog(), specs(Chain(1, 4)), specs(Chain(2, 1))
    told = log.stored([chain[0], chain[1], chain[3], *other])
    assert [event.number for event in told] == [1, 2, 3]
    assert [event.parent for event in told] == [ROOT, chain[2].name, ROOT]
    assert told[0].units == pack_hashes(Chain(1, 2).units)
    assert told[2].units == pack_hashes(Chain(2, 1).units)
    assert {event.medium for event in told} == {Medium.HOST}


def test_nothing_is_told_of_nothing() -> None:
    log = EventLog()
    assert log.stored([]) == []
    assert log.removed([]) == []
    assert log.number == 0


def test_removals_count_on_and_are_split_to_fit_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "UNITS_A_PART", 3)
    log, units = EventLog(), Chain(1, 4).units
    log.stored(specs(Chain(1, 4)))
    told = log.removed(units)
    assert [event.number for event in told] == [2, 3, 4]
    assert [unit for event in told for unit in unpack_hashes(event.units)] == units


def test_a_snapshot_of_nothing_is_one_empty_last_part() -> None:
    (part,) = EventLog().snapshot([])
    assert (part.number, part.units, part.parents, part.part, part.last) == (0, b"", b"", 0, True)


def test_a_snapshot_pairs_every_unit_with_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "UNITS_A_PART", 4)
    log, chain = EventLog(), specs(Chain(1, 3))
    log.stored(chain)
    parts = log.snapshot(reversed(chain))
    assert [(part.part, part.last, part.number) for part in parts] == [(0, False, 1), (1, True, 1)]
    units = [unit for part in parts for unit in unpack_hashes(part.units)]
    parents = [unit for part in parts for unit in unpack_hashes(part.parents)]
    whole = Chain(1, 3).units
    assert dict(zip(units, parents, strict=True)) == dict(zip(whole, [ROOT, *whole], strict=False))


def test_a_unit_that_lies_in_two_blocks_is_told_gone_with_the_last_of_them() -> None:
    log, block = EventLog(), specs(Chain(1, 1))[0]
    twin = replace(block, units=(block.units[0], specs(Chain(2, 1))[0].name))
    log.stored([block])
    log.stored([twin])
    (first,), (second,) = log.removed(block.units), log.removed(twin.units)
    assert first.units == pack_hashes(block.units[1:])
    assert second.units == pack_hashes(twin.units)
