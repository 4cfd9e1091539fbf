"""What one process is asked to measure, as text between processes."""

import json
from dataclasses import dataclass
from pathlib import Path

from common.engine.bench.backend import RunnerChoice


@dataclass(frozen=True, slots=True)
class Spec:
    choice: RunnerChoice
    parts: tuple[str, ...]
    quick: bool

    def to_json(self) -> str:
        c = self.choice
        return json.dumps(
            {
                "engine": c.engine,
                "arithmetic": c.arithmetic,
                "threads": c.threads,
                "model": str(c.model),
                "cache": str(c.cache),
                "block_tokens": c.block_tokens,
                "parts": self.parts,
                "quick": self.quick,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> "Spec":
        values = json.loads(text)
        parts, quick = tuple(values.pop("parts")), values.pop("quick")
        model, cache = Path(values.pop("model")), Path(values.pop("cache"))
        return cls(RunnerChoice(model=model, cache=cache, **values), parts, quick)
