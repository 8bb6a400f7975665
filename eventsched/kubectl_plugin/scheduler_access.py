"""The API of the scheduler that a command asks, with the token that the user sends."""

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from eventsched import __version__
from eventsched.cluster.kube.http.access import connect
from eventsched.cluster.kube.http.api import ApiClient
from eventsched.kubectl_plugin.service_proxy import (
    TOKEN_SECONDS,
    ApiService,
    ServiceProxy,
    find_service,
    named_service,
    own_token,
    token_of_account,
)

_LASTS = TOKEN_SECONDS * 0.8
"""Seconds for which a token of a service account is sent. Then a new one is made."""


class SchedulerOptions(Protocol):
    """The options that say which scheduler is asked, and as whom."""

    kubeconfig: Path | None
    context: str | None
    service: str | None
    service_account: str | None
    stream: str | None


class SchedulerAccess:
    """A scheduler's API as one user sees it. Commands that follow use it for longer than a token
    lasts."""

    def __init__(
        self,
        api: ApiClient,
        service: ApiService,
        namespace: str,
        options: SchedulerOptions,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``namespace`` is that of the service account, if the options name one."""
        self._api, self._service, self._namespace = api, service, namespace
        self._account, self._stream = options.service_account, options.stream
        self._clock = clock
        self._token, self._until = "", 0.0

    async def ask(
        self,
        question: str,
        params: Mapping[str, str | None],
        accept: str,
        body: bytes | None = None,
    ) -> bytes:
        """The answer to a path below /api/v1 about the stream of the options; parameters that are
        None are left out. Raises InputError and UnavailableError."""
        given = {"stream": self._stream, **params}
        sent = {name: value for name, value in given.items() if value is not None}
        proxy = ServiceProxy(self._api, self._service, await self._current_token())
        return await proxy.ask(question, sent, accept, body)

    async def _current_token(self) -> str:
        if self._account is None:
            return own_token(self._api)  # the client reads it again when it is due
        now = self._clock()
        if not self._token or now >= self._until:
            self._token = await token_of_account(self._api, self._namespace, self._account)
            self._until = now + _LASTS
        return self._token


@asynccontextmanager
async def scheduler_access(
    options: SchedulerOptions, namespace: str
) -> AsyncIterator[SchedulerAccess]:
    """Access to the scheduler that the options name, or that is found. Raises InputError and
    UnavailableError."""
    service = named_service(options.service, "--service") if options.service else None
    agent = f"kubectl-eventsched/{__version__}"
    api = await connect(options.kubeconfig, options.context, user_agent=agent, patience=0)
    try:
        service = service or await find_service(api, namespace)
        yield SchedulerAccess(api, service, namespace, options)
    finally:
        await api.close()
