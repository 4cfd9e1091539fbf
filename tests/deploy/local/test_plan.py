from dataclasses import replace
from pathlib import Path

import pytest

from deploy.local.errors import DeployError
from deploy.local.plan import (
    MIB,
    PROGRAM_BYTES,
    ProcessSpec,
    Site,
    memory_needed,
    plan,
    ports_needed,
)
from deploy.local.topology import parse_topology

SITE = Site(
    sockets=Path("/r/sockets"),
    cache=Path("/c"),
    http_port=8000,
    free_ports=tuple(range(9000, 9040)),
    cores=4,
    environment={},
)
ONE_EACH = parse_topology('name = "x"\n[prefill]\ncount = 1', "x.toml")


def planned(text: str, site: Site = SITE) -> dict[str, ProcessSpec]:
    topology = parse_topology(f'name = "x"\n{text}', "x.toml")
    return {spec.name: spec for spec in plan(topology, site, "/m.gguf")}


def test_processes_come_in_starting_order_with_their_modules() -> None:
    specs = plan(ONE_EACH, SITE, "/m.gguf")
    assert [(spec.name, spec.module) for spec in specs] == [
        ("router-0", "services.router"),
        ("kvstore-0", "services.kvstore"),
        ("prefill-0", "services.prefill"),
        ("decode-0", "services.decode"),
        ("gateway-0", "services.gateway"),
    ]


def test_everybody_knows_its_own_place_and_the_routers() -> None:
    specs = plan(ONE_EACH, SITE, "/m.gguf")
    for spec in specs:
        assert spec.env["TWINFLEET_NAME"] == spec.name
        assert spec.env["TWINFLEET_RUN_DIR"] == "/r/sockets"
        assert spec.env["TWINFLEET_ADMIN_PORT"] == str(spec.admin_port)
        assert spec.env["TWINFLEET_BIND_ADDRESS"] == f"ipc:///r/sockets/{spec.name}"
        assert spec.env["TWINFLEET_HOST"] == ""
    router, *others = specs
    assert router.env["TWINFLEET_ROUTER_ADDRESS"] == ""
    assert {spec.env["TWINFLEET_ROUTER_ADDRESS"] for spec in others} == {
        "ipc:///r/sockets/router-0"
    }


def test_no_two_processes_share_an_admin_port() -> None:
    specs = planned("[prefill]\ncount = 4\n[decode]\ncount = 4")
    assert len({spec.admin_port for spec in specs.values()}) == len(specs)


def test_only_those_who_need_the_model_are_told_of_it() -> None:
    specs = planned("[prefill]\ncount = 1")
    told = {name for name, spec in specs.items() if "TWINFLEET_MODEL" in spec.env}
    assert told == {"prefill-0", "decode-0", "gateway-0"}
    assert specs["decode-0"].env["TWINFLEET_MODEL"] == "/m.gguf"
    assert specs["decode-0"].env["TWINFLEET_CACHE"] == "/c"
    assert specs["gateway-0"].env["TWINFLEET_ENGINE"] == "auto"


def test_workers_share_the_cores_unless_told_otherwise() -> None:
    specs = planned("[prefill]\ncount = 1\n[decode]\ncount = 1\nthreads = 3")
    assert specs["prefill-0"].env["TWINFLEET_THREADS"] == "2"
    assert specs["decode-0"].env["TWINFLEET_THREADS"] == "3"
    crowded = planned("[decode]\ncount = 9")
    assert crowded["decode-8"].env["TWINFLEET_THREADS"] == "1"


def test_gateways_listen_on_consecutive_ports() -> None:
    specs = planned("[gateway]\ncount = 2")
    ports = [specs[f"gateway-{index}"].env["TWINFLEET_HTTP_PORT"] for index in range(2)]
    assert ports == ["8000", "8001"]
    assert specs["gateway-0"].env["TWINFLEET_HTTP_HOST"] == "127.0.0.1"


