"""Every shipped topology against every service: what the plan says is what the service reads."""

import importlib
import inspect
import os
from pathlib import Path

import pytest

from common.runtime.settings import ENV_PREFIX, ProcessSettings
from deploy.local.plan import ProcessSpec, Site, plan, ports_needed
from deploy.local.up import TOPOLOGIES, load_topology

NAMES = sorted(path.stem for path in TOPOLOGIES.glob("*.toml"))


def specs(name: str) -> tuple[ProcessSpec, ...]:
    topology = load_topology(name)
    site = Site(
        sockets=Path("/sockets"),
        cache=Path("/cache"),
        http_port=8000,
        free_ports=tuple(range(20_000, 20_000 + ports_needed(topology))),
        cores=2,
        environment={},
    )
    return plan(topology, site, "" if topology.engine == "mock" else "/model.gguf")


def settings_class(spec: ProcessSpec) -> type[ProcessSettings]:
    module = importlib.import_module(f"{spec.module}.settings")
    (found,) = [
        member
        for _, member in inspect.getmembers(module, inspect.isclass)
        if issubclass(member, ProcessSettings) and member.__module__ == module.__name__
    ]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_process_of_a_plan_reads_all_it_is_told(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for spec in specs(name):
        reads = settings_class(spec)
        unknown = [
            variable
            for variable in spec.env
            if variable.removeprefix(ENV_PREFIX).lower() not in reads.model_fields
        ]
        assert unknown == [], f"{spec.name} does not read these"
        with monkeypatch.context() as environment:
            for variable in os.environ:
                if variable.startswith(ENV_PREFIX):
                    environment.delenv(variable)
            for variable, value in spec.env.items():
                environment.setenv(variable, value)
            settings = reads()
        assert settings.name == spec.name
        assert settings.admin_port == spec.admin_port
