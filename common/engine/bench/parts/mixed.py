"""The longest gap of running streams while a long prompt arrives, beside the gap without it.

The engine learns from its steps how much prompt fits between two tokens, so one engine plays all
scenes, and the first does not count.
"""

import statistics
from collections.abc import Iterator

from common.engine.bench.rig import Rig
from common.engine.bench.row import Row
from common.engine.bench.sizes import Sizes
from common.engine.bench.workload import Disturbed, disturb


def rows(rig: Rig, sizes: Sizes) -> Iterator[Row]:
    count = sizes.disturbed_streams
    engine = rig.engine()
    scenes: list[Disturbed] = []

    def scene() -> None:
        prompts = rig.prompts(count, sizes.stream_prompt)
        (long_prompt,) = rig.prompts(1, sizes.long_prompt)
        scenes.append(disturb(engine, prompts, long_prompt, sizes.disturbed_output))

    measured = rig.measure(scene, sizes.scenes)
    counted = scenes[1:]
    details = {
        "idle_gap_ms": statistics.median(scene.idle_gap_s for scene in counted) * 1e3,
        "long_first_token_ms": statistics.median(scene.first_token_s for scene in counted) * 1e3,
    }
    gap = statistics.median(scene.longest_gap_s for scene in counted) * 1e3
    case = f"{count} streams, {sizes.long_prompt} arrive"
    yield Row("mixed", case, gap, "ms", measured.timing, measured.work, details)
