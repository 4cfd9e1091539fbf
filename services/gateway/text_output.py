"""The text of one choice, as its ids come in.

Owns the incremental detokenizer and the stop matcher of the choice. What is returned is never
taken back, no chunk holds half a character, and nothing of a stop string leaks. The result does not
depend on how the ids were cut into rows.

Each log-probability belongs to a token, and a token to the place in the text where it begins: it is
released together with the first text at or after that place, and dropped when the text was cut
before it. So the tokens of the log-probabilities are the tokens of the text.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from common.domain.finish import FinishReason
from common.text.detokenizer import Detokenizer
from common.text.stop import StopMatcher
from common.text.tokenizer import Tokenizer
from common.wire.columns import unpack_i32
from common.wire.messages.tokens import TokenLogprobs


@dataclass(frozen=True, slots=True)
class TextOptions:
    """How the ids of one request become text."""

    stops: tuple[str, ...] = ()
    include_stop: bool = False
    skip_special: bool = True
    eos_ids: frozenset[int] = frozenset()
    stop_ids: frozenset[int] = frozenset()
    """Ids whose coming ends a choice. That last id is no part of the text unless `include_stop`."""
    min_tokens: int = 0
    """Stop strings are looked for from this token on."""
    with_ids: bool = False
    """Deltas name the ids as well, each as soon as it is here, whatever text it makes."""


@dataclass(frozen=True, slots=True)
class TokenText:
    """One token of the output with its log-probability and its rivals'."""

    token: bytes
    logprob: float
    offset: int
    """Characters of the choice's text before it."""
    top: tuple[tuple[bytes, float], ...]


@dataclass(frozen=True, slots=True)
class Finish:
    reason: FinishReason
    stop: str | int | None = None
    """The stop string or stop token id that ended it; None for the model's own end."""


@dataclass(slots=True)
class Delta:
    """What is new of one choice; two in a row add up to one."""

    text: list[str] = field(default_factory=list)
    logprobs: list[TokenText] = field(default_factory=list)
    finish: Finish | None = None
    ids: list[int] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.text or self.logprobs or self.ids or self.finish is not None)

    def add(self, later: "Delta") -> None:
        self.text += later.text
        self.logprobs += later.logprobs
        self.finish = later.finish
        self.ids += later.ids


class ChoiceText:
    def __init__(self, tokenizer: Tokenizer, options: TextOptions) -> None:
        self._token_bytes = tokenizer.token_bytes
        self._options = options
        self._detokenizer = Detokenizer(tokenizer, skip_special=options.skip_special)
        self._matcher = StopMatcher(options.stops, include_stop=options.include_stop)
        self._decoded = 0
        """Characters that the detokenizer has given."""
        self._sent = 0
        self._pending: list[TokenText] = []
        self._doubtful: tuple[int, TokenLogprobs | None] | None = None
        """A token that may be the end. Its row need not say so: a first token is sent on before
        anybody has judged it."""
        self._ended = False
        self.tokens = 0
        """Ids up to the one that ended the choice, that one included."""

    def push(
        self,
        ids: Sequence[int],
        finish: FinishReason | None = None,
        logprobs: Sequence[TokenLogprobs] = (),
    ) -> Delta:
        """`logprobs` is empty or as long as `ids`. Nothing follows a delta with a finish."""
        delta = Delta()
        for index, token in enumerate(ids):
            self._settle(delta)
            if self._ended:
                return delta
            self.tokens += 1
            if self._options.with_ids:
                delta.ids.append(token)
            self._doubtful = token, logprobs[index] if logprobs else None
            if not self._may_end(token):
                self._settle(delta)
        if finish is not None and not self._ended:
            self._end(delta, finish)
        return delta

    def _may_end(self, token: int) -> bool:
        return token in self._options.eos_ids or token in self._options.stop_ids

    def _settle(self, delta: Delta) -> None:
        """The doubtful token is text."""
        if self._doubtful is None:
            return
        token, logprobs = self._doubtful
        self._doubtful = None
        if logprobs is not None:
            self._pending.append(self._token_text(token, logprobs))
        self._take(delta, self._detokenizer.push([token]))

    def _take(self, delta: Delta, text: str) -> None:
        self._decoded += len(text)
        if self.tokens <= self._options.min_tokens:
            self._send(delta, text)
            return
        text, stop = self._matcher.push(text)
        self._send(delta, text)
        if stop is not None:
            self._ended = True
            self._pending.clear()
            delta.finish = Finish(FinishReason.STOP, stop)

    def _end(self, delta: Delta, reason: FinishReason) -> None:
        """The writer has ended the choice: what was held back is text, unless it stops it."""
        finish = Finish(reason)
        if reason is FinishReason.STOP and self._doubtful is not None:
            token, _ = self._doubtful
            finish = Finish(reason, token if token in self._options.stop_ids else None)
            if not self._options.include_stop:
                self._doubtful = None
        self._settle(delta)
        if not self._ended:
            self._take(delta, self._detokenizer.finish())
        if not self._ended:
            self._ended = True
            self._send(delta, self._matcher.flush())
            delta.logprobs += self._pending
            self._pending = []
            delta.finish = finish

    def _send(self, delta: Delta, text: str) -> None:
        if not text:
            return
        delta.text.append(text)
        self._sent += len(text)
        ready = sum(token.offset < self._sent for token in self._pending)
        delta.logprobs += self._pending[:ready]
        del self._pending[:ready]

    def _token_text(self, token: int, logprobs: TokenLogprobs) -> TokenText:
        rivals = zip(unpack_i32(logprobs.top_ids).tolist(), logprobs.top, strict=False)
        top = tuple((self._token_bytes(rival), value) for rival, value in rivals)
        return TokenText(self._token_bytes(token), logprobs.chosen, self._decoded, top)
