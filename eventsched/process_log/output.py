"""Sets up structlog: one line for each message, ours and those of libraries.

Modules say ``structlog.get_logger()`` and ``logger.info("what happened", pod=…, seq=…)``. Lines are
columns on a terminal and JSON elsewhere. Libraries (uvicorn, aiohttp, kubernetes, sqlalchemy) are
logged from warnings on.
"""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog

from eventsched.domain.errors import InputError
from eventsched.process_log.masking import masked_value

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("auto", "json", "text")
_OURS = "eventsched"
_VERBOSE = 4
"""klog's verbosity for debugging (Kubernetes' logging conventions: ``V(4)``, "debug level")."""
_FIRST = ("ts", "level", "event", "stream", "seq", "pod")


class _Output(logging.StreamHandler[TextIO]):
    """Our handler: the class distinguishes it from handlers that others add."""


def configure(form: str = "auto", level: str = "info", out: TextIO | None = None) -> None:
    """Sets logging up for the process; may be called again. ``form`` is ``json``, ``text``, or
    ``auto``: text if ``out`` (by default stderr) is a terminal. Raises InputError."""
    out = sys.stderr if out is None else out
    if form not in FORMATS:
        raise InputError("logging.format", f"is {form}", f"write one of {', '.join(FORMATS)}")
    set_level(level)
    terminal = out.isatty()
    is_json = form == "json" or (form == "auto" and not terminal)
    handler = _Output(out)
    handler.setFormatter(_formatter(is_json, terminal))
    root = logging.getLogger()
    for earlier in [earlier for earlier in root.handlers if isinstance(earlier, _Output)]:
        root.removeHandler(earlier)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_common(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )


def set_level(level: str) -> str:
    """Changes the level of our own messages at once, and returns its name. A number is klog's
    verbosity: 4 and more mean ``debug``, less means ``info``. Raises InputError."""
    wanted = level.strip().lower()
    if wanted.isdecimal():
        wanted = "debug" if int(wanted) >= _VERBOSE else "info"
    if wanted not in LEVELS:
        raise InputError(
            "logging.level", f"is {level.strip()[:40]!r}", f"write one of {', '.join(LEVELS)}"
        )
    logging.getLogger(_OURS).setLevel(wanted.upper())
    return wanted


def level() -> str:
    """The level in force."""
    return logging.getLevelName(logging.getLogger(_OURS).getEffectiveLevel()).lower()


def is_logged(level: str) -> bool:
    """Whether messages of a level are logged now."""
    return logging.getLogger(_OURS).isEnabledFor(logging.getLevelNamesMapping()[level.upper()])


def _common() -> list[structlog.typing.Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
    ]


def _formatter(is_json: bool, terminal: bool) -> logging.Formatter:
    renderer: structlog.typing.Processor
    if is_json:
        renderer = structlog.processors.JSONRenderer(ensure_ascii=False)
    else:
        renderer = structlog.dev.ConsoleRenderer(
            colors=terminal,
            timestamp_key="ts",
            exception_formatter=structlog.dev.plain_traceback,
            sort_keys=False,
        )
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_common(),
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,  # before masking: tracebacks quote messages
            _mask,
            _in_order,
            renderer,
        ],
    )


def _mask(_: Any, __: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    masked: dict[str, Any] = masked_value(line)
    return masked


def _in_order(_: Any, __: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Moves the fields that every line has to the front, and the logger's name to the end."""
    logger = line.pop("logger", None)
    first = {key: line.pop(key) for key in _FIRST if key in line}
    return {**first, **line, **({"logger": logger} if logger else {})}
