"""Arenas with seeded content, in this process and in a real one of their own."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from common.domain.block import ArenaRef, Descriptor
from common.domain.ids import Incarnation, ProcessId, ProcessName
from common.store.arena import Arena
from common.store.publish import publish

ROOT = Path(__file__).parents[2]
SLOTS = 8
SLOT_BYTES = 8192


def block_bytes(seed: int, length: int) -> bytes:
    return np.random.default_rng(seed).bytes(length)


def filled_arena(slots: int = SLOTS, slot_bytes: int = SLOT_BYTES) -> Arena:
    """Slot i holds block_bytes(i)."""
    arena = Arena.create("test", slots, slot_bytes)
    for slot in range(slots):
        refill(arena, slot, slot)
    return arena


def refill(arena: Arena, slot: int, seed: int) -> None:
    arena.bump(slot)
    arena.view(slot)[:] = block_bytes(seed, arena.slot_bytes)


def targets_for(blocks: int, length: int) -> list[memoryview]:
    return [memoryview(bytearray(length)) for _ in range(blocks)]


class HolderProcess:
    """A process with a filled, published arena. A context manager: it never outlives the test."""

    def __init__(self, run_dir: Path, data_address: str = "") -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-m", "tests.support.arenas", str(run_dir), data_address],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        told = json.loads(self._line())
        self.ref = ArenaRef(**told["ref"])
        self.descriptors = [Descriptor(*row) for row in told["descriptors"]]

    def _line(self) -> str:
        assert self.child.stdout is not None
        return self.child.stdout.readline()

    def refill(self, slot: int, seed: int) -> None:
        """Let the holder reuse a slot for other content."""
        assert self.child.stdin is not None
        self.child.stdin.write(f"{slot} {seed}\n")
        self.child.stdin.flush()
        assert self._line() == "done\n"

    def kill(self) -> None:
        self.child.kill()
        self.child.wait()

    def __enter__(self) -> "HolderProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for pipe in (self.child.stdin, self.child.stdout):
            assert pipe is not None
            pipe.close()


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _hold(run_dir: str, data_address: str) -> None:
    arena = filled_arena()
    me = ProcessId(ProcessName("holder-0"), Incarnation(7))
    publication = publish(arena, me, "here", Path(run_dir), data_address)
    ref = {name: getattr(publication.ref, name) for name in ArenaRef.__dataclass_fields__}
    blocks = [arena.describe(slot, SLOT_BYTES) for slot in range(SLOTS)]
    rows = [(block.slot, block.generation, block.crc) for block in blocks]
    _say(json.dumps({"ref": ref, "descriptors": rows}))
    for line in sys.stdin:
        slot, seed = map(int, line.split())
        refill(arena, slot, seed)
        _say("done")
    publication.close()


if __name__ == "__main__":
    _hold(sys.argv[1], sys.argv[2])
