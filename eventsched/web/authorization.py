"""Which client may read what: the API server is asked, as kube-scheduler asks it.

A bearer token goes into a TokenReview, the user that it names, or ``system:anonymous`` without one,
into a SubjectAccessReview for the path and the verb. What cannot be settled is refused. Client
certificates and front-proxy headers are not read. Upstream: apiserver/pkg/server/options
{authentication,authorization}.go, endpoints/filters; there a token review that fails is a 401.
"""

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from hashlib import blake2b
from http import HTTPStatus
from typing import Any, Generic, TypeVar

import msgspec
import structlog

TOKEN_REVIEW = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEW = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
REMEMBERED = 10.0
"""Seconds for which an answer holds (upstream: CacheTTL, AllowCacheTTL, DenyCacheTTL)."""
TIMEOUT = 10.0
"""Seconds for a request's reviews (upstream: TokenRequestTimeout)."""
_MOST_REMEMBERED = 1024
_AT_ONCE = 8
"""Reviews under way: strangers must not keep the API client busy."""
_QUIET = 10.0
"""Seconds between two log lines about reviews that fail."""
_ALL_POWERFUL = "system:masters"
"""A group that may do everything (upstream: AlwaysAllowGroups)."""

Ask = Callable[[str, bytes], Awaitable[tuple[int, bytes]]]
"""POSTs a JSON body to a path of the API server and returns the answer's status and body; may raise
any exception if there is no answer."""

_S = TypeVar("_S")
_V = TypeVar("_V")

logger = structlog.stdlib.get_logger(__name__)


class User(msgspec.Struct, frozen=True):
    """The user of a request, from a TokenReview."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = {}


ANONYMOUS = User("system:anonymous", groups=("system:unauthenticated",))


class _TokenStatus(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: User = User()


class _TokenReview(msgspec.Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _AccessStatus(msgspec.Struct, frozen=True):
    allowed: bool = False
    denied: bool = False
    reason: str = ""


class _AccessReview(msgspec.Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


class RequestRefusedError(Exception):
    """A request that is not served; ``status`` is 401, 403 or 500, ``reason`` upstream's word."""

    def __init__(self, status: HTTPStatus, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message


class Reviews:
    """Asks the API server whose a token is and what its user may do, and caches the answers."""

    def __init__(self, ask: Ask, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._tokens: _Remembered[_TokenStatus] = _Remembered(clock)
        self._rights: _Remembered[_AccessStatus] = _Remembered(clock)
        self._key = secrets.token_bytes(16)
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._quiet_until = 0.0

    async def check(self, authorization: str, verb: str, path: str) -> User:
        """The user who may do that. ``authorization`` is the header's value, "" for none. Raises
        RefusedError."""
        token = bearer(authorization)
        user = ANONYMOUS if token is None else await self._user(token)
        if user is None:
            words = "Unauthorized: the API server does not know this bearer token"
            raise RequestRefusedError(HTTPStatus.UNAUTHORIZED, "Unauthorized", words)
        if _ALL_POWERFUL in user.groups:
            return user
        status = await self._right(user, verb, path)
        if status.allowed and not status.denied:
            return user
        words = f'forbidden: User "{user.username}" cannot {verb} path "{path}"'
        reason = f": {status.reason}" if status.reason else ""
        raise RequestRefusedError(HTTPStatus.FORBIDDEN, "Forbidden", words + reason)

    async def _user(self, token: str) -> User | None:
        """The token's user; None if the token is not valid."""
        key = blake2b(token.encode(), key=self._key, digest_size=16).digest()
        found = self._tokens.get(key)
        if found is None:
            review = await self._review(TOKEN_REVIEW, "TokenReview", {"token": token}, _TokenReview)
            found = review.status
            self._tokens.put(key, found)
        return found.user if found.authenticated else None

    async def _right(self, user: User, verb: str, path: str) -> _AccessStatus:
        spec = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "nonResourceAttributes": {"path": path, "verb": verb},
        }
        key = msgspec.json.encode(spec)
        found = self._rights.get(key)
        if found is None:
            kind = "SubjectAccessReview"
            found = (await self._review(ACCESS_REVIEW, kind, spec, _AccessReview)).status
            self._rights.put(key, found)
        return found

    async def _review(self, path: str, kind: str, spec: Mapping[str, Any], shape: type[_S]) -> _S:
        group = path.split("/")[2]
        body = msgspec.json.encode({"apiVersion": f"{group}/v1", "kind": kind, "spec": spec})
        try:
            async with asyncio.timeout(TIMEOUT), self._at_once:
                status, answer = await self._ask(path, body)
            if status in (HTTPStatus.OK, HTTPStatus.CREATED):
                return msgspec.json.decode(answer, type=shape)
            problem = f"HTTP {status}: {answer[:500].decode(errors='replace')}"
        except TimeoutError:
            problem = "no answer in time"
        except Exception as error:  # noqa: BLE001 - whatever it is: nothing was settled
            problem = f"{type(error).__name__}: {error}"
        self._complain(kind, problem)
        words = f"Internal Server Error: the {kind} that decides on this request failed"
        raise RequestRefusedError(HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError", words)

    def _complain(self, kind: str, problem: str) -> None:
        """Logs, not too often, what a stranger must not learn from the response."""
        if self._clock() >= self._quiet_until:
            self._quiet_until = self._clock() + _QUIET
            remedy = "bind the ClusterRole system:auth-delegator to eventsched's ServiceAccount"
            remedy = remedy if problem.startswith("HTTP 403") else "see the API server"
            logger.warning("a review failed", kind=kind, problem=problem, remedy=remedy)


def bearer(authorization: str) -> str | None:
    """The token in a header's value; None if there is none (upstream: bearertoken.go)."""
    parts = authorization.strip().split(" ", 2)
    if len(parts) < 2 or parts[0].lower() != "bearer" or not parts[1]:
        return None
    return parts[1]


class _Remembered(Generic[_V]):
    """Answers by key, for a while; beyond a limit the oldest are dropped."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: OrderedDict[bytes, tuple[float, _V]] = OrderedDict()

    def get(self, key: bytes) -> _V | None:
        until, value = self._kept.get(key, (0.0, None))
        return value if self._clock() < until else None

    def put(self, key: bytes, value: _V) -> None:
        self._kept.pop(key, None)
        self._kept[key] = self._clock() + REMEMBERED, value
        if len(self._kept) > _MOST_REMEMBERED:
            self._kept.popitem(last=False)
