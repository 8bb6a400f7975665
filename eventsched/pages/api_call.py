"""Requests to the API, made within the process: a page's answer is the one that a client of the API
gets, and the same clients get it."""

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlencode

import msgspec
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Send

from eventsched.pages.page_question import PageQuestion

ROOT = "/api/v1"
_PASSED_ON = (b"host", b"authorization", b"x-eventsched-authorization")
_OF_PROXIES = b"x-remote-"
"""Headers of a page's request that decide what its client may see; these say it for a proxy in
front. If-None-Match is about the page, so it is not passed on."""
_SITE = b"sec-fetch-site"
"""Passed on, too: what another site's page has a browser load is refused. Only a link may come from
there."""
_SHARED = ("asgi", "http_version", "scheme", "client", "server", "root_path", "state")


class ApiAnswer(NamedTuple):
    """A response of the API. ``body`` is its JSON as it came; it is empty if the client has
    left."""

    status: int
    body: bytes

    @property
    def document(self) -> Any:
        """The JSON as Python's values."""
        return msgspec.json.decode(self.body) if self.body else {}


def call_of(path: str, values: Mapping[str, str | None] | None = None, **more: str | None) -> str:
    """A path below /api/v1 with its query; parameters that are None or empty are left out."""
    given = {name: value for name, value in {**(values or {}), **more}.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


def segment(text: str) -> str:
    """A text as one segment of a path."""
    return quote(text, safe="")


async def ask(api: ASGIApp, question: PageQuestion, request: Request) -> ApiAnswer:
    """The API's answer to a question of the client that asks for a page."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await pass_on(api, question, request, send)
    start, *parts = sent
    return ApiAnswer(start["status"], b"".join(part.get("body", b"") for part in parts))


async def pass_on(
    api: ASGIApp, question: PageQuestion, request: Request, send: Send, accept: bytes = b""
) -> None:
    """Has the API answer a question by ``send``, in the media type ``accept``. A question with a
    body ends when the client leaves."""
    path, _, query = f"{ROOT}{question.call}".partition("?")
    opens = request.method != "POST" and request.headers.get("sec-fetch-dest") == "document"
    headers = [pair for pair in request.headers.raw if _is_passed_on(pair[0], opens=opens)]
    if accept:
        headers.append((b"accept", accept))
    scope = {
        **{key: value for key, value in request.scope.items() if key in _SHARED},
        "type": "http",
        "method": question.method,
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": headers,
    }
    await api(scope, _received(question, request), send)


def _is_passed_on(name: bytes, *, opens: bool) -> bool:
    if name == _SITE:
        return not opens
    return name in _PASSED_ON or name.startswith(_OF_PROXIES)


def _received(question: PageQuestion, request: Request) -> Receive:
    """What the API receives: the body; then, for a question that has one, that the client has
    left."""
    has_body = False

    async def receive() -> Message:
        nonlocal has_body
        if has_body and question.body is not None:
            return await request.receive()
        has_body = True
        return {"type": "http.request", "body": question.body or b"", "more_body": False}

    return receive
