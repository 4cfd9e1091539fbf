import re
from pathlib import Path

import pytest

import loadtest.scenario
from loadtest.arrivals import ARRIVALS, Poisson
from loadtest.errors import LoadTestError
from loadtest.lengths import Fixed, LogNormal
from loadtest.metrics import Targets
from loadtest.scenario import Claim, Scenario, Side, parse_table, scenario_of
from loadtest.workloads import WORKLOADS
from loadtest.workloads.cancelling import Cancelling
from loadtest.workloads.shared_prefix import SharedPrefix
from loadtest.workloads.synthetic import Synthetic

FILES = sorted((Path(loadtest.scenario.__file__).parent / "scenarios").glob("*.toml"))
BASE = """
name = "some-name"
description = "What it is for."

[[loads]]
sessions = 3
[loads.workload]
kind = "synthetic"
prompt_tokens = { kind = "lognormal", mean = 9, sigma = 1, low = 1, high = 50 }
output_tokens = 4
[loads.arrivals]
kind = "poisson"
rate = 2
"""
SIDES = """
[[sides]]
name = "warm"
[[sides]]
name = "cold"
workloads = { main = { output_tokens = 5 } }
"""
SETTLING_USERS = """
[[loads]]
name = "users"
sessions = 3
settle = 1
arrivals = { kind = "users", users = 1 }
workload = { kind = "synthetic", prompt_tokens = 4, output_tokens = 4 }
"""
CLAIM = "[[claims]]\ntext = 'is faster'\nmeasure = 'main.ttft_ms.p50'\n"
WRAPPED = (
    'kind = "synthetic"',
    'kind = "cancelling"\nshare = 0.5\nafter_s = 1\n[loads.workload.of]\nkind = "synthetic"',
)


def read(text: str) -> Scenario:
    source = "loadtest/scenarios/some-name.toml"
    return scenario_of(parse_table(text, source), source)


def error_of(text: str) -> str:
    with pytest.raises(LoadTestError) as caught:
        read(text)
    return str(caught.value)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_scenarios_that_come_with_it_are_right(file: Path) -> None:
    scenario = scenario_of(parse_table(file.read_text(), str(file)), str(file))
    assert scenario.name == file.stem
    assert scenario.description.endswith(".")


def test_there_are_scenarios() -> None:
    assert FILES


def test_what_is_not_said_is_the_plain_case() -> None:
    scenario = read(BASE)
    (load,) = scenario.loads
    assert (load.name, load.sessions, load.seconds, load.begins_s) == ("main", 3, 0, 0)
    assert load.workload == Synthetic(
        prompt_tokens=LogNormal(mean=9, sigma=1, low=1, high=50), output_tokens=Fixed(tokens=4)
    )
    assert load.arrivals == Poisson(rate=2)
    assert not load.closed
    assert scenario.targets == Targets()
    assert (scenario.sides, scenario.claims, scenario.faults, scenario.search) == ((), (), (), None)
    assert scenario.request.temperature == 0
    assert scenario.request.ignore_eos


def test_users_are_a_closed_load() -> None:
    users = BASE.replace('kind = "poisson"\nrate = 2', 'kind = "users"\nusers = 2')
    assert read(users).loads[0].closed


