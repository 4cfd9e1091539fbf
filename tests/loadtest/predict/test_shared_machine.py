from dataclasses import replace

import pytest

from common.engine.bench.costs.step_law import decode_shape, prompt_shape
from loadtest.predict.shared_machine import SharedMachine
from tests.support.predicted import LAW, costs

DECODE, PROMPT = decode_shape(2, 100), prompt_shape(100)


class Engine:
    def __init__(self) -> None:
        self.busy = True


@pytest.fixture
def engines() -> tuple[Engine, Engine]:
    return Engine(), Engine()


def machine(engines: tuple[Engine, Engine]) -> SharedMachine:
    made = SharedMachine(costs(beside_prompts=3.0, beside_decodes=2.0))
    for engine in engines:
        made.join(engine)
    return made


def test_a_step_costs_what_the_law_says_for_what_the_neighbour_does(
    engines: tuple[Engine, Engine],
) -> None:
    made, (one, other) = machine(engines), engines
    lone = LAW.ms(DECODE) * 1e-3
    assert made.begin(one, DECODE) == pytest.approx(lone)
    assert made.begin(other, PROMPT) == pytest.approx(2 * LAW.ms(PROMPT) * 1e-3)
    made.end(one)
    assert made.begin(one, DECODE) == pytest.approx(3 * lone)
    made.end(one)
    made.end(other)
    assert made.begin(one, DECODE) == pytest.approx(lone)


def test_a_step_with_both_counts_as_prompts(engines: tuple[Engine, Engine]) -> None:
    made, (one, other) = machine(engines), engines
    made.begin(one, DECODE.with_chunk(0, 32))
    assert made.begin(other, DECODE) == pytest.approx(3 * LAW.ms(DECODE) * 1e-3)


def test_what_others_compute_lengthens_the_next_step_of_each_engine_once(
    engines: tuple[Engine, Engine],
) -> None:
    made, (one, other) = machine(engines), engines
    made.spend(0.010)
    lone = LAW.ms(DECODE) * 1e-3
    assert made.begin(one, DECODE) == pytest.approx(lone + 0.005)
    made.end(one)
    assert made.begin(one, DECODE) == pytest.approx(lone)
    made.end(one)
    assert made.begin(other, DECODE) == pytest.approx(lone + 0.005)


def test_a_core_without_work_computes_it_for_nothing(engines: tuple[Engine, Engine]) -> None:
    made, (one, other) = machine(engines), engines
    other.busy = False
    made.spend(0.010)
    assert made.begin(one, DECODE) == pytest.approx(LAW.ms(DECODE) * 1e-3)


def test_what_others_compute_all_the_time_slows_engines_while_no_core_is_idle(
    engines: tuple[Engine, Engine],
) -> None:
    made, (one, other) = SharedMachine(costs(), cpu_s_a_s=0.2), engines
    made.join(one)
    made.join(other)
    lone = LAW.ms(DECODE) * 1e-3
    assert made.begin(one, DECODE) == pytest.approx(1.1 * lone)
    other.busy = False
    assert made.begin(one, DECODE) == pytest.approx(lone)


def test_on_machines_of_their_own_nobody_pays_for_others() -> None:
    made, one = SharedMachine(replace(costs(), cores=0)), Engine()
    made.join(one)
    made.spend(0.010)
    assert made.begin(one, DECODE) == pytest.approx(LAW.ms(DECODE) * 1e-3)


def test_a_core_that_no_engine_has_is_for_everybody_else() -> None:
    made, one = SharedMachine(costs(), cpu_s_a_s=0.5), Engine()
    made.join(one)
    made.spend(1.0)
    assert made.begin(one, DECODE) == pytest.approx(LAW.ms(DECODE) * 1e-3)
