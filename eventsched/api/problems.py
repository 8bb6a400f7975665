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
    problem = ProblemDetails(
        title=status.phrase, status=int(status), detail=detail, where=where, remedy=remedy
    )
    own = {"Cache-Control": "no-store", **(headers or {})}
    return Response(msgspec.json.encode(problem), status, own, media_type=PROBLEM_TYPE)


def response_to(error: BaseException) -> Response | None:
    """The response for an error that a client may cause or wait out; None for a bug."""
    match error:
        case NotVisibleError():
            status = HTTPStatus.FORBIDDEN
        case NoPodError():
            status = HTTPStatus.NOT_FOUND
        case InputError():
            status = HTTPStatus.BAD_REQUEST
        case UnavailableError():
            # Not where the database is: that is nothing for clients.
            detail = "the log cannot be read at the moment"
            return problem_response(HTTPStatus.SERVICE_UNAVAILABLE, detail, headers=_later())
        case BusyError() | TooManyError() | PoolTimeoutError():
            detail = "too many requests are under way"
            return problem_response(HTTPStatus.SERVICE_UNAVAILABLE, detail, headers=_later())
        case CorruptLogError():
            detail = f"the log is damaged: {error}"
            return problem_response(HTTPStatus.INTERNAL_SERVER_ERROR, detail)
        case _:
            return None
    assert isinstance(error, InputError)
    return problem_response(status, error.problem, error.where, error.remedy)


def _later() -> dict[str, str]:
    return {"Retry-After": str(_RETRY_SECONDS)}
