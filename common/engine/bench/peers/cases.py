"""The cases that peers are compared in: one number each, the same code on every side.

Prompts are new with every seed, so that no prefix cache helps where it is not asked to. Standard
library alone: peers import it with their own interpreters.
"""

from dataclasses import dataclass

from common.engine.bench.peers.peer import Peer
from common.engine.bench.workload import answer, disturb, first_token, prompt_of

KINDS = ("prefill", "streams", "one", "warm", "gap")
_SEEDS_A_CASE = 1000
_STREAM_PROMPT = 64
_WAKING_TOKENS = 16


@dataclass(frozen=True)
class Case:
    kind: str
    """One of KINDS."""
    size: int
    """Prompt tokens of prefill, warm and gap; streams of the others."""
    output: int = 1
    """Tokens of a stream; in gap, of each before the long prompt arrives."""
    streams: int = 4
    """In gap."""

    @property
    def name(self) -> str:
        return {
            "prefill": f"prefill {self.size}, tokens/s",
            "streams": f"{self.size} streams, tokens/s",
            "one": "1 stream, decode tokens/s",
            "warm": f"warm {self.size}, ms to the first token",
            "gap": f"longest gap of {self.streams} streams while {self.size} arrive, ms",
        }[self.kind]

    @property
    def more_is_better(self) -> bool:
        return self.kind in ("prefill", "streams", "one")


FULL = (
    *(Case("prefill", size) for size in (128, 512, 2048)),
    Case("one", 1, output=128),
    *(Case("streams", count, output=128) for count in (4, 8, 16, 32)),
    Case("warm", 2048),
    Case("gap", 2048, output=40),
)
QUICK = (
    Case("prefill", 128),
    Case("one", 1, output=16),
    Case("streams", 4, output=16),
    Case("warm", 256),
    Case("gap", 256, output=8),
)


def run_case(peer: Peer, case: Case, seed: int, vocab: int) -> float | None:
    """None: this peer cannot do that."""
    sized, waking, *prompts = (
        prompt_of(vocab, length, seed * _SEEDS_A_CASE + number)
        for number, length in enumerate([case.size] + [_STREAM_PROMPT] * 100)
    )
    # Cores that slept while the other side worked are slow at first.
    answer(peer, [waking], _WAKING_TOKENS)
    if case.kind == "prefill":
        return case.size / first_token(peer, sized)
    if case.kind == "one":
        return answer(peer, prompts[:1], case.output).decode_tokens_s
    if case.kind == "streams":
        return answer(peer, prompts[: case.size], case.output).tokens_s
    if case.kind == "gap":
        return disturb(peer, prompts[: case.streams], sized, case.output).longest_gap_s * 1e3
    if not peer.caches_prefixes:
        return None
    first_token(peer, sized)
    return first_token(peer, sized) * 1e3
