"""One line of the report: what was measured, how long it took, what it could not do without."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from common.engine.bench.floors import Floors, Work
from common.engine.bench.timing import Timing


@dataclass(frozen=True, slots=True)
class Row:
    part: str
    case: str
    value: float
    unit: str
    timing: Timing
    work: Work
    """Of one repetition, in the wall time of `timing`."""
    details: Mapping[str, float] = field(default_factory=dict)

    def as_json(self, floors: Floors) -> dict[str, object]:
        return {
            "part": self.part,
            "case": self.case,
            "value": self.value,
            "unit": self.unit,
            **asdict(self.timing),
            **asdict(self.work),
            "reached": floors.reached(self.work, self.timing.seconds),
            "details": dict(self.details),
        }