def test_a_trace_ends_by_itself() -> None:
    replayed = BASE.replace('kind = "poisson"\nrate = 2', 'kind = "trace"')
    assert read(replayed.replace("sessions = 3", "")).loads[0].sessions == 0


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('name = "some-name"', 'nme = "some-name"', "nme: no such key"),
        ('name = "some-name"', 'name = "Some Name"', "name: String should match"),
        ('name = "some-name"', 'name = "other"', "name: is 'other', but the file is called some"),
        ('description = "What it is for."', "", "description: Field required"),
        ("sessions = 3", "sessions = -3", "loads.0.sessions: Input should be greater"),
        ("sessions = 3", "", "loads.0: give sessions or seconds"),
        ("sessions = 3", "sessions = 3\nsettle = 3", "loads.0: settle leaves no session"),
        ("sessions = 3", 'sessions = 3\nname = "All"', "loads.0.name: String should match"),
        ("sessions = 3", 'sessions = 3\nname = "all"', "a load cannot be called 'all'"),
        ("sessions = 3", 'sessions = 3\nname = "search"', "a load cannot be called 'search'"),
        ("sessions = 3", 'sessions = 3\nname = "server"', "a load cannot be called 'server'"),
        ('kind = "synthetic"', 'kind = "sinthetic"', "loads.0.workload: kind: is 'sinthetic'"),
        ('kind = "synthetic"', "", "loads.0.workload: kind: is None"),
        ('kind = "synthetic"', 'kind = "synthetic"\nmore = 1', "loads.0.workload.more: no such"),
        ("output_tokens = 4", "output_tokens = 0", "loads.0.workload.output_tokens"),
        ("output_tokens = 4", "", "loads.0.workload.output_tokens: Field required"),
        ("mean = 9, ", "", "loads.0.workload.prompt_tokens.lognormal.mean: Field required"),
        ("low = 1", "low = 51", "loads.0.workload.prompt_tokens.lognormal: low 51 is above high"),
        ('kind = "lognormal"', 'kind = "normal"', "loads.0.workload.prompt_tokens: Input tag"),
        ('kind = "poisson"', 'kind = "fish"', "loads.0.arrivals: kind: is 'fish'; there are burs"),
        ("rate = 2", "rate = 0", "loads.0.arrivals.rate: Input should be greater"),
        ("rate = 2", "rate = inf", "loads.0.arrivals.rate: Input should be a finite"),
        ("rate = 2", "", "loads.0.arrivals.rate: Field required"),
        ("rate = 2", "rate = 2\n[targets]\nttft = 5", "targets.ttft: "),
        ("rate = 2", "rate = 2\n[targets]\nttft_ms = -5", "targets: a target is not negative"),
        ("rate = 2", "rate = 2\n[request]\nendpoint = 'x'", "request.endpoint: "),
        ("rate = 2", "rate = 2\n[request]\nlimit_s = 0", "request.limit_s: "),
        ("rate = 2", "rate = ", "not TOML: "),
        (*WRAPPED[:1], WRAPPED[1] + "\nmore = 2", "loads.0.workload.of.more: no such key"),
        (*WRAPPED[:1], WRAPPED[1].replace("0.5", "2"), "loads.0.workload.share: "),
        (*WRAPPED[:1], WRAPPED[1].replace("synth", "x"), "loads.0.workload.of: kind: is 'xetic'"),
    ],
)
def test_a_mistake_is_answered_with_its_key(old: str, new: str, expected: str) -> None:
    assert BASE.count(old) == 1
    said = error_of(BASE.replace(old, new))
    assert said.startswith("loadtest/scenarios/some-name.toml: ")
    assert f"some-name.toml: {expected}" in said
    assert "\n" not in said or "nme" in said, "one mistake, one line"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("[[faults]]\nat_s = 1\naction = 'pause'\nprocess = 'x'", "faults.0: a pause needs sec"),
        ("[[faults]]\nat_s = 1\naction = 'kill'\nprocess = 'x'\nseconds = 1", "faults.0: a pause"),
        ("[[faults]]\nat_s = -1\naction = 'kill'\nprocess = 'x'", "faults.0.at_s: "),
        ("[[faults]]\nat_s = 1\naction = 'burn'\nprocess = 'x'", "faults.0.action: "),
        ("[[faults]]\nat_s = 1\naction = 'kill'", "faults.0.process: Field required"),
        ("[search]\nkind = 'sweep'", "search: a sweep needs rates"),
        ("[search]\nkind = 'sweep'\nrates = [1, 0]", "search.rates.1: "),
        ("[search]\nkind = 'goodput'\nlow = 2\nhigh = 1", "search: goodput is searched between"),
        ("[search]\nkind = 'goodput'\nhigh = 1", "search: goodput is searched between"),
        ("[search]\nkind = 'guess'", "search.kind: "),
        (SETTLING_USERS, "loads.1: settle is of arrivals by a clock"),
        (SIDES.replace("cold", "warm"), "two sides have the same name"),
        (SIDES.replace("cold", "Cold"), "sides.1.name: "),
        (SIDES.replace("main =", "other ="), "side 'cold' changes a load that is not there"),
        (SIDES.replace("output", "out"), "side cold: workloads.main: out_tokens: no such key"),
        (SIDES.replace("5", "0"), "side cold: workloads.main: output_tokens"),
        (SIDES + CLAIM + "side = 'warm'\nagainst = 'hot'\nat_most = 1", "claim 'is faster' is abo"),
        (SIDES + CLAIM + "side = 'warm'\nagainst = 'cold'", "claims.0: give at_least or at_most"),
        (
            SIDES + CLAIM + "side = 'warm'\nagainst = 'cold'\nat_least = 1\nat_most = 2",
            "claims.0: give at_least or at_most",
        ),
        (BASE.partition("[[loads]]")[1] + BASE.partition("[[loads]]")[2], "two loads have the sa"),
    ],
)
def test_a_mistake_further_down_is_answered_with_its_key(more: str, expected: str) -> None:
    said = error_of(f"{BASE}\n{more}")
    assert f"some-name.toml: {expected}" in said
    assert "\n" not in said


def test_a_ramp_cannot_be_searched() -> None:
    ramp = BASE.replace('kind = "poisson"', 'kind = "ramp"\nlast_rate = 3\nseconds = 4')
    read(ramp)
    said = error_of(f"{ramp}\n[search]\nkind = 'sweep'\nrates = [1, 2]")
    assert "search: load 'main': a ramp has no rate" in said


