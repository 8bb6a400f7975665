"""What a client may see is what the API server says about its user.

A TokenReview finds the user of a bearer token, or an authenticating proxy has named the user in
headers (``request_headers``). A SubjectAccessReview for ``list pods`` decides: in all namespaces,
the user sees everything; otherwise the namespaces in which the user has it. Which namespaces there
are is asked of the API server as well: a RoleBinding is in a namespace that exists.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path

import msgspec
import structlog
from starlette.requests import Request

from eventsched.api.gates.gate import RefusedError, token_of
from eventsched.api.gates.request_headers import proxied_user
from eventsched.cluster.kube.http.access import connect
from eventsched.cluster.kube.http.api import ApiClient
from eventsched.questions.visibility import EVERYTHING, Visibility
from eventsched.web.authorization import (
    REVIEW_TIMEOUT,
    RecentAnswers,
    RequestRefusedError,
    Reviews,
    User,
)

MOST_NAMESPACES = 1_000
"""Namespaces that are reviewed for a user at most. If there are more, only the one that the request
names is."""
_AT_ONCE = 4
"""Reviews of one user under way: fewer than Reviews allows, so that others have their turn."""
_NAMESPACES = "/api/v1/namespaces"
_NO_ANSWER = "the API server could not be asked what this client may see"

ListNamespaces = Callable[[], Awaitable[Sequence[str]]]
"""The names of at most MOST_NAMESPACES + 1 namespaces; may raise any exception if there is no
answer."""

logger = structlog.stdlib.get_logger(__name__)


class _Metadata(msgspec.Struct, frozen=True):
    name: str


class _Namespace(msgspec.Struct, frozen=True):
    metadata: _Metadata


class _NamespaceList(msgspec.Struct, frozen=True):
    items: list[_Namespace]


class DelegatedGate:
    """A gate that asks the API server. What it says holds for CACHE_SECONDS. With ``by_proxy`` the
    user is the one that the headers name: only a proxy may reach the port then."""

    def __init__(
        self,
        reviews: Reviews,
        namespaces: ListNamespaces,
        clock: Callable[[], float] = time.monotonic,
        *,
        by_proxy: bool = False,
    ) -> None:
        self._reviews, self._list, self._by_proxy = reviews, namespaces, by_proxy
        self._namespaces: RecentAnswers[Sequence[str]] = RecentAnswers(clock)
        self._visible: RecentAnswers[frozenset[str]] = RecentAnswers(clock)
        self._under_way: dict[bytes, asyncio.Task[frozenset[str]]] = {}

    async def visibility(self, request: Request) -> Visibility:
        """See eventsched.api.gates.gate.Gate."""
        named = request.path_params.get("namespace") or request.query_params.get("namespace", "")
        try:
            user = proxied_user(request.headers) if self._by_proxy else await self._holder(request)
            if await self._reviews.lists_pods(user, ""):
                return EVERYTHING
            return Visibility(await self._visible_to(user, named))
        except RequestRefusedError:  # the log says which review failed, and why
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, _NO_ANSWER) from None

    async def _holder(self, request: Request) -> User:
        user = await self._reviews.user(token_of(request))
        if user is None:
            detail = "the API server does not know the bearer token"
            raise RefusedError(HTTPStatus.UNAUTHORIZED, detail)
        return user

    async def _visible_to(self, user: User, named: str) -> frozenset[str]:
        known = await self._known_namespaces()
        if len(known) > MOST_NAMESPACES:
            if not named:
                detail = f"there are more than {MOST_NAMESPACES} namespaces"
                raise RefusedError(HTTPStatus.FORBIDDEN, detail, "name one: namespace=NAME")
            found = await self._reviewed(user, [named])
        else:
            found = await self._shared_review(user, known)
        if not found:
            detail = f"{user.username} may not list pods in " + (
                f"namespace {named}" if named else "any namespace"
            )
            raise RefusedError(HTTPStatus.FORBIDDEN, detail, "ask for the right to list pods")
        return found

    async def _known_namespaces(self) -> Sequence[str]:
        known = self._namespaces.get(b"")
        if known is None:
            try:
                async with asyncio.timeout(REVIEW_TIMEOUT):
                    known = await self._list()
            except Exception as error:  # noqa: BLE001 - any failure refuses the request
                problem = str(error) or type(error).__name__
                logger.warning("the namespaces cannot be listed", problem=problem)
                raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, _NO_ANSWER) from None
            self._namespaces.put(b"", known)
        return known

    async def _shared_review(self, user: User, namespaces: Sequence[str]) -> frozenset[str]:
        """Those of the namespaces that the user may see. A page asks several times at once: all of
        its requests wait for the same reviews."""
        key = msgspec.json.encode(user)
        visible = self._visible.get(key)
        if visible is not None:
            return visible
        task = self._under_way.get(key)
        if task is None:
            task = asyncio.ensure_future(self._reviewed(user, namespaces))
            self._under_way[key] = task
            task.add_done_callback(lambda ended: self._ended(key, ended))
        return await asyncio.shield(task)

    def _ended(self, key: bytes, task: asyncio.Task[frozenset[str]]) -> None:
        del self._under_way[key]
        if not task.cancelled() and task.exception() is None:
            self._visible.put(key, task.result())

    async def _reviewed(self, user: User, namespaces: Sequence[str]) -> frozenset[str]:
        remaining, found = iter(namespaces), set()

        async def review() -> None:
            for namespace in remaining:
                if await self._reviews.lists_pods(user, namespace):
                    found.add(namespace)

        try:
            async with asyncio.TaskGroup() as reviewing:
                for _ in range(_AT_ONCE):
                    reviewing.create_task(review())
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return frozenset(found)


class ReviewingServer:
    """The API server that is asked. It is connected to at the first request, so that a server
    starts while it is down."""

    def __init__(self, kubeconfig: Path | None, context: str | None) -> None:
        self._kubeconfig, self._context = kubeconfig, context
        self._connecting = asyncio.Lock()
        self._client: ApiClient | None = None

    async def ask(self, path: str, body: bytes) -> tuple[int, bytes]:
        """See eventsched.web.authorization.Ask."""
        answer = await (await self._connected()).call("POST", path, body=body, patience=0)
        return answer.status, answer.body

    async def namespaces(self) -> Sequence[str]:
        """See ListNamespaces."""
        client = await self._connected()
        limit = {"limit": str(MOST_NAMESPACES + 1)}
        answer = await client.call("GET", _NAMESPACES, params=limit, patience=0)
        if answer.status != HTTPStatus.OK:
            text = answer.body[:500].decode(errors="replace")
            raise ConnectionError(f"HTTP {answer.status}: {text}")
        found = msgspec.json.decode(answer.body, type=_NamespaceList)
        return [each.metadata.name for each in found.items]

    async def close(self) -> None:
        """Closes the connections."""
        if self._client is not None:
            await self._client.close()

    async def _connected(self) -> ApiClient:
        async with self._connecting:
            if self._client is None:
                self._client = await connect(self._kubeconfig, self._context)
        return self._client


@asynccontextmanager
async def delegated_gate(
    kubeconfig: Path | None, context: str | None, *, by_proxy: bool = False
) -> AsyncIterator[DelegatedGate]:
    """A gate over the API server of a kubeconfig, of its ``context`` if given; None as in
    ``connect``. ``by_proxy`` as in DelegatedGate."""
    server = ReviewingServer(kubeconfig, context)
    try:
        yield DelegatedGate(Reviews(server.ask), server.namespaces, by_proxy=by_proxy)
    finally:
        await server.close()
