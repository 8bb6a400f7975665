"""Asks an ASGI application, without a server."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
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
        return asyncio.run(asyncio.wait_for(self._ask(path, method, body, headers), 120))

    async def _ask(
        self, path: str, method: str, body: bytes, headers: Mapping[str, str]
    ) -> Answered:
        parts = urlsplit(path)
        given = {"host": self._host, **headers}
        if self._token:
            given["authorization"] = f"Bearer {self._token}"
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
            "scheme": "http", "path": parts.path, "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(), "root_path": "",
            "headers": [
                (name.lower().replace("_", "-").encode(), value.encode())
                for name, value in given.items()
            ],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8787),
        }  # fmt: skip
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
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

    def _require_valid(self, path: str, status: str, answered: Answered) -> None:
        """The answer is what the document says about its path."""
        operation = self.document["paths"].get(self._template(path))
        if operation is None:
            assert status == "404", path
            return
        response = operation["get"]["responses"][status]
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
