"""How a result came about: by which code, command and scenario, on which machine, when."""

import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from pydantic import JsonValue, TypeAdapter

from common.engine.bench.machine import load_average, machine
from common.engine.bench.revision import revision
from loadtest.scenario import Scenario
from loadtest.summary import Origin, utc, without_password, without_secrets

_TABLE = TypeAdapter(dict[str, JsonValue])


def origin_of(scenario: Scenario, target: str, model: str, arguments: Sequence[str]) -> Origin:
    """Taken before anything is measured: the load average is of the minute before."""
    return Origin(
        version=version("twinfleet"),
        at=utc(time.time()),
        command=["python", "-m", "loadtest", *without_secrets(arguments)],
        target=without_password(target),
        model=model,
        machine=_TABLE.validate_python(machine() | {"load_average": load_average()}),
        revision=_TABLE.validate_python(revision(Path(__file__).parent)),
        scenario=_TABLE.validate_python(scenario.model_dump(mode="json")),
    )
