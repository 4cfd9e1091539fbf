"""Logs: one JSON object a line on stderr, one past-tense event per transition.

`configure` is called once by run(); everybody else says `structlog.get_logger()` and passes
`request_id=...`. What libraries log through `logging` (from warning on) comes out in the same form.
Prompts, generated text and token ids are never logged.
"""

import logging
import sys

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from common.runtime.settings import LogFormat, LogLevel


class _Bound:
    """Adds the same fields to every event, whatever thread or task it comes from."""

    def __init__(self, fields: dict[str, object]) -> None:
        self._fields = fields

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        return {**self._fields, **event}


def configure(level: LogLevel, log_format: LogFormat, **bound: object) -> None:
    """`bound` is added to every event, for example `process="decode-0"`."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _Bound(bound),
    ]
    finish: list[Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if log_format == "json"
        else [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    )
    structlog.configure(
        processors=[*shared, *finish],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *finish],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
