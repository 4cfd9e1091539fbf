"""Time to the first token of a prompt that the prefix cache has but for its end."""

from collections.abc import Iterator

from common.engine.bench.rig import Rig
from common.engine.bench.row import Row
from common.engine.bench.sizes import Sizes
from common.engine.bench.workload import first_token


def rows(rig: Rig, sizes: Sizes) -> Iterator[Row]:
    prompt = rig.tokens(sizes.warm_prompt)
    engine = rig.engine()
    cold = first_token(engine, prompt)
    measured = rig.measure(lambda: first_token(engine, prompt), sizes.steps)
    details = {"cold_ms": cold * 1e3, "cached_tokens": float(engine.cached_tokens)}
    milliseconds = measured.timing.seconds * 1e3
    case = f"{sizes.warm_prompt} cached"
    yield Row("warm", case, milliseconds, "ms", measured.timing, measured.work, details)
