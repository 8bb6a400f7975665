"""Asks an ASGI application, without a server."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from jsonschema import Draft202012Validator
from starlette.types import ASGIApp, Message

from eventsched.api.application import OPENAPI, ROOT


class Answered(NamedTuple):
    """A response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """A client of an application, on this machine unless ``host`` says otherwise. Every answer is
    checked against the OpenAPI document."""

    def __init__(self, app: ASGIApp, *, host: str = "127.0.0.1:8787", token: str = "") -> None:
        self._app, self._host, self._token = app, host, token
        self._document: dict[str, Any] | None = None

    def get(self, path: str, **headers: str) -> Any:
        """The JSON of an answer that has to come about."""
        answered = self.ask(f"{ROOT}{path}", "GET", b"", **headers)
        assert answered.status == 200, answered.body
        self._require_valid(path, "200", answered)
        return answered.json

    def post(self, path: str, body: bytes) -> Any:
        """The JSON of the answer to a body."""
        answered = self.ask(f"{ROOT}{path}", "POST", body)
        assert answered.status == 200, answered.body
        self._require_valid(path, "200", answered, "post")
        return answered.json

    def problem(self, path: str, status: int) -> str:
        """The problem of a request that is refused, as one line."""
        answered = self.ask(f"{ROOT}{path}")
        assert answered.status == status, answered.body
        assert answered.headers["content-type"] == "application/problem+json"
        assert answered.json["status"] == status
        self._require_valid(path, str(status), answered)
        words = (answered.json.get(name, "") for name in ("where", "detail", "remedy"))
        return "; ".join(filter(None, words))

    def pages(self, path: str, items: str, turn: str = "before") -> Iterator[list[Any]]:
        """The items of each page; ``turn`` is the parameter that turns to the next one."""
        place, _, query = path.partition("?")
        words = [word for word in query.split("&") if not word.startswith(f"{turn}=")]
        page = self.get(path)
        yield page[items]
        while page["next"] is not None:
            page = self.get(
                place + "?" + "&".join([*filter(None, words), f"{turn}={page['next']}"])
            )
            yield page[items]

    def ask(self, path: str, method: str = "GET", body: bytes = b"", **headers: str) -> Answered:
        """The response to any request. Underscores in the names of headers are hyphens."""
        return asyncio.run(asyncio.wait_for(self.ask_async(path, method, body, **headers), 120))

    async def ask_async(
        self, path: str, method: str = "GET", body: bytes = b"", **headers: str
    ) -> Answered:
        """The same in a running event loop."""
        given = {"host": self._host, **headers}
        if self._token:
            given["authorization"] = f"Bearer {self._token}"
        sent: list[Message] = []
        left = asyncio.Event()

        async def receive() -> Message:
            if sent or left.is_set():
                await asyncio.Event().wait()
            left.set()
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        await self._app(scope_of(path, method, given), receive, send)
        start, *parts_of_body = sent
        names = {name.decode(): value.decode() for name, value in start["headers"]}
        content = b"".join(part.get("body", b"") for part in parts_of_body)
        return Answered(start["status"], names, content)

    @property
    def document(self) -> dict[str, Any]:
        """The OpenAPI document."""
        if self._document is None:
            self._document = self.ask(OPENAPI).json
        assert self._document is not None
        return self._document

    def _require_valid(
        self, path: str, status: str, answered: Answered, method: str = "get"
    ) -> None:
        """The answer is what the document says about its path."""
        operation = self.document["paths"].get(self._template(path))
        if operation is None:
            assert status == "404", path
            return
        response = operation[method]["responses"][status]
        if "$ref" in response:
            response = self.document["components"]["responses"][status]
        kind = answered.headers["content-type"]
        schema = {**response["content"][kind]["schema"], "components": self.document["components"]}
        problems = list(Draft202012Validator(schema).iter_errors(answered.json))
        assert problems == [], problems[0]

    def _template(self, path: str) -> str:
        words = path.partition("?")[0].split("/")
        for template in self.document["paths"]:
            fixed = template.split("/")
            if len(fixed) == len(words) and all(
                word.startswith("{") or word == given
                for word, given in zip(fixed, words, strict=True)
            ):
                return str(template)
        return path


def scope_of(path: str, method: str, headers: Mapping[str, str]) -> dict[str, Any]:
    """The ASGI scope of a request. Underscores in the names of headers are hyphens."""
    parts = urlsplit(path)
    return {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
        "scheme": "http", "path": parts.path, "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(), "root_path": "",
        "headers": [
            (name.lower().replace("_", "-").encode(), value.encode())
            for name, value in headers.items()
        ],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8787),
    }  # fmt: skip


class Listener:
    """A client of a stream of events, until the block ends."""

    def __init__(self, app: ASGIApp, path: str, **headers: str) -> None:
        self._app = app
        self._scope = scope_of(path, "GET", {"host": "127.0.0.1:8787", **headers})
        self._sent: asyncio.Queue[Message] = asyncio.Queue()
        self._left = asyncio.Event()
        self._text = ""
        self.headers: dict[str, str] = {}
        self.last_id = ""

    async def __aenter__(self) -> Self:
        self._task: asyncio.Future[None] = asyncio.ensure_future(
            self._app(self._scope, self._receive, self._sent.put)
        )
        start = await self._sent.get()
        assert start["status"] == 200
        self.headers = {name.decode(): value.decode() for name, value in start["headers"]}
        return self

    async def __aexit__(self, *_: object) -> None:
        self._left.set()
        await self._task

    async def _receive(self) -> Message:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def event(self, kind: str) -> str:
        """The data of the next event of a kind."""
        while True:
            while "\n\n" not in self._text:
                self._text += (await self._sent.get())["body"].decode()
            block, self._text = self._text.split("\n\n", 1)
            fields = dict(line.split(": ", 1) for line in block.split("\n") if line[:1] != ":")
            self.last_id = fields.get("id", self.last_id)
            if fields.get("event") == kind:
                return fields["data"]

    async def rest(self) -> str:
        """What comes after the last event, until the stream ends."""
        while (message := await self._sent.get())["more_body"]:
            self._text += message["body"].decode()
        return self._text

    async def decision(self) -> Any:
        """The next decision."""
        return json.loads(await self.event("decision"))
