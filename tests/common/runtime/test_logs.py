import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from common.runtime import logs


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


def test_an_event_is_one_json_object_with_the_bound_fields(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.configure("info", "json", process="decode-0")
    structlog.get_logger().info("request_accepted", request_id="r1")
    line = json.loads(capsys.readouterr().err)
    assert line["event"] == "request_accepted"
    assert line["process"] == "decode-0"
    assert line["request_id"] == "r1"
    assert line["level"] == "info"
    assert line["timestamp"].endswith("Z")


def test_an_event_keeps_its_own_field_over_a_bound_one(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", "json", peer="a")
    structlog.get_logger().info("peer_left", peer="b")
    assert json.loads(capsys.readouterr().err)["peer"] == "b"


def test_what_is_below_the_level_is_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("warning", "json")
    structlog.get_logger().info("request_accepted")
    assert capsys.readouterr().err == ""


def test_a_librarys_warning_has_the_same_form(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", "json", process="decode-0")
    logging.getLogger("library").warning("it is %s", "odd")
    logging.getLogger("library").info("chatter")
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["process"], line["level"]) == ("it is odd", "decode-0", "warning")


def test_a_traceback_is_in_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", "json")
    error = ValueError("broken")
    structlog.get_logger().critical("process_failed", exc_info=error)
    assert "ValueError: broken" in json.loads(capsys.readouterr().err)["exception"]


def test_console_lines_are_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", "console")
    structlog.get_logger().info("request_accepted", request_id="r1")
    line = capsys.readouterr().err
    assert "request_accepted" in line
    assert "request_id=r1" in line
    assert not line.startswith("{")
