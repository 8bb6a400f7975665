"""The program that serves the API beside a scheduler, which starts it (process/api_child.py). Its
standard input says what to serve; it ends when that is closed."""

import os
import sys
from contextlib import closing
from pathlib import Path

import msgspec
import structlog

from eventsched.api import server
from eventsched.api.desk.asked import Desk
from eventsched.api.gates.delegated_gate import delegated_gate
from eventsched.domain.errors import InputError, UnavailableError
from eventsched.eventlog import database
from eventsched.process.api_child import ApiOrder, place_of
from eventsched.process.settings import Settings
from eventsched.process_log import output
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import DatabaseStreams

_NICE = 5
"""The scheduler comes first when both want a processor."""

logger = structlog.stdlib.get_logger(__name__)


def main() -> int:
    """Serves until standard input is closed, and returns the exit code."""
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=ApiOrder)
    settings = order.settings
    os.nice(_NICE)
    output.configure(settings.logging.format, settings.logging.level)
    with structlog.contextvars.bound_contextvars(stream=settings.stream):
        try:
            return _serve(order)
        except (InputError, UnavailableError) as problem:
            logger.error("the API cannot be served", problem=str(problem))
            return 1


def _serve(order: ApiOrder) -> int:
    settings = order.settings
    place = place_of(settings)
    gates = _gates(order.settings, order.kubeconfig)
    plugins = tuple(map(Path, order.plugins))
    with (
        database.reader_address(order.database, None) as address,
        closing(DatabaseStreams(address)) as streams,
    ):
        desk = Desk(streams, FoldedStates(), plugins, what_ifs=False)
        return server.serve(
            desk, gates, place, _announce, has_pages=settings.api.ui, lifeline=sys.stdin.fileno()
        )


def _announce(url: str) -> None:
    logger.info("the API is served", at=url)


def _gates(settings: Settings, kubeconfig: str | None) -> server.Gates:
    if settings.api.authorization == "off":
        return server.open_gate(settings.serving.bind_address)
    path = None if kubeconfig is None else Path(kubeconfig)
    by_proxy = settings.api.authorization == "requestHeaders"
    return delegated_gate(path, settings.client.context or None, by_proxy=by_proxy)


if __name__ == "__main__":
    sys.exit(main())
