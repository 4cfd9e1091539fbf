from loadtest.session import Session
from loadtest.writer import ExactWriter
from tests.support.workload_examples import made, taken, texts

PROMPTS = {"kind": "uniform", "low": 4, "high": 40}


def sessions(count: int) -> list[Session]:
    return taken(made("synthetic", prompt_tokens=PROMPTS, output_tokens=8), count)


def test_a_session_is_one_request_of_one_message() -> None:
    for session in sessions(20):
        (turn,) = session.turns
        (message,) = turn.messages
        assert message.role == "user"
        assert turn.max_tokens == 8
        assert session.at_s is None


def test_lengths_are_as_drawn() -> None:
    lengths = [len(text.split()) for text in texts(sessions(800))]
    assert set(lengths) == set(range(4, 41))


def test_no_two_prompts_begin_alike() -> None:
    begins = [text.split()[:4] for text in texts(sessions(300))]
    assert len({tuple(begin) for begin in begins}) >= 299


def test_the_writer_decides_what_a_token_is() -> None:
    def letters(text: str) -> int:
        return len(text.replace(" ", ""))

    exact = ExactWriter(letters)
    session = next(made("synthetic", prompt_tokens=30, output_tokens=8).sessions(0, exact))
    assert letters(session.turns[0].messages[0].content) == 30
