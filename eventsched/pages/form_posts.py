"""The forms of pages: their fields, and an answer that comes as events with progress."""

from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import parse_qsl

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eventsched.pages.api_call import ApiAnswer, pass_on
from eventsched.pages.page_question import PageQuestion

EVENTS = "text/event-stream"
_FORM = "application/x-www-form-urlencoded"
_MOST_FIELDS = 32
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]  # fmt: skip

Rendered = Callable[[ApiAnswer], Response]
"""Makes the page from the API's answer."""


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a form, without blanks around those of one line. Lines of a text end with a
    newline alone. Raises HTTPException."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != _FORM:
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    body = await request.body()
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, errors="strict",
            max_num_fields=_MOST_FIELDS,
        )  # fmt: skip
    except ValueError:
        raise HTTPException(HTTPStatus.BAD_REQUEST) from None
    texts = {name: value.replace("\r\n", "\n") for name, value in pairs}
    return {name: text if "\n" in text else text.strip() for name, text in texts.items()}


class PageEvents(Response):
    """The API's events about progress as they come, then an event ``page``: JSON of the HTML that
    has the result or the problem. An answer that does not come as events is a page.

    It ends when the client leaves, and with it what the API does."""

    def __init__(
        self, api: ASGIApp, question: PageQuestion, request: Request, rendered: Rendered
    ) -> None:
        super().__init__()
        self._api, self._question = api, question
        self._request, self._rendered = request, rendered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the events, or the page."""
        relay = _Relay(send, self._rendered)
        await pass_on(self._api, self._question, self._request, relay.take, EVENTS.encode())
        if relay.whole is not None:
            await self._rendered(relay.whole)(scope, receive, send)


class _Relay:
    """Takes the API's messages."""

    def __init__(self, send: Send, rendered: Rendered) -> None:
        self._send, self._rendered = send, rendered
        self._status = int(HTTPStatus.OK)
        self._has_events = False
        self._rest = b""
        """What has come after the last whole event; without events, all of it."""

    @property
    def whole(self) -> ApiAnswer | None:
        """The answer if it did not come as events."""
        return None if self._has_events else ApiAnswer(self._status, self._rest)

    async def take(self, message: Message) -> None:
        """Sends what a message of the API has for the client."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            kind = dict(message["headers"]).get(b"content-type", b"")
            self._has_events = kind.startswith(EVENTS.encode())
            if self._has_events:
                await self._send({**message, "headers": _HEADERS})
            return
        self._rest += message.get("body", b"")
        if self._has_events:
            *blocks, self._rest = self._rest.split(b"\n\n")
            events = b"".join(map(self._event, blocks))
            await self._send({**message, "body": events})

    def _event(self, block: bytes) -> bytes:
        kind, _, data = block.partition(b"\ndata: ")
        if kind not in (b"event: result", b"event: problem"):
            return block + b"\n\n"
        answer = ApiAnswer(HTTPStatus.OK, data)
        if kind == b"event: problem":
            answer = ApiAnswer(answer.document["status"], data)
        page = bytes(self._rendered(answer).body).decode()
        return b"event: page\ndata: %s\n\n" % msgspec.json.encode(page)