def test_goodput_needs_targets() -> None:
    search = "[search]\nkind = 'goodput'\nlow = 1\nhigh = 2"
    assert "search: goodput needs targets" in error_of(f"{BASE}\n{search}")
    read(f"{BASE}\n{search}\n[targets]\nttft_ms = 500")


def test_without_its_sides_a_scenario_claims_nothing() -> None:
    whole = read(f"{BASE}\n{SIDES}{CLAIM}side = 'warm'\nagainst = 'cold'\nat_most = 1")
    assert whole.sides
    assert whole.claims
    alone = whole.without_sides()
    assert (alone.sides, alone.claims, alone.loads) == ((), (), whole.loads)


def test_there_must_be_a_load() -> None:
    assert "loads: " in error_of(BASE.partition("[[loads]]")[0] + "loads = []")


def test_two_mistakes_are_two_lines() -> None:
    said = error_of(BASE.replace("rate = 2", "rate = 0").replace("sessions = 3", "sessions = -3"))
    keys = {line.split(": ")[1] for line in said.splitlines()}
    assert keys == {"loads.0.sessions", "loads.0.arrivals.rate"}


def test_an_unknown_kind_is_answered_with_all_there_are() -> None:
    said = error_of(re.sub(r'kind = "(synthetic|poisson)"', 'kind = "x"', BASE))
    assert all(name in said for name in [*WORKLOADS, *ARRIVALS])


def test_a_side_without_changes_sees_the_scenario_as_it_is() -> None:
    scenario = read(BASE + SIDES)
    assert scenario.for_side(scenario.sides[0]) == scenario


def test_a_side_sees_its_changes_in_the_loads_it_names() -> None:
    second = BASE[BASE.index("[[loads]]") :].replace("sessions = 3", 'sessions = 3\nname = "b"')
    scenario = read(BASE + second + SIDES)
    seen = scenario.for_side(scenario.sides[1])
    main, other = (load.workload for load in seen.loads)
    assert isinstance(main, Synthetic)
    assert main.output_tokens == Fixed(tokens=5)
    assert main.prompt_tokens == LogNormal(mean=9, sigma=1, low=1, high=50)
    assert other == scenario.loads[1].workload
    assert [load.arrivals for load in seen.loads] == [load.arrivals for load in scenario.loads]
    assert scenario == read(BASE + second + SIDES), "and the scenario stays what it was"


def side(**changes: object) -> Side:
    return Side(name="changed", workloads={"main": changes})


def test_a_side_may_change_part_of_a_distribution_or_all_of_it() -> None:
    scenario = read(BASE)
    part = scenario.for_side(side(prompt_tokens={"mean": 20})).loads[0].workload
    assert isinstance(part, Synthetic)
    assert part.prompt_tokens == LogNormal(mean=20, sigma=1, low=1, high=50)
    whole = scenario.for_side(side(prompt_tokens={"kind": "fixed", "tokens": 2})).loads[0].workload
    assert isinstance(whole, Synthetic)
    assert whole.prompt_tokens == Fixed(tokens=2)


def test_a_side_may_change_a_wrapped_workload() -> None:
    text = BASE.replace(*WRAPPED)
    scenario = read(text)
    changed = scenario.for_side(side(of={"output_tokens": 6})).loads[0].workload
    assert isinstance(changed, Cancelling)
    assert isinstance(changed.of, Synthetic)
    assert changed.of.output_tokens == Fixed(tokens=6)
    assert changed.of.prompt_tokens == LogNormal(mean=9, sigma=1, low=1, high=50)
    prefixed = scenario.for_side(side(of={"kind": "shared_prefix"})).loads[0].workload
    assert isinstance(prefixed, Cancelling)
    assert prefixed.of == SharedPrefix()


def test_a_side_cannot_turn_a_workload_into_another_kind() -> None:
    with pytest.raises(LoadTestError, match=r"side changed: workloads\.main: kind: "):
        read(BASE).for_side(side(kind="shared_prefix"))


@pytest.mark.parametrize(
    ("bounds", "ratio", "holds"),
    [
        ({"at_least": 2}, 2.0, True),
        ({"at_least": 2}, 1.99, False),
        ({"at_most": 0.5}, 0.5, True),
        ({"at_most": 0.5}, 0.51, False),
    ],
)
def test_a_claim_holds_at_its_bound(bounds: dict[str, float], ratio: float, holds: bool) -> None:
    said = {"text": "a", "measure": "m", "side": "x", "against": "y"}
    assert Claim.model_validate(said | bounds).holds(ratio) is holds


def test_a_rate_is_set_for_every_load_and_nothing_else() -> None:
    second = BASE[BASE.index("[[loads]]") :].replace("sessions = 3", 'sessions = 3\nname = "b"')
    before = read(BASE + second)
    after = before.at_rate(7.5)
    assert [load.arrivals for load in after.loads] == [Poisson(rate=7.5)] * 2
    assert after.at_rate(2) == before
