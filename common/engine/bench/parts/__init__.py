"""What the benchmark measures. A part takes a rig and sizes, and yields rows."""

from collections.abc import Callable, Iterator

from common.engine.bench.parts import decode, mixed, prefill, streams, verify, warm
from common.engine.bench.rig import Rig
from common.engine.bench.row import Row
from common.engine.bench.sizes import Sizes

PARTS: dict[str, Callable[[Rig, Sizes], Iterator[Row]]] = {
    "prefill": prefill.rows,
    "decode": decode.rows,
    "verify": verify.rows,
    "streams": streams.rows,
    "warm": warm.rows,
    "mixed": mixed.rows,
}
