"""The ASGI application: authorizes a request, has its answer made in a thread, and sends it with an
ETag."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from http import HTTPStatus
from typing import Any, Protocol

import msgspec
import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eventsched.api.openapi import openapi_document
from eventsched.api.operations import OPERATIONS, Asked, Desk, Operation
from eventsched.api.parameters import values_of
from eventsched.api.problems import problem_response, response_to
from eventsched.api.workers import BusyError, Workers
from eventsched.questions.visibility import EVERYTHING, Visibility

ROOT = "/api/v1"
OPENAPI = "/api/openapi.json"
QUICK_THREADS, SLOW_THREADS = 8, 2
MOST_QUICK, MOST_SLOW = 64, 16
"""Requests of each kind under way or waiting at most; more are answered 503."""
_PATIENCE = 0.05
"""Seconds that a quick answer waits for what is refreshed for it."""
_MOST_BODY = 1024
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)

logger = structlog.stdlib.get_logger(__name__)


class RefusedError(Exception):
    """A request whose client may not make it."""

    def __init__(self, status: HTTPStatus, detail: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail


class Gate(Protocol):
    """Decides what the client of a request may see."""

    async def visibility(self, request: Request) -> Visibility:
        """What the client may see. Raises RefusedError."""


class OpenGate:
    """Every client sees everything. Without ``local_only`` for a port that only this machine
    reaches: then the request has to name this machine, so that a page of the web whose name is
    made to point here cannot read answers."""

    def __init__(self, *, local_only: bool) -> None:
        self._local_only = local_only

    async def visibility(self, request: Request) -> Visibility:
        """See Gate."""
        host = (request.url.hostname or "").lower()
        if self._local_only and host not in ("localhost", "127.0.0.1", "::1"):
            detail = f"the Host of the request is {host!r}, not this machine's own address"
            raise RefusedError(HTTPStatus.FORBIDDEN, detail)
        return EVERYTHING


class _Api:
    """The state of one application."""

    def __init__(self, desk: Desk, gate: Gate) -> None:
        self._desk, self._gate = desk, gate
        self._quick = Workers("quick", QUICK_THREADS, MOST_QUICK)
        self._slow = Workers("slow", SLOW_THREADS, MOST_SLOW)
        self._refresh = Workers("refresh", 1, 1)

    def endpoint(self, operation: Operation) -> Callable[[Request], Any]:
        """What answers requests of an operation."""

        async def answer(request: Request) -> Response:
            try:
                sees = await self._gate.visibility(request)
                values = values_of(
                    operation.parameters, request.path_params, request.query_params.multi_items()
                )
                asked = Asked(self._desk, values, sees)
                return await self._answer(operation, asked, request)
            except RefusedError as refused:
                return refusal(refused)
            except Exception as error:  # noqa: BLE001 - each request is answered
                return self._failure(error, request)

        return answer

    async def _answer(self, operation: Operation, asked: Asked, request: Request) -> Response:
        if operation.refresh is not None:
            await self._refreshed(operation.refresh, asked)
        workers = self._slow if operation.slow else self._quick
        body, tag = await workers.run(_encoded, operation, asked)
        headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Authorization"}
        if _matches(request.headers.get("if-none-match"), tag):
            return Response(None, HTTPStatus.NOT_MODIFIED, headers)
        return Response(body, HTTPStatus.OK, headers, media_type="application/json")

    async def _refreshed(self, refresh: Callable[[Asked], Any], asked: Asked) -> None:
        """Begins a refresh unless one is under way, and waits a moment for it."""
        with suppress(BusyError, TimeoutError):
            task = asyncio.ensure_future(self._refresh.run(_quietly, refresh, asked))
            await asyncio.wait_for(asyncio.shield(task), _PATIENCE)

    def _failure(self, error: Exception, request: Request) -> Response:
        response = response_to(error)
        if response is None:
            logger.error("an answer failed", path=request.url.path, exc_info=error)
            detail = "the answer could not be made; the server's log says why"
            return problem_response(HTTPStatus.INTERNAL_SERVER_ERROR, detail)
        if response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            logger.warning("an answer failed", path=request.url.path, problem=str(error))
        return response


def _quietly(refresh: Callable[[Asked], Any], asked: Asked) -> None:
    """Refreshes; the answer itself reports what is wrong."""
    with suppress(Exception):
        refresh(asked)


def _encoded(operation: Operation, asked: Asked) -> tuple[bytes, str]:
    """The body of an answer and its ETag, made in a thread."""
    body = msgspec.json.encode(operation.make(asked))
    return body, f'"{blake2b(body, digest_size=16).hexdigest()}"'


def _matches(header: str | None, tag: str) -> bool:
    """Whether If-None-Match names the tag (RFC 9110, 13.1.2: compared as weak ones)."""
    if header is None:
        return False
    named = [part.strip().removeprefix("W/") for part in header.split(",")]
    return tag in named or "*" in named


def refusal(refused: RefusedError) -> Response:
    """The response to a request that is not allowed."""
    is_unknown = refused.status is HTTPStatus.UNAUTHORIZED
    headers = {"WWW-Authenticate": "Bearer"} if is_unknown else {}
    return problem_response(refused.status, refused.detail, headers=headers)


async def _http_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    detail = f"{request.method} {request.url.path}: {status.description.lower()}"
    remedy = f"see {OPENAPI}"
    return problem_response(status, detail, remedy=remedy, headers=error.headers)


def application(desk: Desk, gate: Gate) -> ASGIApp:
    """The API over a log, for the clients that ``gate`` lets in."""
    api = _Api(desk, gate)
    document = msgspec.json.encode(openapi_document(OPERATIONS))

    async def openapi(request: Request) -> Response:
        try:
            await gate.visibility(request)
        except RefusedError as refused:
            return refusal(refused)
        return Response(document, media_type="application/json")

    routes = [
        Route(f"{ROOT}{operation.path}", api.endpoint(operation), methods=["GET"])
        for operation in OPERATIONS
    ]
    starlette = Starlette(
        routes=[*routes, Route(OPENAPI, openapi, methods=["GET"])],
        exception_handlers={HTTPException: _http_problem},
        max_body_size=_MOST_BODY,
    )
    starlette.router.redirect_slashes = False
    return _with_headers(starlette)


def _with_headers(app: ASGIApp) -> ASGIApp:
    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        await app(scope, receive, send_with_headers)

    return answered
