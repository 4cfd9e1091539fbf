"""What goes into an engine and what comes out of it.

The engine's thread and the worker's event loop exchange only these: commands one way, events the
other. A *job* is one attempt with its n choices.
"""

from dataclasses import dataclass, field

from common.domain.errors import ErrorCode
from common.domain.finish import FinishReason
from common.domain.ids import AttemptKey, UnitHash
from common.domain.ledger import Ledger
from common.domain.sampling import SamplingParams
from common.engine.prefix_cache import CacheStored
from common.engine.runner import Drawn


@dataclass(frozen=True, slots=True)
class Add:
    """Reserve blocks for the prompt; answered by Held or Refused, in order of arrival.

    `hand_off`: draw one token per choice after the prompt and end there; somebody else goes on.
    """

    key: AttemptKey
    prompt: list[int]
    units: list[UnitHash]
    root: UnitHash
    params: SamplingParams
    hand_off: bool = False


@dataclass(frozen=True, slots=True)
class Start:
    """The first `computed` tokens lie verified in the held blocks: compute the rest here. Report
    final prompt blocks from `export_from` on in Computed; None reports none."""

    key: AttemptKey
    computed: int
    export_from: int | None = None


@dataclass(frozen=True, slots=True)
class Deliver:
    """The whole prompt lies verified in the held blocks, and these are the first tokens."""

    key: AttemptKey
    first: tuple[Drawn, ...]


@dataclass(frozen=True, slots=True)
class Drop:
    """Forget the job in whatever state it is. Nobody writes into its blocks any more."""

    key: AttemptKey


@dataclass(frozen=True, slots=True)
class Unpin:
    """Blocks of a Computed event have been read."""

    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ResetCache:
    """Forget every cached block that nobody uses."""


@dataclass(frozen=True, slots=True)
class WantSnapshot:
    """Answered by Contents."""


Command = Add | Start | Deliver | Drop | Unpin | ResetCache | WantSnapshot


@dataclass(frozen=True, slots=True)
class Held:
    """`slots` are reserved for the prompt; their first `cached_tokens` are there already."""

    key: AttemptKey
    slots: tuple[int, ...]
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class Refused:
    key: AttemptKey
    code: ErrorCode
    message: str


@dataclass(frozen=True, slots=True)
class Revoke:
    """A running sequence needs blocks: whoever writes into this held job must stop and Drop it."""

    key: AttemptKey


@dataclass(frozen=True, slots=True)
class Computed:
    """Blocks `first`.. of the job's prompt are final. They stay pinned until Unpin.

    With `last` the prompt is done; its partial tail block, if any, is among them then when the
    job hands off.
    """

    key: AttemptKey
    first: int
    slots: tuple[int, ...]
    last: bool


@dataclass(frozen=True, slots=True)
class FirstDrawn:
    """A hand-off job is done: one token per choice."""

    key: AttemptKey
    first: tuple[Drawn, ...]
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class Emitted:
    """One token of one choice; `index` counts from 0 in its output."""

    key: AttemptKey
    choice: int
    index: int
    drawn: Drawn
    finish: FinishReason | None


@dataclass(frozen=True, slots=True)
class Done:
    """Every choice has ended and nothing is held."""

    key: AttemptKey
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class Dropped:
    """Answer to Drop of a living job: what it had cost until then."""

    key: AttemptKey
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class CacheChanged:
    stored: tuple[CacheStored, ...]
    removed: tuple[UnitHash, ...]


@dataclass(frozen=True, slots=True)
class Contents:
    stored: tuple[CacheStored, ...]


EngineEvent = (
    Held
    | Refused
    | Revoke
    | Computed
    | FirstDrawn
    | Emitted
    | Done
    | Dropped
    | CacheChanged
    | Contents
)


@dataclass(slots=True, eq=False)
class Job:
    """The engine's own record of an attempt."""

    add: Add
    ledger: Ledger = field(default_factory=Ledger)
    exported: int | None = None
    """Prompt blocks reported so far; None: nobody wants to know."""
    unfinished: int = 1
