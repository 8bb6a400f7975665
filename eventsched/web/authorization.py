"""Authorizes requests by asking the API server, as kube-scheduler does.

A TokenReview finds the user of a bearer token; without a token it is ``system:anonymous``. A
SubjectAccessReview decides whether the user may use this verb on this path. If a review fails, the
request is refused. Client certificates and front-proxy headers are not read. Upstream:
apiserver/pkg/server/options {authentication,authorization}.go, endpoints/filters; there a token
review that fails is a 401.
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
CACHE_SECONDS = 10.0
"""Seconds for which an answer is cached (upstream: CacheTTL, AllowCacheTTL, DenyCacheTTL)."""
REVIEW_TIMEOUT = 10.0
"""Seconds for a request's reviews (upstream: TokenRequestTimeout)."""
_MOST_REMEMBERED = 1024
_AT_ONCE = 8
"""Reviews under way at most, so that unknown clients cannot use up the API client."""
_LOG_INTERVAL = 10.0
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

    @property
    def is_granted(self) -> bool:
        """Whether the user has the right."""
        return self.allowed and not self.denied


class _AccessReview(msgspec.Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


class RequestRefusedError(Exception):
    """A request that is not served. ``status`` is 401, 403 or 500; ``reason`` is upstream's
    reason."""

    def __init__(self, status: HTTPStatus, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message


class Reviews:
    """Asks the API server for the user of a token and for what the user may do. Caches the
    answers."""

    def __init__(self, ask: Ask, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._tokens: RecentAnswers[_TokenStatus] = RecentAnswers(clock)
        self._rights: RecentAnswers[_AccessStatus] = RecentAnswers(clock)
        self._key = secrets.token_bytes(16)
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._quiet_until = 0.0

    async def check(self, authorization: str, verb: str, path: str) -> User:
        """Returns the user of a request if the user may make it. ``authorization`` is the header's
        value, "" without the header. Raises RequestRefusedError."""
        token = bearer(authorization)
        user = ANONYMOUS if token is None else await self.user(token)
        if user is None:
            message = "Unauthorized: the API server does not know this bearer token"
            raise RequestRefusedError(HTTPStatus.UNAUTHORIZED, "Unauthorized", message)
        if _ALL_POWERFUL in user.groups:
            return user
        status = await self._right(user, {"nonResourceAttributes": {"path": path, "verb": verb}})
        if status.is_granted:
            return user
        message = f'forbidden: User "{user.username}" cannot {verb} path "{path}"'
        reason = f": {status.reason}" if status.reason else ""
        raise RequestRefusedError(HTTPStatus.FORBIDDEN, "Forbidden", message + reason)

    async def user(self, token: str) -> User | None:
        """The token's user; None if the token is not valid. Raises RequestRefusedError."""
        key = blake2b(token.encode(), key=self._key, digest_size=16).digest()
        status = self._tokens.get(key)
        if status is None:
            review = await self._review(TOKEN_REVIEW, "TokenReview", {"token": token}, _TokenReview)
            status = review.status
            self._tokens.put(key, status)
        return status.user if status.authenticated else None

    async def lists_pods(self, user: User, namespace: str) -> bool:
        """Whether the user may list the pods of a namespace, or of all of them (""). Raises
        RequestRefusedError."""
        if _ALL_POWERFUL in user.groups:
            return True
        wanted = {
            "verb": "list", "group": "", "version": "v1", "resource": "pods",
            "namespace": namespace,
        }  # fmt: skip
        return (await self._right(user, {"resourceAttributes": wanted})).is_granted

    async def _right(self, user: User, attributes: Mapping[str, Any]) -> _AccessStatus:
        spec = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            **attributes,
        }
        key = msgspec.json.encode(spec)
        status = self._rights.get(key)
        if status is None:
            kind = "SubjectAccessReview"
            status = (await self._review(ACCESS_REVIEW, kind, spec, _AccessReview)).status
            self._rights.put(key, status)
        return status

    async def _review(self, path: str, kind: str, spec: Mapping[str, Any], shape: type[_S]) -> _S:
        group = path.split("/")[2]
        body = msgspec.json.encode({"apiVersion": f"{group}/v1", "kind": kind, "spec": spec})
        try:
            async with asyncio.timeout(REVIEW_TIMEOUT), self._at_once:
                status, answer = await self._ask(path, body)
            if status in (HTTPStatus.OK, HTTPStatus.CREATED):
                return msgspec.json.decode(answer, type=shape)
            problem = f"HTTP {status}: {answer[:500].decode(errors='replace')}"
        except TimeoutError:
            problem = "no answer in time"
        except Exception as error:  # noqa: BLE001 - any failure refuses the request
            problem = f"{type(error).__name__}: {error}"
        self._complain(kind, problem)
        message = f"Internal Server Error: the {kind} that decides on this request failed"
        raise RequestRefusedError(HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError", message)

    def _complain(self, kind: str, problem: str) -> None:
        """Logs, at most once in _QUIET seconds, why a review failed; the response omits it."""
        if self._clock() >= self._quiet_until:
            self._quiet_until = self._clock() + _LOG_INTERVAL
            remedy = "bind the ClusterRole system:auth-delegator to eventsched's ServiceAccount"
            remedy = remedy if problem.startswith("HTTP 403") else "see the API server"
            logger.warning("a review failed", kind=kind, problem=problem, remedy=remedy)


def bearer(authorization: str) -> str | None:
    """The token in a header's value; None if there is none (upstream: bearertoken.go)."""
    parts = authorization.strip().split(" ", 2)
    if len(parts) < 2 or parts[0].lower() != "bearer" or not parts[1]:
        return None
    return parts[1]


class RecentAnswers(Generic[_V]):
    """A cache of answers by key. An entry expires after CACHE_SECONDS; the oldest one is dropped if
    there are too many."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: OrderedDict[bytes, tuple[float, _V]] = OrderedDict()

    def get(self, key: bytes) -> _V | None:
        """The answer for a key; None if there is none, or it has expired."""
        until, value = self._entries.get(key, (0.0, None))
        return value if self._clock() < until else None

    def put(self, key: bytes, value: _V) -> None:
        """Keeps an answer."""
        self._entries.pop(key, None)
        self._entries[key] = self._clock() + CACHE_SECONDS, value
        if len(self._entries) > _MOST_REMEMBERED:
            self._entries.popitem(last=False)
