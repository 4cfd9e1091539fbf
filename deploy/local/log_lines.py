"""Log lines for people: what processes wrote as JSON, short, in the order of time.

Pure. A line that is not JSON (a crash of the interpreter, a library's print) is kept as it is, at
the time of the line before it.
"""

import json
from collections.abc import Mapping, Sequence

_SHOWN_ELSEWHERE = frozenset({"timestamp", "event", "level", "process", "exception"})


def merged(files: Mapping[str, Sequence[str]]) -> list[str]:
    """Lines of several processes, oldest first."""
    dated: list[tuple[str, int, str]] = []
    for process, lines in files.items():
        time = ""
        for line in lines:
            event = _parsed(line)
            time = str(event.get("timestamp", time))
            dated.append((time, len(dated), readable(line, process)))
    return [text for _, _, text in sorted(dated)]


def readable(line: str, process: str) -> str:
    """One line; a traceback follows on lines of its own."""
    event = _parsed(line)
    if not event:
        return f"{'':12} {process:11} {line}"
    clock = str(event.get("timestamp", ""))[11:23]
    level = str(event.get("level", ""))
    mark = f" {level.upper()}" if level not in ("info", "debug", "") else ""
    rest = " ".join(f"{key}={event[key]}" for key in event if key not in _SHOWN_ELSEWHERE)
    trace = f"\n{event['exception']}" if "exception" in event else ""
    return f"{clock:12} {process:11}{mark} {event.get('event', '')} {rest}".rstrip() + trace


def tail(lines: Sequence[str], count: int, process: str) -> str:
    """The last `count` lines as people read them, those of tracebacks included."""
    shown = "\n".join(readable(line, process) for line in lines[-count:])
    return "\n".join(shown.splitlines()[-count:])


def _parsed(line: str) -> dict[str, object]:
    """Empty: not one of our lines."""
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}
