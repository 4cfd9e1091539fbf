"""Planted faults of the product: a simulator that sees nothing proves nothing.

Each test breaks one thing that the product relies on and expects the oracle to say so.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from common.domain.block import ArenaRef, Descriptor
from common.domain.ids import ProcessId
from common.kv.held_units import HeldUnits
from common.store.memory import MemoryArenas
from common.wire.messages import Message
from common.wire.messages.work import Released
from common.worker.pins import Pinned, Pins
from services.gateway import streams
from services.router.index import BlockIndex
from tests.support.sim.faults import Fault, Kind
from tests.support.sim.life import life_of
from tests.support.sim.scenario import Report, Scenario, run
from tests.support.sim.world import Shape, World

pytestmark = pytest.mark.sim

QUIET = Scenario(1, seconds=20.0, shape=Shape())


def said(report: Report, words: str) -> bool:
    return any(words in problem for problem in report.problems)


def test_the_scenario_itself_is_sound() -> None:
    report = run(QUIET)
    assert not report.problems, report.told(QUIET)


def test_one_wrong_byte_of_one_block_after_its_check_is_a_wrong_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read, left = MemoryArenas.read, [0]

    def flipping(
        self: MemoryArenas,
        ref: ArenaRef,
        descriptors: Sequence[Descriptor],
        length: int,
        targets: Sequence[memoryview],
    ) -> list[bool]:
        verified = read(self, ref, descriptors, length, targets)
        reader = life_of()
        assert reader is not None
        if all(verified) and reader.me.name.startswith("decode") and left[0]:
            left[0] -= 1
            targets[0][0] ^= 1
        return verified

    def arm(world: World) -> None:
        """Not before: nobody checks what the canary gets."""
        left[0] = 1

    monkeypatch.setattr(MemoryArenas, "read", flipping)
    report = run(replace(QUIET, spoil=arm))
    assert left == [0]
    assert said(report, "is right")


def test_a_lost_released_is_seen_and_healed_by_the_lease() -> None:
    """Links do not lose single messages; a lease must not depend on that."""
    lost: list[Message] = []

    def spoil(world: World) -> None:
        def last_of_all(receiver: ProcessId, message: Message) -> bool:
            if isinstance(message, Released) and world.now > 15.0 and not lost:
                lost.append(message)
                return True
            return False

        world.network.lost = last_of_all

    scenario = replace(QUIET, spoil=spoil, early=True)
    report = run(scenario)
    assert len(lost) == 1
    assert any("hand_offs 1" in problem for problem in report.early), report.early
    assert not report.problems, report.told(scenario)


def test_a_pin_that_is_never_given_back_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    let_go, kept = Pins.let_go, [1]

    def forgetful(self: Pins, pinned: Pinned) -> None:
        if kept[0] and pinned.slots and pinned.readers == 1:
            kept[0] -= 1
            return
        let_go(self, pinned)

    monkeypatch.setattr(Pins, "let_go", forgetful)
    assert said(run(QUIET), "blocks_pinned")


def test_an_index_that_remembers_the_dead_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BlockIndex, "drop_process", lambda self, process: None)
    deaths = (Fault(18.0, Kind.KILL, "prefill-0", 0.5), Fault(18.0, Kind.KILL, "decode-0", 0.5))
    assert said(run(replace(QUIET, plan=deaths)), "which is dead")


def test_tokens_that_are_counted_wrong_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a writer's repeated row were not recognised."""
    monkeypatch.setattr(streams, "_tokens", _every_row_counts(streams._tokens))
    assert run(QUIET).problems


def _every_row_counts(
    honest: Callable[[streams.Stream, streams.TokensCame], streams._Step],
) -> Callable[[streams.Stream, streams.TokensCame], streams._Step]:
    seen = [0]

    def tokens(stream: streams.Stream, event: streams.TokensCame) -> streams._Step:
        seen[0] += 1
        after, actions = honest(stream, event)
        return after, actions * 2 if seen[0] == 40 else actions

    return tokens


def test_an_index_that_drifts_from_the_caches_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that goes takes units along that another block still has."""
    monkeypatch.setattr(HeldUnits, "remove", lambda self, units: tuple(units))
    shape = Shape(block_tokens=32, worker_slots=40, store_slots=16)
    assert said(run(Scenario(1, shape=shape)), "are missing")
