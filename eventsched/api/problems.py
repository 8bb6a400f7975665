"""Errors as problem details (RFC 9457)."""

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.responses import Response

from eventsched.api.following import TooManyError
from eventsched.api.workers import BusyError
from eventsched.domain.errors import InputError, UnavailableError
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.history.explain.explanation import NoPodError
from eventsched.questions.visibility import NotVisibleError

PROBLEM_TYPE = "application/problem+json"
_RETRY_SECONDS = 2
RETRY_LATER = {"Retry-After": str(_RETRY_SECONDS)}
"""The header of a 503."""


class ProblemDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error. ``where`` names the parameter or object, ``remedy`` says what the client can do."""

    title: str
    status: int
    detail: str = ""
    where: str = ""
    remedy: str = ""
    type: str = "about:blank"


def problem_response(
    status: HTTPStatus,
    detail: str,
    where: str = "",
    remedy: str = "",
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The response for an error."""
    return _response(_details(status, detail, where, remedy), headers or {})


def problem_of(error: BaseException) -> ProblemDetails | None:
    """An error that a client may cause or wait out; None for a bug."""
    match error:
        case NotVisibleError():
            status = HTTPStatus.FORBIDDEN
        case NoPodError():
            status = HTTPStatus.NOT_FOUND
        case InputError():
            status = HTTPStatus.BAD_REQUEST
        case UnavailableError():
            # Not where the database is: that is nothing for clients.
            return _details(HTTPStatus.SERVICE_UNAVAILABLE, "the log cannot be read at the moment")
        case BusyError() | TooManyError() | PoolTimeoutError():
            return _details(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests are under way")
        case CorruptLogError():
            return _details(HTTPStatus.INTERNAL_SERVER_ERROR, f"the log is damaged: {error}")
        case _:
            return None
    assert isinstance(error, InputError)
    return _details(status, error.problem, error.where, error.remedy)


def response_to(error: BaseException) -> Response | None:
    """The response for an error that a client may cause or wait out; None for a bug."""
    problem = problem_of(error)
    if problem is None:
        return None
    is_passing = problem.status == HTTPStatus.SERVICE_UNAVAILABLE
    return _response(problem, RETRY_LATER if is_passing else {})


def _details(status: HTTPStatus, detail: str, where: str = "", remedy: str = "") -> ProblemDetails:
    return ProblemDetails(
        title=status.phrase, status=int(status), detail=detail, where=where, remedy=remedy
    )


def _response(problem: ProblemDetails, headers: Mapping[str, str]) -> Response:
    own = {"Cache-Control": "no-store", **headers}
    body = msgspec.json.encode(problem)
    return Response(body, problem.status, own, media_type=PROBLEM_TYPE)
