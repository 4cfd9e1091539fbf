"""What the router hears of a prefix cache, and that a snapshot says the same."""

from common.domain.ids import UnitHash
from common.domain.peer import Medium
from common.engine.job import CacheChanged
from common.engine.prefix_cache import CacheStored
from common.kv.hashing import extend_chain
from common.wire.codec import MAX_MESSAGE_BYTES, Codec
from common.wire.columns import pack_hashes, unpack_hashes
from common.wire.messages import TAGS, Message
from common.wire.messages.events import BlocksRemoved, BlocksStored, Snapshot, SnapshotWanted
from common.worker.cache_feed import PART_UNITS, CacheFeed, runs_of
from tests.support.engines import ROOT, prompt_of
from tests.support.sim.loop import on_a_warped_clock
from tests.support.workers import Stage


def chain(seed: int, blocks: int) -> list[CacheStored]:
    units = extend_chain(ROOT, prompt_of(32 * blocks, seed))
    return [
        CacheStored(units[2 * i - 1] if i else ROOT, tuple(units[2 * i : 2 * i + 2]))
        for i in range(blocks)
    ]


def feed() -> tuple[CacheFeed, list[Message]]:
    said: list[Message] = []
    return CacheFeed(lambda message: said.append(message) is None), said


def test_a_chain_is_one_run_and_another_begins_anew() -> None:
    a, b = chain(1, 3), chain(2, 2)
    assert runs_of([*a, *b]) == [a, b]
    assert runs_of([a[0], b[0], a[1]]) == [[a[0]], [b[0]], [a[1]]]
    assert runs_of([]) == []


def test_events_are_numbered_from_one_stored_before_removed() -> None:
    (cache_feed, said), a, b = feed(), chain(1, 3), chain(2, 1)
    gone = (a[2].units[0], a[2].units[1])
    cache_feed.changed(CacheChanged((*a, *b), gone))
    cache_feed.changed(CacheChanged((), (b[0].units[0],)))
    units = [unit for block in a for unit in block.units]
    assert said == [
        BlocksStored(1, Medium.DEVICE, ROOT, pack_hashes(units)),
        BlocksStored(2, Medium.DEVICE, ROOT, pack_hashes(b[0].units)),
        BlocksRemoved(3, Medium.DEVICE, pack_hashes(gone)),
        BlocksRemoved(4, Medium.DEVICE, b[0].units[0]),
    ]


def test_an_event_that_could_not_be_sent_leaves_a_gap() -> None:
    heard: list[Message] = []
    up = False

    def send(message: Message) -> bool:
        if up:
            heard.append(message)
        return up

    cache_feed = CacheFeed(send)
    cache_feed.changed(CacheChanged(tuple(chain(1, 1)), ()))
    up = True
    cache_feed.changed(CacheChanged(tuple(chain(2, 1)), ()))
    assert [message.number for message in heard if isinstance(message, BlocksStored)] == [2]


def test_a_snapshot_pairs_every_unit_with_its_parent_as_of_the_last_event() -> None:
    (cache_feed, said), blocks = feed(), [*chain(1, 2), *chain(2, 1)]
    cache_feed.changed(CacheChanged(tuple(blocks), ()))
    said.clear()
    cache_feed.snapshot(blocks)
    (snapshot,) = said
    assert isinstance(snapshot, Snapshot)
    assert (snapshot.number, snapshot.part, snapshot.last) == (2, 0, True)
    units = [unit for block in blocks for unit in block.units]
    assert unpack_hashes(snapshot.units) == units
    a, b = units[:4], units[4:]
    assert unpack_hashes(snapshot.parents) == [ROOT, *a[:-1], ROOT, *b[:-1]]


def test_who_has_nothing_sends_an_empty_snapshot() -> None:
    cache_feed, said = feed()
    cache_feed.snapshot([])
    assert said == [Snapshot(0, Medium.DEVICE, b"", b"", part=0, last=True)]


def test_much_goes_in_parts_that_fit_a_message() -> None:
    cache_feed, said = feed()
    units = [UnitHash(number.to_bytes(32, "big")) for number in range(3 * PART_UNITS)]
    blocks = [
        CacheStored(UnitHash(bytes(32)), tuple(units[start : start + 2]))
        for start in range(0, 2 * PART_UNITS + 10, 2)
    ]
    cache_feed.snapshot(blocks)
    parts = [part for part in said if isinstance(part, Snapshot)]
    assert [(part.part, part.last) for part in parts] == [(0, False), (1, False), (2, True)]
    assert sum(len(unpack_hashes(part.units)) for part in parts) == 2 * PART_UNITS + 10
    said.clear()
    cache_feed.changed(CacheChanged((), tuple(units)))
    assert [removed.number for removed in said if isinstance(removed, BlocksRemoved)] == [1, 2, 3]
    assert b"".join(r.units for r in said if isinstance(r, BlocksRemoved)) == b"".join(units)
    codec = Codec(TAGS)
    assert all(len(codec.encode(message)) < MAX_MESSAGE_BYTES / 2 for message in [*parts, *said])


@on_a_warped_clock
async def test_a_workers_events_add_up_to_its_snapshot() -> None:
    async with Stage() as stage:
        decode = await stage.worker("decode-0", slots=12)
        for index in range(5):
            submit = stage.submit(f"r{index}", prompt_of(150, seed=index))
            await stage.finish(stage.assign(decode, submit))
        known: set[UnitHash] = set()
        numbers: list[int] = []
        for _, message in stage.router.heard:
            match message:
                case BlocksStored(number, Medium.DEVICE, _, units):
                    numbers.append(number)
                    known |= set(unpack_hashes(units))
                case BlocksRemoved(number, Medium.DEVICE, units):
                    numbers.append(number)
                    known -= set(unpack_hashes(units))
        assert numbers == list(range(1, len(numbers) + 1))
        stage.router.to["decode-0"].send(SnapshotWanted())
        await stage.until(lambda: bool(stage.router.all(Snapshot)))
        (snapshot,) = stage.router.all(Snapshot)
        assert snapshot.number == numbers[-1]
        assert set(unpack_hashes(snapshot.units)) == known
        assert len(known) > 8
        assert any(isinstance(message, BlocksRemoved) for _, message in stage.router.heard)
