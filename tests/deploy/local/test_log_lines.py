import json

from deploy.local.log_lines import merged, readable, tail


def line(second: int, event: str, **fields: object) -> str:
    stamp = f"2030-01-01T10:00:{second:02}.123456Z"
    return json.dumps({"event": event, "timestamp": stamp, "level": "info", **fields})


def test_lines_of_several_processes_are_in_the_order_of_time() -> None:
    shown = merged({"a": [line(1, "one"), line(3, "three")], "b": [line(2, "two")]})
    assert [text.split()[2] for text in shown] == ["one", "two", "three"]
    assert shown[1].split()[:2] == ["10:00:02.123", "b"]


def test_a_line_of_another_form_stays_behind_the_line_before_it() -> None:
    shown = merged({"a": [line(1, "one"), "Segmentation fault"], "b": [line(2, "two")]})
    assert ["one" in shown[0], "Segmentation" in shown[1], "two" in shown[2]] == [True] * 3


def test_fields_are_shown_and_a_warning_is_marked() -> None:
    text = readable(line(1, "peer_lost", peer="decode-0", level="warning"), "router-0")
    assert text == "10:00:01.123 router-0    WARNING peer_lost peer=decode-0"


def test_a_traceback_is_readable() -> None:
    text = readable(line(1, "process_failed", exception="Traceback:\n  ValueError: x"), "a")
    assert text.endswith("\nTraceback:\n  ValueError: x")


def test_json_that_is_no_object_is_kept_as_it_is() -> None:
    assert readable("[1, 2]", "a").endswith("[1, 2]")


def test_a_tail_is_the_last_lines() -> None:
    assert tail(["x", "y", "z"], 2, "a").split() == ["a", "y", "a", "z"]


def test_a_traceback_counts_with_its_lines() -> None:
    failed = line(1, "process_failed", exception="Traceback:\n  here\nValueError: x")
    assert tail([failed], 2, "a") == "  here\nValueError: x"
