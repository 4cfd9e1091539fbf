"""A result tells how to get it again, and no secret."""

import json
from dataclasses import asdict
from datetime import datetime

from loadtest.origin import origin_of
from tests.support.load_plans import load, scenario

ASKED = scenario(load({"kind": "poisson", "rate": 2.0}, sessions=4))


def test_it_tells_what_was_run_where_and_when() -> None:
    found = origin_of(ASKED, "http://here", "m", ["run", "--seed", "5"])
    assert found.command == ["python", "-m", "loadtest", "run", "--seed", "5"]
    assert (found.target, found.model) == ("http://here", "m")
    assert datetime.fromisoformat(found.at).tzinfo is not None
    assert found.scenario["name"] == "small"
    assert found.scenario["pairs"] == 3, "defaults are written down, too"
    assert found.machine["load_average"] is not None
    assert set(found.revision) >= {"commit"}
    assert json.dumps(asdict(found))


def test_keys_are_left_out() -> None:
    found = origin_of(ASKED, "http://here", "", ["run", "--some-key", "secret", "--token=secret"])
    assert "secret" not in " ".join(found.command)
