"""Tokens a second of n streams together, from their common start, through the whole engine."""

import statistics
from collections.abc import Iterator

from common.engine.bench.rig import Rig
from common.engine.bench.row import Row
from common.engine.bench.sizes import Sizes
from common.engine.bench.workload import Answered, answer


def rows(rig: Rig, sizes: Sizes) -> Iterator[Row]:
    for count in sizes.streams:
        yield _row(rig, sizes, count)


def _row(rig: Rig, sizes: Sizes, count: int) -> Row:
    engine = rig.engine()
    answers: list[Answered] = []

    def scene() -> None:
        prompts = rig.prompts(count, sizes.stream_prompt)
        answers.append(answer(engine, prompts, sizes.stream_output))

    measured = rig.measure(scene, sizes.scenes)
    counted = answers[1:]
    outside = statistics.fmean(one.seconds for one in counted) - measured.forward_seconds
    details = {
        "decode_tokens_s": statistics.median(one.decode_tokens_s for one in counted),
        "outside_forward_ms_a_step": outside / measured.steps * 1e3,
        "steps": measured.steps,
    }
    rate = statistics.median(one.tokens_s for one in counted)
    case = f"{count} streams"
    return Row("streams", case, rate, "tokens/s", measured.timing, measured.work, details)
