"""An engine without a model, for clusters of many workers on one small machine.

It fakes the model, not the protocol. The KV of a token is a hash of the KV before it, the token and
its position; the next token is a hash of *all* KV bytes of the sequence, read through its block
table from the real pool. A block that is wrong, stale, swapped or truncated on any way it travelled
shows as another token. `expected_output` says in a few lines what must come out.
"""

import hashlib
import struct
import zlib
from collections.abc import Callable, Sequence

import numpy as np

from common.domain.block import LayoutTag
from common.domain.errors import ServingError
from common.domain.sampling import SamplingParams
from common.engine.runner import Batch, Draw, Drawn

KV_BYTES = 16
VOCAB = 260
BOS, EOS = 256, 257
PRINTABLE, FIRST_PRINTABLE = 95, 32


def mock_layout(block_tokens: int) -> LayoutTag:
    return LayoutTag("uint8", block_tokens, 1, 0, 1, KV_BYTES // 2)


def token_kv(before: bytes, token: int, position: int) -> bytes:
    """The 16 bytes that stand for the key (first half) and value of one token."""
    return hashlib.sha256(before + struct.pack("<iq", token, position)).digest()[:KV_BYTES]


def next_token(kv: bytes, params: SamplingParams, choice: int, position: int) -> int:
    """Drawn from every KV byte so far; printable, so that byte streams are readable text."""
    digest = zlib.crc32(kv)
    if params.temperature > 0:
        digest = zlib.crc32(struct.pack("<QII", params.seed, choice, position), digest)
    return FIRST_PRINTABLE + digest % PRINTABLE


def expected_output(
    prompt: Sequence[int], params: SamplingParams, choice: int = 0, count: int | None = None
) -> list[int]:
    """What a correct system emits, computed without blocks, batches or peers."""
    kv, before, output = b"", b"", list[int]()
    for position, token in enumerate(prompt):
        before = token_kv(before, token, position)
        kv += before
    for _ in range(params.max_tokens if count is None else count):
        output.append(next_token(kv, params, choice, len(output)))
        before = token_kv(before, output[-1], len(prompt) + len(output) - 1)
        kv += before
    return output


class MockRunner:
    """Implements Runner over plain bytes."""

    def __init__(
        self,
        block_tokens: int,
        context_tokens: int = 8192,
        pause: Callable[[int, int], None] = lambda prefill_rows, decode_rows: None,
    ) -> None:
        """`pause` is called in each step with its row counts: a place to spend time."""
        self.layout = mock_layout(block_tokens)
        self.vocab = VOCAB
        self.context_tokens = context_tokens
        self.eos_token_ids: tuple[int, ...] = (EOS,)
        self._pause = pause
        self._pool = np.zeros((0, 2, block_tokens, KV_BYTES // 2), dtype=np.uint8)

    def bind(self, memory: memoryview, slots: int, slot_bytes: int) -> None:
        if self._pool.size:
            raise ServingError("the runner has a pool already")
        flat = np.frombuffer(memory, dtype=np.uint8).reshape(slots, slot_bytes)
        block = flat[:, : self.layout.block_bytes]
        self._pool = block.reshape(slots, 2, self.layout.block_tokens, KV_BYTES // 2)

    def step(self, batch: Batch) -> list[Drawn]:
        lengths: dict[int, tuple[int, int]] = {}
        for index, table in enumerate(batch.tables):
            first, stop = int(batch.starts[index]), int(batch.starts[index + 1])
            start = int(batch.positions[first])
            self._write(table.tolist(), batch.tokens[first:stop].tolist(), start)
            lengths[stop - 1] = (index, start + stop - first)
        single = int((np.diff(batch.starts) == 1).sum())
        self._pause(len(batch.tokens) - single, single)
        return [self._draw(batch, draw, lengths) for draw in batch.draws]

    def _draw(self, batch: Batch, draw: Draw, lengths: dict[int, tuple[int, int]]) -> Drawn:
        index, length = lengths[int(batch.rows[draw.row])]
        kv = self._read(batch.tables[index].tolist(), length)
        token = next_token(kv, draw.params, draw.choice, len(draw.output))
        if draw.params.logprobs is None:
            return Drawn(token)
        return Drawn(token, -0.5, ((token, -0.5),)[: draw.params.logprobs])

    def _write(self, table: list[int], tokens: list[int], start: int) -> None:
        size = self.layout.block_tokens
        before = b"" if start == 0 else self._at(table, start - 1)
        for position, token in enumerate(tokens, start):
            before = token_kv(before, token, position)
            entry = np.frombuffer(before, dtype=np.uint8).reshape(2, KV_BYTES // 2)
            self._pool[table[position // size], :, position % size] = entry

    def _at(self, table: list[int], position: int) -> bytes:
        size = self.layout.block_tokens
        return self._pool[table[position // size], :, position % size].tobytes()

    def _read(self, table: list[int], length: int) -> bytes:
        blocks = self._pool[table[: -(-length // self.layout.block_tokens)]]
        # [blocks, K/V, token, byte] -> token by token, key before value
        return blocks.transpose(0, 2, 1, 3).tobytes()[: length * KV_BYTES]

    def copy_block(self, source: int, target: int) -> None:
        self._pool[target] = self._pool[source]

    def to_host(self, slots: Sequence[int]) -> None:
        """The pool is host memory."""

    def to_device(self, slots: Sequence[int]) -> None:
        """The pool is host memory."""
