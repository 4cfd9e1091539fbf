"""What the words of a command line come to."""

import argparse
from pathlib import Path
from random import Random

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from loadtest.arrivals import Poisson
from loadtest.errors import LoadTestError
from loadtest.options import (
    SEEDS,
    access_of,
    add_access,
    add_scenario,
    chosen_scenario,
    drawn_seed,
    share,
    writer_of,
)
from loadtest.scenario import Scenario
from loadtest.writer import ExactWriter, WordWriter

SEARCH = 'search={kind="sweep", rates=[1, 2]}'


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_scenario(parser)
    add_access(parser)
    return parser.parse_args(words)


def chosen(*words: str) -> Scenario:
    return chosen_scenario(parsed(*words))


def test_short_options_stand_for_keys() -> None:
    found = chosen(
        "--rate", "3.5", "--sessions", "7", "--seconds", "9", "--ttft-ms", "250", "--tpot-ms", "40",
        "--pairs", "2",
    )  # fmt: skip
    (load,) = found.loads
    assert (load.arrivals, load.sessions, load.seconds) == (Poisson(rate=3.5), 7, 9.0)
    assert (found.targets.ttft_ms, found.targets.tpot_ms, found.pairs) == (250, 40, 2)


def test_numbers_keep_all_their_digits() -> None:
    found = chosen("--sessions", "1234567", "--rate", "0.12345678")
    assert found.loads[0].sessions == 1234567
    assert found.loads[0].arrivals == Poisson(rate=0.12345678)


def test_a_short_option_counts_more_than_a_key_that_is_set() -> None:
    found = chosen("--rate", "5", "--set", 'loads.0.arrivals={kind="poisson", rate=1}')
    assert found.loads[0].arrivals == Poisson(rate=5)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--users", "3"), "--users: the arrivals of load 'main' are of kind 'poisson'"),
        (
            ("--rate", "3", "--set", 'loads.0.arrivals={kind="users", users=2}'),
            "--rate: the arrivals of load 'main' are of kind 'users', which has no rate",
        ),
        (
            ("--rate", "3", "--set", 'loads.0.arrivals={kind="trace"}'),
            "--rate: the arrivals of load 'main' are of kind 'trace', which has no rate",
        ),
        (("--rate", "3", "--set", SEARCH), "--rate: the scenario's search chooses it"),
        (("--rate", "-3"), "chat.toml: loads.0.arrivals.rate: "),
        (("--rate", "nan"), "chat.toml: loads.0.arrivals.rate: "),
        (("--sessions", "2.5"), "chat.toml: loads.0.sessions: "),
    ],
)
def test_an_option_that_does_not_fit_is_said(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(LoadTestError) as raised:
        chosen(*words)
    assert said in str(raised.value)


def test_a_seed_is_drawn_anew_each_time() -> None:
    drawn = [drawn_seed() for _ in range(20)]
    assert len(set(drawn)) == 20
    assert all(0 <= seed < SEEDS for seed in drawn)
    assert parsed().seed is None
    assert parsed("--seed", "5").seed == 5


def test_the_key_comes_from_the_variable_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "secret")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    access = access_of(parsed("--api-key-env", "MINE", "--model", "m", "--run", "there"))
    assert (access.api_key, access.model, access.run_folder) == ("secret", "m", Path("there"))
    assert "secret" not in repr(access)
    assert access_of(parsed()).api_key == ""


def test_without_a_tokenizer_a_word_is_a_token() -> None:
    assert isinstance(writer_of(parsed()), WordWriter)


def test_with_a_tokenizer_texts_have_its_lengths(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    Tokenizer(WordLevel({"": 0}, unk_token="")).save(str(file))
    writer = writer_of(parsed("--tokenizer", str(file)))
    assert isinstance(writer, ExactWriter)
    # To this one any text is a single token.
    assert writer.write(1, Random(1))


def test_a_file_that_is_no_tokenizer_is_said(tmp_path: Path) -> None:
    with pytest.raises(LoadTestError, match="no tokenizer"):
        writer_of(parsed("--tokenizer", str(tmp_path / "none.json")))


@pytest.mark.parametrize(
    ("text", "value"), [("5%", 0.05), ("0.05", 0.05), ("0", 0), ("2.5%", 0.025)]
)
def test_a_share(text: str, value: float) -> None:
    assert share(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["five", "", "%", "100%", "-1%", "5", "nan"])
def test_what_is_no_share(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        share(text)
