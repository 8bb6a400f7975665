"""The ASGI application: authorizes a request, has its answer made in a thread, and sends it with an
ETag."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from eventsched.api.arrow import ARROW_TYPE
from eventsched.api.desk.asked import Asked, Desk, Operation
from eventsched.api.event_streams import EVENTS_TYPE, EventStream, decision_events
from eventsched.api.following import AT_ONCE, MOST_LISTENERS, HeadWatch, Places, TooManyError
from eventsched.api.gates.gate import FORWARDED, Gate, RefusedError
from eventsched.api.openapi import openapi_document
from eventsched.api.operations import EVENTS, OPERATIONS, head_of, new_decisions
from eventsched.api.parameters import values_of
from eventsched.api.problems import RETRY_LATER, problem_response, response_to
from eventsched.api.text_answers import TEXT_TYPE, TEXTS
from eventsched.api.what_if.what_if_events import what_if_events
from eventsched.api.what_if.what_if_operations import WHAT_IF, WHAT_IF_OPERATIONS, what_if_job
from eventsched.api.what_if.what_if_runs import Progress, WhatIfRuns
from eventsched.api.workers import BusyError, Workers
from eventsched.questions.answer_shapes import Decisions
from eventsched.questions.visibility import EVERYTHING
from eventsched.web.http.entity_tags import entity_tag, names_tag
from eventsched.web.http.response_headers import with_headers

ROOT = "/api/v1"
OPENAPI = "/api/openapi.json"
QUICK_THREADS, SLOW_THREADS = 8, 2
MOST_QUICK, MOST_SLOW = 64, 16
"""Requests of each kind under way or waiting at most; more are answered 503."""
_PATIENCE = 0.05
"""Seconds that a quick answer waits for what is refreshed for it."""
_MOST_BODY = 1 << 20
"""Bytes of a body at most."""
_JSON_TYPE = "application/json"
_VARY = f"Authorization, {FORWARDED}, Accept"
_UNKEPT = {"Cache-Control": "no-store"}
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)

_T = TypeVar("_T")

logger = structlog.stdlib.get_logger(__name__)


class _Api:
    """The state of one application."""

    def __init__(self, desk: Desk, gate: Gate) -> None:
        self._desk, self._gate = desk, gate
        self._quick = Workers("quick", QUICK_THREADS, MOST_QUICK)
        self._slow = Workers("slow", SLOW_THREADS, MOST_SLOW)
        self._refresh = Workers("refresh", 1, 1)
        self.watch = HeadWatch(self._head)
        self._listeners, self._bodies = Places(MOST_LISTENERS), Places(MOST_SLOW)
        self._woken = asyncio.Semaphore(AT_ONCE)
        self._what_ifs = WhatIfRuns()

    async def _head(self, stream: str | None) -> int:
        return await self._quick.run(head_of, Asked(self._desk, {"stream": stream}, EVERYTHING))

    def endpoint(self, operation: Operation) -> Callable[[Request], Any]:
        """What answers requests of an operation."""

        async def answer(request: Request) -> Response:
            try:
                sees = await self._gate.visibility(request)
                values = values_of(
                    operation.parameters, request.path_params, request.query_params.multi_items()
                )
                asked = Asked(self._desk, values, sees)
                if operation.is_slow(values) or operation in (EVENTS, WHAT_IF):
                    _refuse_foreign(request)
                if operation is EVENTS:
                    return await self._events(asked, request)
                if operation.method == "POST":
                    with self._bodies.taken():
                        asked = asked._replace(body=await _body(request))
                if operation is WHAT_IF:
                    return await self._what_if(asked, request)
                return await self._answer(operation, asked, request)
            except RefusedError as refused:
                return refusal(refused)
            except ClientDisconnect:
                return Response(None, HTTPStatus.BAD_REQUEST)  # the client has left
            except Exception as error:  # noqa: BLE001 - each request is answered
                return self._failure(error, request)

        return answer

    async def _answer(self, operation: Operation, asked: Asked, request: Request) -> Response:
        if operation.refresh is not None:
            await self._refreshed(operation.refresh, asked)
        kind = _wanted_type(request, *_other_types(operation))
        workers = self._slow if operation.is_slow(asked.values) else self._quick
        body, tag = await workers.run(_encoded, operation, asked, kind)
        if operation.waits and asked.values["wait"]:
            waited = self._waited(operation, asked, request, body, tag)
            body, tag = await _while_connected(waited, request)
        if operation.method == "POST":
            return Response(body, headers=_UNKEPT, media_type=kind)
        headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": _VARY}
        if names_tag(request.headers.get("if-none-match"), tag):
            return Response(None, HTTPStatus.NOT_MODIFIED, headers)
        return Response(body, HTTPStatus.OK, headers, media_type=kind)

    async def _waited(
        self, operation: Operation, asked: Asked, request: Request, body: bytes, tag: str
    ) -> tuple[bytes, str]:
        """The answer once it has a decision, or as it is when the time is over. Raises
        RefusedError if the client has lost its rights meanwhile."""
        loop = asyncio.get_running_loop()
        until = loop.time() + asked.values["wait"]
        while True:
            page = msgspec.json.decode(body, type=Decisions)
            if page.decisions or page.next is not None:
                return body, tag
            patience = until - loop.time()
            stream = asked.values["stream"]
            if await self.watch.past(stream, page.head, max(0.0, patience)) is None:
                return body, tag
            # What came is in the log for good: look from there on.
            values = {**asked.values, "after": max(asked.values["after"], page.head)}
            sees = await self._gate.visibility(request)
            later = asked._replace(values=values, sees=sees)
            async with self._woken:
                body, tag = await self._quick.run(_encoded, operation, later, _JSON_TYPE)

    async def _what_if(self, asked: Asked, request: Request) -> Response:
        self._what_ifs.require_free()
        job = await self._slow.run(what_if_job, asked)

        async def run(progress: Progress) -> dict[str, Any]:
            document = await self._what_ifs.run(job, progress)
            # Again: the client may have lost the right to see it meanwhile.
            (await self._gate.visibility(request)).require_whole("what-if")
            return document

        def failure(error: Exception) -> bytes:
            if isinstance(error, RefusedError):
                return bytes(refusal(error).body)
            return bytes(self._failure(error, request).body)

        if _wanted_type(request, EVENTS_TYPE) == EVENTS_TYPE:
            events = what_if_events(run, failure, lambda: self.watch.has_ended)
            return EventStream(events, self._listeners)
        document = await _while_connected(run(lambda done, total: None), request)
        return Response(
            msgspec.json.encode(document), headers=_UNKEPT, media_type="application/json"
        )

    async def _events(self, asked: Asked, request: Request) -> Response:
        after, last = asked.values["after"], request.headers.get("last-event-id")
        if last is not None:
            after = EVENTS.parameters[-1].value(last)
        if after is None:
            async with self._woken:
                after = await self._quick.run(head_of, asked)
        stream = asked.values["stream"]

        async def page(position: int) -> Decisions:
            # Again each time: the client may have lost the right to see it.
            sees = await self._gate.visibility(request)
            values = {**asked.values, "after": position}
            async with self._woken:
                later = asked._replace(values=values, sees=sees)
                return await self._quick.run(new_decisions, later)

        self._listeners.require_free()
        await page(after)  # what is wrong is answered as a problem
        if request.method == "HEAD":
            return Response(None, headers=_UNKEPT, media_type=EVENTS_TYPE)
        events = decision_events(page, self.watch, stream, after)
        return EventStream(events, self._listeners)

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


def _encoded(operation: Operation, asked: Asked, kind: str) -> tuple[bytes, str]:
    """The body of an answer in a media type and its ETag, made in a thread."""
    if kind == TEXT_TYPE:
        body = f"{TEXTS[operation.path](asked)}\n".encode()
    elif kind == ARROW_TYPE and operation.arrow is not None:
        body = operation.arrow(asked)
    else:
        body = msgspec.json.encode(operation.make(asked))
    return body, entity_tag(body)


async def _while_connected(answer: Coroutine[Any, Any, _T], request: Request) -> _T:
    """An answer, which is given up when the client leaves: then it has no place any more. Raises
    ClientDisconnect."""
    made = asyncio.ensure_future(answer)
    left = asyncio.ensure_future(_disconnect(request))
    try:
        await asyncio.wait((made, left), return_when=asyncio.FIRST_COMPLETED)
        if not made.done():
            raise ClientDisconnect
        return made.result()
    finally:
        made.cancel()
        left.cancel()


async def _body(request: Request) -> bytes:
    """The body. Starlette's own limit would answer in plain text. Raises RefusedError if it is too
    large, and ClientDisconnect."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > _MOST_BODY:
            status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            detail = f"the body has more than {_MOST_BODY} bytes"
            raise RefusedError(status, detail, "send less, in several requests")
        parts.append(part)
    return b"".join(parts)


