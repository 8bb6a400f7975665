"""Requests to the API, made within the process: a page's answer is the one that a client of the API
gets, and the same clients get it."""

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlencode

import msgspec
from starlette.requests import Request
from starlette.types import ASGIApp, Message

ROOT = "/api/v1"
_PASSED_ON = (b"host", b"authorization", b"x-eventsched-authorization")
_OF_PROXIES = b"x-remote-"
"""Headers of a page's request that decide what its client may see; these say it for a proxy in
front. If-None-Match is about the page, so it is not passed on."""

_SHARED = ("asgi", "http_version", "scheme", "client", "server", "root_path", "state")


class ApiAnswer(NamedTuple):
    """A response of the API. ``body`` is its JSON as it came."""

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...]

    @property
    def document(self) -> Any:
        """The JSON as Python's values."""
        return msgspec.json.decode(self.body)


def call_of(path: str, values: Mapping[str, str | None] | None = None, **more: str | None) -> str:
    """A path below /api/v1 with its query; parameters that are None or empty are left out."""
    given = {name: value for name, value in {**(values or {}), **more}.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


def segment(text: str) -> str:
    """A text as one segment of a path."""
    return quote(text, safe="")


async def ask(api: ASGIApp, call: str, request: Request) -> ApiAnswer:
    """The API's answer to ``call`` for the client that asks for a page."""
    path, _, query = f"{ROOT}{call}".partition("?")
    headers = [
        (name, value)
        for name, value in request.headers.raw
        if name in _PASSED_ON or name.startswith(_OF_PROXIES)
    ]
    scope = {
        **{key: value for key, value in request.scope.items() if key in _SHARED},
        "type": "http",
        "method": "GET",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": headers,
    }
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await api(scope, receive, send)
    start, *parts = sent
    body = b"".join(part.get("body", b"") for part in parts)
    return ApiAnswer(start["status"], body, tuple(start["headers"]))