def test_over_tcp_every_process_has_a_port_and_every_worker_a_host_of_its_own() -> None:
    specs = planned('transport = "tcp"\n[prefill]\ncount = 1')
    addresses = [spec.env["TWINFLEET_BIND_ADDRESS"] for spec in specs.values()]
    assert all(address.startswith("tcp://127.0.0.1:") for address in addresses)
    assert len(set(addresses)) == len(addresses)
    hosts = [specs[name].env["TWINFLEET_HOST"] for name in ("prefill-0", "decode-0", "kvstore-0")]
    assert len(set(hosts)) == 3
    assert "" not in hosts
    router = specs["router-0"].env["TWINFLEET_BIND_ADDRESS"]
    assert specs["decode-0"].env["TWINFLEET_ROUTER_ADDRESS"] == router
    bound = {int(address.rsplit(":", 1)[1]) for address in addresses}
    assert not bound & {spec.admin_port for spec in specs.values()}


def test_a_setting_is_taken_from_topology_then_environment_then_default() -> None:
    key = "TWINFLEET_KV_POOL_BYTES"
    assert planned("")["decode-0"].env[key] == str(512 * MIB)
    asked = replace(SITE, environment={key: "4096"})
    assert planned("", asked)["decode-0"].env[key] == "4096"
    own = "[decode]\ncount = 1\nsettings = { kv_pool_bytes = 8192, verbose = true }"
    assert planned(own, asked)["decode-0"].env[key] == "8192"
    assert planned(own, asked)["decode-0"].env["TWINFLEET_VERBOSE"] == "true"


def test_the_callers_environment_cannot_change_who_a_process_is() -> None:
    site = replace(
        SITE, environment={"TWINFLEET_NAME": "me", "TWINFLEET_BIND_ADDRESS": "tcp://*:1"}
    )
    decode = planned("", site)["decode-0"]
    assert decode.env["TWINFLEET_NAME"] == "decode-0"
    assert decode.env["TWINFLEET_BIND_ADDRESS"] == "ipc:///r/sockets/decode-0"


def test_a_policy_reaches_the_router_alone() -> None:
    specs = planned('policy = "random"')
    assert specs["router-0"].env["TWINFLEET_POLICY"] == "random"
    assert "TWINFLEET_POLICY" not in specs["decode-0"].env
    assert "TWINFLEET_POLICY" not in planned("")["router-0"].env


@pytest.mark.parametrize(("transport", "ports"), [("ipc", 5), ("tcp", 10)])
def test_ports_needed_are_the_ports_used(transport: str, ports: int) -> None:
    topology = parse_topology(
        f'name = "x"\ntransport = "{transport}"\n[prefill]\ncount = 1', "x.toml"
    )
    assert ports_needed(topology) == ports
    plan(topology, replace(SITE, free_ports=tuple(range(9000, 9000 + ports))), "")
    with pytest.raises(DeployError, match=f"needs {ports} ports"):
        plan(topology, replace(SITE, free_ports=tuple(range(9000, 8999 + ports))), "")


def test_memory_counts_pools_arena_and_programs() -> None:
    site = replace(SITE, environment={"TWINFLEET_KV_POOL_BYTES": str(100 * MIB)})
    small = memory_needed(tuple(planned("[prefill]\ncount = 1", site).values()), {})
    specs = tuple(planned("[prefill]\ncount = 1").values())
    large = memory_needed(specs, {})
    assert large == 3 * 512 * MIB + 5 * PROGRAM_BYTES
    assert large - small == 2 * 412 * MIB
    with_model = memory_needed(specs, {"decode-0": 300 * MIB, "prefill-0": 200 * MIB})
    assert with_model - large == 500 * MIB - 2 * PROGRAM_BYTES


def test_a_pool_that_is_no_number_is_refused_by_name() -> None:
    site = replace(SITE, environment={"TWINFLEET_KV_POOL_BYTES": "1GB"})
    with pytest.raises(DeployError, match="TWINFLEET_KV_POOL_BYTES='1GB'"):
        memory_needed(tuple(planned("", site).values()), {})
