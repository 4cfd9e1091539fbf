"""When a choice ends, as far as ids can tell; stop strings are the gateway's."""

from common.domain.finish import FinishReason
from common.engine.sequence import Sequence


def finish_of(
    sequence: Sequence, eos_token_ids: tuple[int, ...], context_tokens: int
) -> FinishReason | None:
    """Judged after the newest token. End tokens before min_tokens were banned from being drawn."""
    params = sequence.params
    newest = sequence.output[-1]
    if newest in params.stop_token_ids:
        return FinishReason.STOP
    if newest in eos_token_ids and not params.ignore_eos:
        return FinishReason.STOP
    if len(sequence.output) >= params.max_tokens or sequence.length >= context_tokens:
        return FinishReason.LENGTH
    return None
