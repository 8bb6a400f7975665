"""The pages: what each path answers, and which requests are authorized first.

The health paths are open to all, as upstream's are for probes (AlwaysAllowPaths). Every other path
is authorized first, even one that does not exist.
"""

import platform
from collections.abc import Callable, Mapping
from http import HTTPStatus
from itertools import islice
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from eventsched import __version__
from eventsched.domain.errors import InputError
from eventsched.process_log import output
from eventsched.process_log.masking import masked_value
from eventsched.web import health
from eventsched.web.authorization import RequestRefusedError, Reviews
from eventsched.web.http.response_headers import adding_headers
from eventsched.web.metrics import Metrics
from eventsched.web.status import ProcessStatus

_OPEN = ("healthz", "livez", "readyz")
_HEADERS = ((b"cache-control", b"no-cache, private"), (b"x-content-type-options", b"nosniff"))
_MAX_BODY_BYTES = 1024
"""Largest body of a request in bytes."""
_MAX_LISTED = 1000
"""Objects that a page lists at most."""
MOST_UNDER_WAY = 64
"""Requests under way at most, without those to the health paths; more are answered 503."""


def public(status: ProcessStatus) -> ASGIApp:
    """The health paths alone."""
    return _application(_health_routes(status), None)


def application(
    status: ProcessStatus,
    metrics: Metrics,
    configuration: Callable[[], Mapping[str, Any]],
    reviews: Reviews | None,
) -> ASGIApp:
    """All pages. ``/configz`` shows the present ``configuration`` with its secrets masked.
    ``reviews`` authorize requests; None: every client may read everything."""

    async def configz(_: Request) -> Response:
        return JSONResponse(masked_value(configuration()))

    async def undecodable(_: Request) -> Response:
        skipped = [
            {"resource": obj.resource, "name": obj.name, "reason": obj.reason, "kept": obj.kept}
            for obj in islice(status.undecodable, _MAX_LISTED)
        ]
        return JSONResponse(masked_value(skipped))

    async def measured(request: Request) -> Response:
        text, content_type = metrics.exposition(request.headers.get("accept", ""))
        return Response(text, headers={"content-type": content_type})

    routes = [
        *_health_routes(status),
        Route("/metrics", measured, methods=["GET"]),
        Route("/configz", configz, methods=["GET"]),
        Route("/version", _version, methods=["GET"]),
        Route("/debug/undecodable", undecodable, methods=["GET"]),
        Route("/debug/flags/v", _set_level, methods=["PUT"]),
    ]
    return _application(routes, reviews)


def _application(routes: list[Route], reviews: Reviews | None) -> Starlette:
    middleware = Middleware(_PageMiddleware, reviews=reviews)
    starlette = Starlette(routes=routes, middleware=[middleware], max_body_size=_MAX_BODY_BYTES)
    starlette.router.redirect_slashes = False
    return starlette


class _PageMiddleware:
    """Handles every request before its page does. It refuses malformed requests and adds headers to
    each response. Requests other than health probes are authorized and limited in number."""

    def __init__(self, app: ASGIApp, reviews: Reviews | None) -> None:
        self._app = app
        self._reviews = reviews
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        try:
            await self._admitted(scope, receive, adding_headers(send, _HEADERS))
        except ClientDisconnect:
            return  # the client left before its request was complete: no client is left to answer

    async def _admitted(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if problem := _problem(scope):
            await _malformed(problem)(scope, receive, send)
        elif path.split("/")[1] in _OPEN:
            await self._app(scope, receive, send)
        elif self._under_way >= MOST_UNDER_WAY:
            busy = HTTPStatus.SERVICE_UNAVAILABLE
            await PlainTextResponse("too many requests at a time\n", busy)(scope, receive, send)
        else:
            self._under_way += 1
            try:
                await self._authorized(scope, receive, send)
            finally:
                self._under_way -= 1

    async def _authorized(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._reviews is not None:
            header = Headers(scope=scope).get("authorization", "")
            try:
                await self._reviews.check(header, scope["method"].lower(), scope["path"])
            except RequestRefusedError as refused:
                await _refusal(refused)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _problem(scope: Scope) -> str:
    """Why a request is refused although HTTP allows it; "" if it is not. If a request states two
    lengths of its body, a proxy in front may end the body elsewhere (RFC 9112, 6.1)."""
    if not scope["path"].startswith("/"):
        return "the target of a request is a path here"
    names = {name for name, _ in scope["headers"]}
    if {b"content-length", b"transfer-encoding"} <= names:
        return "Content-Length and Transfer-Encoding exclude each other"
    return ""


def _malformed(problem: str) -> Response:
    return PlainTextResponse(f"{problem}\n", HTTPStatus.BAD_REQUEST, {"connection": "close"})


def _refusal(refused: RequestRefusedError) -> Response:
    """A Status object, as an API server answers."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": refused.message,
        "reason": refused.reason,
        "code": int(refused.status),
    }
    is_unknown = refused.status is HTTPStatus.UNAUTHORIZED
    headers = {"WWW-Authenticate": "Bearer"} if is_unknown else None
    return JSONResponse(status, refused.status, headers)


def _health_routes(status: ProcessStatus) -> list[Route]:
    routes = []
    for name, checks in health.checks_of(status).items():
        routes.append(Route(f"/{name}", _all_checks(name, checks, status), methods=["GET"]))
        routes.append(Route(f"/{name}/{{check}}", _one_check(checks), methods=["GET"]))
    return routes


def _all_checks(name: str, checks: Callable[[], health.Checks], status: ProcessStatus) -> Any:
    async def page(request: Request) -> Response:
        query = request.query_params
        answer = health.answer(
            name,
            checks(),
            verbose="verbose" in query,
            exclude=query.getlist("exclude"),
            remarks=status.remarks,
        )
        return PlainTextResponse(answer.text, answer.status)

    return page


def _one_check(checks: Callable[[], health.Checks]) -> Any:
    async def page(request: Request) -> Response:
        answer = health.single(checks(), request.path_params["check"])
        return PlainTextResponse(answer.text, answer.status)

    return page


async def _version(_: Request) -> Response:
    return JSONResponse({"version": __version__, "python": platform.python_version()})


async def _set_level(request: Request) -> Response:
    """Changes the log level as upstream changes its verbosity
    (apiserver/pkg/server/routes/flags.go). The body is a verbosity or the name of a level."""
    body = await request.body()
    try:
        level = output.set_level(body.decode(errors="replace"))
    except InputError as error:
        return PlainTextResponse(f"{error}\n", HTTPStatus.BAD_REQUEST)
    return PlainTextResponse(f"the log level is {level} now\n")