async def _disconnect(request: Request) -> None:
    """Returns when the client has left."""
    if request.method != "POST":  # of which the body has been read
        with suppress(ClientDisconnect):
            async for _ in request.stream():
                pass  # usually empty, and never used
    while (await request.receive())["type"] != "http.disconnect":
        await asyncio.sleep(1)


def _refuse_foreign(request: Request) -> None:
    """Raises RefusedError for what a page of another site has a browser send: it could not read the
    answer, but it would keep a thread busy, or a place of a stream of events."""
    if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        raise RefusedError(HTTPStatus.FORBIDDEN, "the request comes from a page of another site")


def _other_types(operation: Operation) -> Iterator[str]:
    """The media types of an answer beside JSON."""
    if operation.arrow is not None:
        yield ARROW_TYPE
    if operation.path in TEXTS:
        yield TEXT_TYPE


def _wanted_type(request: Request, *others: str) -> str:
    """The first type of JSON and others that Accept names and does not exclude; by default JSON."""
    for part in request.headers.get("accept", "").split(","):
        kind, *parameters = (word.strip() for word in part.lower().split(";"))
        if kind in (_JSON_TYPE, *others) and not {"q=0", "q=0.0"} & set(parameters):
            return kind
    return _JSON_TYPE


def refusal(refused: RefusedError) -> Response:
    """The response to a request that is not allowed."""
    headers = {}
    if refused.status is HTTPStatus.UNAUTHORIZED:
        headers = {"WWW-Authenticate": "Bearer"}
    elif refused.status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers = RETRY_LATER
    return problem_response(refused.status, refused.detail, remedy=refused.remedy, headers=headers)


