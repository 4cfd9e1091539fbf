"""Router, decode and prefill: placing an attempt, computing its prompt, handing its KV over."""

from dataclasses import dataclass

from common.domain.ids import AttemptKey
from common.domain.ledger import Ledger
from common.domain.peer import PeerRef
from common.domain.sampling import SamplingParams
from common.wire.messages.submit import Submit
from common.wire.messages.tokens import TokenLogprobs


@dataclass(frozen=True, slots=True)
class Assign:
    """Router to the worker that writes the stream."""

    submit: Submit
    gateway: PeerRef
    prefill: PeerRef | None
    """Who computes the prompt; None: the writer does."""
    queue_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Accepted:
    """Writer to router: blocks for the prompt are held."""

    key: AttemptKey


@dataclass(frozen=True, slots=True)
class PromptDone:
    """Writer to router: the prompt is computed, the first token is out."""

    key: AttemptKey


@dataclass(frozen=True, slots=True)
class Ended:
    """Writer to router: the attempt is over and nothing is held for it any more."""

    key: AttemptKey


@dataclass(frozen=True, slots=True)
class Prefill:
    """Decode to prefill: compute this prompt, offer me the blocks from `have_blocks` on."""

    key: AttemptKey
    prompt: bytes
    units: bytes
    sampling: SamplingParams
    have_blocks: int
    reader: PeerRef
    root: bytes = b""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Prefill to decode: blocks `first`.. of the prompt can be read. Columns of equal length.

    Offered blocks stay pinned until Released or until the lease of the attempt ends. A block past
    the last whole one is the prompt's tail: zero-padded, never cached under a name.
    """

    key: AttemptKey
    first: int
    slots: bytes
    generations: bytes
    crcs: bytes
    """int32 columns; crc32c as its signed image."""
    last: bool
    """No further block follows. Sent with or before FirstTokens."""


@dataclass(frozen=True, slots=True)
class FirstTokens:
    """Prefill to decode: one token per choice, drawn from the prompt's last row."""

    key: AttemptKey
    tokens: bytes
    ledger: Ledger
    logprobs: tuple[TokenLogprobs, ...] = ()


@dataclass(frozen=True, slots=True)
class Released:
    """Decode to prefill: everything is copied; unpin and forget the attempt."""

    key: AttemptKey


@dataclass(frozen=True, slots=True)
class Renew:
    """Upstream to downstream, every second: these attempts still live. What is not listed by the
    one who asked for it lapses when its lease ends."""

    keys: tuple[AttemptKey, ...]
