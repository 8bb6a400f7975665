"""What decides whether a request is answered, and what its client may see."""

from http import HTTPStatus
from typing import Protocol

from starlette.requests import Request

from eventsched.questions.visibility import EVERYTHING, Visibility
from eventsched.web.authorization import bearer
from eventsched.web.http.https_server import is_loopback

FORWARDED = "X-Eventsched-Authorization"
"""Stands for Authorization if that is missing: the API server's proxy removes that one (upstream:
apiserver/pkg/endpoints/filters/authentication.go)."""


class RefusedError(Exception):
    """A request whose client may not make it."""

    def __init__(self, status: HTTPStatus, detail: str, remedy: str = "") -> None:
        super().__init__(detail)
        self.status, self.detail, self.remedy = status, detail, remedy


def token_of(request: Request) -> str:
    """The bearer token of a request. Raises RefusedError if there is none."""
    headers = request.headers
    token = bearer(headers.get("authorization") or headers.get(FORWARDED) or "")
    if token is None:
        remedy = "send the header Authorization: Bearer TOKEN"
        raise RefusedError(HTTPStatus.UNAUTHORIZED, "a bearer token is needed", remedy)
    return token


class Gate(Protocol):
    """Decides what the client of a request may see."""

    async def visibility(self, request: Request) -> Visibility:
        """What the client may see. Raises RefusedError."""


class OpenGate:
    """Every client sees everything. ``local_only`` is for a port that only this machine reaches:
    there the request has to name this machine, so that a page of the web whose name is made to
    point here cannot read answers."""

    def __init__(self, *, local_only: bool) -> None:
        self._local_only = local_only

    async def visibility(self, request: Request) -> Visibility:
        """See Gate."""
        host = (request.url.hostname or "").lower()
        if self._local_only and not is_loopback(host):
            detail = f"the Host of the request is {host!r}, not this machine's own address"
            remedy = "ask 127.0.0.1 or localhost, or start the server with --bind-address"
            raise RefusedError(HTTPStatus.FORBIDDEN, detail, remedy)
        return EVERYTHING
