"""How much is measured: prompts, batches, contexts, repetitions. All in tokens but for counts."""

from dataclasses import dataclass

from common.engine.allocation import blocks_for
from common.engine.bench.timing import Repeats

_GROWTH = 512
"""Room of each disturbed stream for what it says while the long prompt is computed."""
_STEPS, _SCENES = Repeats(5, 1.0), Repeats(3, 0.0)


@dataclass(frozen=True, slots=True)
class Sizes:
    prefill: tuple[int, ...] = (128, 512, 2048)
    continued: tuple[int, int] = (512, 1536)
    """New tokens after cached ones."""
    batches: tuple[int, ...] = (1, 4, 8, 16, 32)
    contexts: tuple[int, ...] = (256, 2048)
    sharing: tuple[tuple[int, int, int], ...] = ((16, 1152, 1024),)
    """Batches, contexts, and how much of each is the same blocks."""
    verify_rows: tuple[int, ...] = (2, 4, 8, 16)
    verify_batches: tuple[int, ...] = (1, 4)
    verify_context: int = 256
    streams: tuple[int, ...] = (4, 8, 16, 32)
    stream_prompt: int = 64
    stream_output: int = 128
    warm_prompt: int = 2048
    disturbed_streams: int = 4
    disturbed_output: int = 40
    """Tokens of each stream before the long prompt arrives."""
    long_prompt: int = 2048
    steps: Repeats = _STEPS
    """Of one forward pass or prompt."""
    scenes: Repeats = _SCENES
    """Of many streams from beginning to end."""

    def slots(self, block_tokens: int) -> int:
        """Blocks of the largest single measurement."""
        disturbed = self.stream_prompt + self.disturbed_output + _GROWTH
        kinds = [
            (1, max(*self.prefill, sum(self.continued), self.warm_prompt + 1)),
            (max(self.batches), max(self.contexts)),
            *((batch, context) for batch, context, _ in self.sharing),
            (max(self.verify_batches), self.verify_context + max(self.verify_rows)),
            (max(self.streams), self.stream_prompt + self.stream_output),
        ]
        long = blocks_for(self.long_prompt, block_tokens)
        kinds_blocks = [count * blocks_for(tokens, block_tokens) for count, tokens in kinds]
        mixed = self.disturbed_streams * blocks_for(disturbed, block_tokens) + long
        return max(*kinds_blocks, mixed)


FULL = Sizes()
QUICK = Sizes(
    prefill=(128, 512),
    continued=(128, 512),
    batches=(1, 4, 16),
    contexts=(256,),
    sharing=((4, 256, 128),),
    verify_rows=(4,),
    streams=(4, 16),
    stream_output=32,
    warm_prompt=512,
    disturbed_output=10,
    long_prompt=512,
    steps=Repeats(2, 0.2),
    scenes=Repeats(1, 0.0),
)
