from dataclasses import replace

import pytest

from deploy.local.topology import parse_topology
from loadtest.errors import LoadTestError
from loadtest.predict import predicted_side
from loadtest.predict.predicted_side import cluster_plan
from loadtest.scenario import Side
from tests.support.predicted import costs

COSTS = costs()


def test_a_side_has_the_workers_of_its_topology() -> None:
    found = cluster_plan(Side(name="ours", topology="2p2d"), COSTS)
    assert [one.name for one in found.prefill] == ["prefill-0", "prefill-1"]
    assert [one.name for one in found.decode] == ["decode-0", "decode-1"]
    assert (found.policy, found.max_sequences) == ("kv_aware", 64)


def test_settings_of_topology_and_side_reach_the_engine() -> None:
    side = Side(
        name="ours",
        topology="aggregated-2-prefill-first",
        settings={"step_tokens": 256, "policy": "least_loaded", "max_sequences": 8},
    )
    found = cluster_plan(side, COSTS)
    limits = found.decode[0].limits
    assert (limits.scheduler, limits.step_tokens, limits.max_sequences) == ("prefill_first", 256, 8)
    assert found.policy == "least_loaded"


def test_the_pool_is_what_the_settings_say_or_what_the_costs_know() -> None:
    side = Side(name="ours", topology="1p1d", settings={"kv_pool_bytes": 32 * 4096 * 100})
    priced = replace(COSTS, token_bytes=4096)
    assert cluster_plan(side, priced).decode[0].slots == 100
    assert cluster_plan(side, replace(priced, kv_tokens=640)).decode[0].slots == 20


def test_a_policy_that_looks_at_no_load_is_not_predicted() -> None:
    side = Side(name="ours", topology="1p1d", settings={"policy": "random"})
    with pytest.raises(LoadTestError, match=r"policy random is not predicted; kv_aware, least"):
        cluster_plan(side, COSTS)


def test_costs_are_of_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'name = "wide"\n[decode]\ncount = 1\nthreads = 2\n'
    monkeypatch.setattr(predicted_side, "checked", lambda side: parse_topology(text, "wide.toml"))
    with pytest.raises(LoadTestError, match="decode-0 has 2 threads, and costs are of one"):
        cluster_plan(Side(name="ours", topology="wide"), COSTS)
