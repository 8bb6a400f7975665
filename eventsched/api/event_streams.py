"""Server-sent events: each new decision that a filter wants, and that the log has grown."""

from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
import structlog
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from eventsched.api.following import HeadWatch, Places
from eventsched.questions.answer_shapes import Decisions

EVENTS_TYPE = "text/event-stream"
_BEAT_SECONDS = 15.0
"""Seconds after which a comment is sent if nothing is new, so that proxies keep the connection."""
_RETRY = b"retry: 2000\n\n"
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

logger = structlog.stdlib.get_logger(__name__)


class _HeadMoved(msgspec.Struct, frozen=True):
    head: int


async def decision_events(
    page: Callable[[int], Awaitable[Decisions]],
    watch: HeadWatch,
    stream: str | None,
    after: int,
) -> AsyncIterator[bytes]:
    """The events from position ``after`` on. ``page`` gives the oldest decisions from a position
    on. The id of an event is the position to go on from. Ends when ``watch`` does."""
    yield _RETRY
    told = -1
    while not watch.has_ended:
        found = await page(after)
        for decision in found.decisions:
            yield _event("decision", decision.position + 1, decision)
        after = max(after, found.head) if found.next is None else found.next
        if found.next is not None:
            continue
        if found.head != told:
            told = found.head
            yield _event("head", after, _HeadMoved(told))
        while await watch.past(stream, after, _BEAT_SECONDS) is None and not watch.has_ended:
            yield b": waiting\n\n"


class EventStream(StreamingResponse):
    """A response with events, which has one of some places as long as it lasts.

    It ends when an event cannot be made: the client then connects again with the last id, and sees
    why. The server closes the connection of a client that does not read, so at most a page of
    events is in memory."""

    def __init__(self, events: AsyncIterator[bytes], places: Places) -> None:
        super().__init__(_until_failure(events), headers=_HEADERS, media_type=EVENTS_TYPE)
        self._places = places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the events. Raises TooManyError before the first one."""
        with self._places.taken():
            await super().__call__(scope, receive, send)


async def _until_failure(events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    try:
        async for event in events:
            yield event
    except Exception as error:  # noqa: BLE001 - the response has begun
        logger.warning("a stream of events ended", problem=str(error))


def _event(kind: str, position: int, data: msgspec.Struct) -> bytes:
    return b"event: %s\nid: %d\ndata: %s\n\n" % (
        kind.encode(), position, msgspec.json.encode(data)
    )  # fmt: skip
