"""The pages over an API whose answers are given, without a server."""

import asyncio
import json
from typing import Any, NamedTuple
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eventsched.pages.site import site

MARKUP = "</script><script>alert(1)</script>&"
PODS = {"stream": "live", "head": 9, "pods": [], "next": None}
POSITION = {
    "stream": "live", "position": 9, "time": "2026-11-25T20:00:00.500000+00:00", "begin": 0,
    "begin_time": "2026-11-25T18:00:00+00:00", "head": 9,
    "head_time": "2026-11-25T20:00:00.500000+00:00",
}  # fmt: skip
STREAMS = {"streams": [{"name": "live", "head": 9, "holder": None}]}


class GivenApi:
    """An API that answers by path."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {"streams": STREAMS, "pods": PODS, "position": POSITION, **answers}
        self.asked: list[tuple[str, str, dict[bytes, bytes]]] = []
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        self.asked.append((scope["path"], scope["query_string"].decode(), headers))
        self.bodies.append((await receive())["body"])
        answer = self.answers[scope["path"].rpartition("/")[2]]
        status = answer.get("status", 200)
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})


class Page(NamedTuple):
    """A response."""

    status_code: int
    headers: dict[str, str]
    text: str


class Pages:
    """The pages over an API, without a server."""

    def __init__(self, api: ASGIApp, *, what_ifs: bool = True) -> None:
        self._app = site(api, what_ifs=what_ifs)

    def get(
        self,
        path: str,
        headers: dict[str, str] | None = None,
        method: str = "GET",
        body: bytes = b"",
    ) -> Page:
        """The response to a request."""
        sent: list[Message] = []
        place, _, query = path.partition("?")
        given = {"host": "testserver", **(headers or {})}
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
            "scheme": "http", "path": unquote(place), "raw_path": place.encode(),
            "query_string": query.encode(), "root_path": "",
            "headers": [(name.lower().encode(), text.encode()) for name, text in given.items()],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
        }  # fmt: skip

        has_body = False

        async def receive() -> Message:
            nonlocal has_body
            if has_body:
                return {"type": "http.disconnect"}
            has_body = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        async def answered() -> None:
            await self._app(scope, receive, send)

        asyncio.run(answered())
        names = {name.decode(): text.decode() for name, text in sent[0]["headers"]}
        body = b"".join(message.get("body", b"") for message in sent[1:])
        return Page(sent[0]["status"], names, body.decode())


def client(api: GivenApi) -> Pages:
    return Pages(api)


def refusal(where: str) -> dict[str, Any]:
    return {"title": "Bad Request", "status": 400, "detail": f"is {MARKUP}", "where": where,
            "remedy": "say 4"}  # fmt: skip
