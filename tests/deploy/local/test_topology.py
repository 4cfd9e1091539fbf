from pathlib import Path

import pytest

from deploy.local.errors import DeployError
from deploy.local.topology import parse_topology
from deploy.local.up import TOPOLOGIES

SHIPPED = sorted(TOPOLOGIES.glob("*.toml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_topology_can_be_read_and_says_what_it_is(path: Path) -> None:
    topology = parse_topology(path.read_text(), str(path))
    assert topology.name == path.stem
    assert topology.description.endswith(".")


def test_the_promised_topologies_are_shipped() -> None:
    assert {path.stem for path in SHIPPED} >= {
        "1p1d",
        "aggregated",
        "2p2d",
        "mock-4p4d",
        "1p1d-tcp",
        "aggregated-1",
        "aggregated-2",
        "aggregated-1-prefill-first",
        "aggregated-2-prefill-first",
        "aggregated-1-static",
        "aggregated-1-contiguous",
        "replicas",
    }


def test_what_a_file_does_not_say_has_a_default() -> None:
    topology = parse_topology('name = "x"', "x.toml")
    counts = [topology.gateway.count, topology.router.count, topology.kvstore.count]
    assert counts == [1, 1, 1]
    assert (topology.prefill.count, topology.decode.count) == (0, 1)
    assert (topology.engine, topology.transport) == ("auto", "ipc")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('nam = "x"', "x.toml: nam: no such key"),
        ('name = "x"\n[decode]\ncount = 1\nthreds = 2', "x.toml: decode.threds: no such key"),
        ('name = "x"\n[worker]\ncount = 1', "x.toml: worker: no such key"),
        ('name = "x"\n[decode]\ncount = -1', "x.toml: decode.count"),
        ('name = "x"\n[decode]\ncount = "1"', "x.toml: decode.count"),
        ('name = "x"\n[decode]\ncount = 0', "x.toml: decode.count must be at least 1"),
        ('name = "x"\n[gateway]\ncount = 0', "x.toml: gateway.count must be at least 1"),
        ('name = "x"\n[router]\ncount = 2', "x.toml: router.count must be 1"),
        ('name = "x"\n[kvstore]\ncount = 2', "x.toml: kvstore.count must be 0 or 1"),
        ('name = "x"\nengine = "cuda"', "x.toml: engine"),
        ('name = "x"\ntransport = "rdma"', "x.toml: transport"),
        ('name = "y"', "x.toml: name: is 'y', but the file is called x"),
        ('name = "x', "x.toml: not TOML"),
        (
            'name = "x"\n[decode]\ncount = 1\nsettings = { admin_port = 1 }',
            "x.toml: decode: settings.admin_port is decided by the plan",
        ),
        (
            'name = "x"\n[decode]\ncount = 1\nsettings = { "KV-POOL" = 1 }',
            "x.toml: decode: settings.KV-POOL is not the name",
        ),
        (
            'name = "x"\n[decode]\ncount = 1\nsettings = { pool = [1] }',
            "x.toml: decode.settings.pool",
        ),
    ],
)
def test_nonsense_is_an_error_that_names_file_and_key(text: str, complaint: str) -> None:
    with pytest.raises(DeployError) as refusal:
        parse_topology(text, "x.toml")
    assert complaint in str(refusal.value)


def test_every_mistake_of_a_file_is_named_at_once() -> None:
    with pytest.raises(DeployError) as refusal:
        parse_topology('name = "x"\ncolour = 1\n[decode]\ncount = 1\nspeed = 2', "x.toml")
    assert "colour" in str(refusal.value)
    assert "decode.speed" in str(refusal.value)
