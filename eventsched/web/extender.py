"""The pages that a scheduler asks as its extender: one path for each verb, POST only.

What stands behind them is given: a function from verb and body to status and answer.
"""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from eventsched.domain.errors import InputError, UnavailableError

LONGEST = 256 * 2**20
"""Bytes that a request may have: 15,000 whole nodes come to about 150 MB."""
MOST_UNDER_WAY = 64
"""Requests at a time; more are answered 503. A scheduler asks about one pod at a time."""

Ask = Callable[[str, bytes], Awaitable[tuple[int, bytes]]]
"""Verb and body → status and body. May raise InputError and UnavailableError."""


def application(paths: Mapping[str, str], ask: Ask) -> ASGIApp:
    """The pages; ``paths`` by verb, "" for a verb that is not offered."""
    verbs = {path: verb for verb, path in paths.items() if path}
    offered = ", ".join(f"{path} ({verb})" for path, verb in verbs.items())
    under_way = 0

    async def page(request: Request) -> Response:
        nonlocal under_way
        path = request.url.path
        if path not in verbs:
            said = f"{path} is not offered; offered are POST {offered}"
            return _words(HTTPStatus.NOT_FOUND, said)
        if request.method != "POST":
            return _words(HTTPStatus.METHOD_NOT_ALLOWED, f"{path} takes POST only")
        if under_way >= MOST_UNDER_WAY:
            return _words(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at a time")
        under_way += 1
        try:
            status, body = await ask(verbs[path], await request.body())
        except InputError as wrong:
            return _words(HTTPStatus.BAD_REQUEST, str(wrong))
        except UnavailableError as away:
            return _words(HTTPStatus.SERVICE_UNAVAILABLE, str(away))
        finally:
            under_way -= 1
        kind = "application/json" if status == HTTPStatus.OK else "text/plain; charset=utf-8"
        return Response(body, status, media_type=kind)

    methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
    made = Starlette(routes=[Route("/{path:path}", page, methods=methods)], max_body_size=LONGEST)
    made.router.redirect_slashes = False
    return made


def _words(status: HTTPStatus, said: str) -> Response:
    return PlainTextResponse(f"{said}\n", status)
