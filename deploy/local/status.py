"""`status`: one table, a row a process.

What a service reports and the table has no column for stands in the last one, as far as it is not
zero or empty: what is not worth a look is not shown.
"""

from collections.abc import Iterable, Mapping

from rich import box
from rich.table import Table

from deploy.local.admin_client import Report
from deploy.local.state import ClusterState

_IN_COLUMNS = frozenset(
    {"running", "waiting", "queue_length", "blocks_used", "blocks_total", "slots", "tokens"}
)
_SAME_EVERYWHERE = frozenset({"role", "model", "http_port"})


def title(state: ClusterState) -> str:
    return f"{state.topology} at {state.url}: {state.phase}"


def table(state: ClusterState, reports: Iterable[Report]) -> Table:
    # Narrow on purpose: all but the last column fit into a terminal of 80.
    result = Table(title=title(state), title_justify="left", box=box.SIMPLE_HEAD)
    result.padding = (0, 1, 0, 0)
    for heading in ("process", "pid", "admin", "state", "died"):
        result.add_column(heading, no_wrap=True)
    for heading in ("run", "wait", "blocks", "tokens"):
        result.add_column(heading, justify="right", no_wrap=True)
    result.add_column("also", overflow="fold", min_width=12)
    for report in reports:
        result.add_row(*row(report))
    return result


def row(report: Report) -> tuple[str, ...]:
    process, service = report.process, report.service
    return (
        process.name,
        str(process.identity.pid) if process.identity else "-",
        str(process.admin_port),
        report.answer,
        str(process.restarts),
        _first(service, "running"),
        _first(service, "waiting", "queue_length"),
        _blocks(service),
        _first(service, "tokens"),
        " ".join(_others(service)),
    )


def _first(service: Mapping[str, object], *keys: str) -> str:
    return next((str(service[key]) for key in keys if key in service), "")


def _blocks(service: Mapping[str, object]) -> str:
    """used/total, of a worker's pool or of the kvstore's slots."""
    match service:
        case {"blocks_used": int(used), "blocks_total": int(total)}:
            return f"{used}/{total}"
        case {"slots": {"free": int(free), "total": int(total)}}:
            return f"{total - free}/{total}"
        case _:
            return ""


def _others(service: Mapping[str, object]) -> Iterable[str]:
    for key, value in service.items():
        if key in _IN_COLUMNS | _SAME_EVERYWHERE or not value:
            continue
        match value:
            case str() | int() | float():
                yield f"{key}={value}"
            case dict():
                yield from (f"{inner}={count}" for inner, count in value.items() if count)
            case _:
                # Lists are for machines: /status of the process has them.
                continue