async def _http_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    detail = f"{request.method} {request.url.path}: {status.description.lower()}"
    remedy = f"see {OPENAPI}"
    return problem_response(status, detail, remedy=remedy, headers=error.headers)


async def _too_many(request: Request, error: Exception) -> Response:
    """The response for a stream of events whose place was taken while its first page was made."""
    response = response_to(error)
    assert response is not None
    return response


class Application:
    """The API as an ASGI application."""

    def __init__(self, app: ASGIApp, watch: HeadWatch) -> None:
        """``watch`` is what long polls and streams of events wait for."""
        self._app, self._watch = app, watch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        await self._app(scope, receive, send)

    @property
    def waiters(self) -> int:
        """How many requests wait for what is new."""
        return self._watch.waiters

    def end(self) -> None:
        """Ends long polls and streams of events: they would keep a server from stopping."""
        self._watch.end()


def application(desk: Desk, gate: Gate) -> Application:
    """The API over a log, for the clients that ``gate`` lets in."""
    api = _Api(desk, gate)
    every = (*OPERATIONS, *WHAT_IF_OPERATIONS, EVENTS)
    document = msgspec.json.encode(openapi_document(every))

    async def openapi(request: Request) -> Response:
        try:
            await gate.visibility(request)
        except RefusedError as refused:
            return refusal(refused)
        return Response(document, media_type="application/json")

    routes = [
        Route(f"{ROOT}{operation.path}", api.endpoint(operation), methods=[operation.method])
        for operation in every
    ]
    starlette = Starlette(
        routes=[*routes, Route(OPENAPI, openapi, methods=["GET"])],
        exception_handlers={HTTPException: _http_problem, TooManyError: _too_many},
    )
    starlette.router.redirect_slashes = False
    return Application(with_headers(starlette, _HEADERS), api.watch)
