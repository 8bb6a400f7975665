"""Asks extenders: one pool of connections each, and whatever happens is an answer.

Upstream: pkg/scheduler/extender.go.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import aiohttp
import msgspec

from eventsched.cluster.extenders import extender_tls, wire_format
from eventsched.cluster.messages import BindPod, CallExtender, ExtenderReply
from eventsched.cluster.transports import Connector, connect_failure
from eventsched.domain.records.extender_questions import BIND, FILTER, PREEMPT, PRIORITIZE
from eventsched.domain.units import nanoseconds
from eventsched.scheduling.config.extenders import in_order, problems
from eventsched.scheduling.config.sections import ExtenderSection

TIMEOUT = 5.0
"""Seconds if httpTimeout is not set (upstream: DefaultExtenderTimeout)."""
LARGEST = 64 * 2**20
"""Bytes of an answer that are read."""
_SHOWN = 60
_SAID = 200
"""Bytes of an error's text that are passed on."""
_FIELDS = {
    FILTER: "filterVerb", PRIORITIZE: "prioritizeVerb", PREEMPT: "preemptVerb", BIND: "bindVerb",
}  # fmt: skip


class Objects(Protocol):
    """The cluster's objects as bytes of JSON."""

    def pod(self, uid: str) -> bytes | None:
        """A pod; None if it does not exist (any more)."""

    def node(self, name: str) -> bytes | None:
        """A node."""


class FailedError(Exception):
    """A call of an extender failed; the text is the reason. ``refused`` means that it answered, so
    its outcome is known."""

    def __init__(self, problem: str, *, refused: bool) -> None:
        super().__init__(problem)
        self.refused = refused


class Extenders:
    """All extenders of a configuration. To be made and closed inside one running event loop."""

    def __init__(
        self, configured: Sequence[ExtenderSection], objects: Objects, source: str
    ) -> None:
        """``source`` is the configuration's name, for messages. Raises InputError for an extender
        that can never be asked."""
        for problem in problems(configured):
            raise problem.within(source)
        self._objects = objects
        self._servers = [
            _Server(each, f"{source}: extenders[{configured.index(each)}]")
            for each in in_order(configured)
        ]

    async def close(self) -> None:
        """Ends all connections."""
        for each in self._servers:
            await each.session.close()

    async def call(self, request: CallExtender) -> ExtenderReply:
        """Asks a question. Nothing is raised: what goes wrong is the answer's problem."""
        began = time.perf_counter()
        found: Mapping[str, Any]
        try:
            found = await self._call(self._servers[request.extender], request)
        except FailedError as failed:
            found = {"problem": str(failed)}
        duration = round((time.perf_counter() - began) * 1e6)
        return ExtenderReply(request, duration=duration, **found)

    async def bind(self, request: BindPod) -> None:
        """Has an extender bind a pod. Raises FailedError."""
        server = self._servers[request.extender]
        answer = await server.ask(BIND, wire_format.binding_body(request))
        if problem := server.read(BIND, answer, wire_format.bind_error):
            raise FailedError(problem, refused=True)

    def is_ignorable(self, extender: int) -> bool:
        """Whether scheduling continues without an extender that fails."""
        return self._servers[extender].configured.ignorable

    async def _call(self, server: "_Server", request: CallExtender) -> Mapping[str, Any]:
        pod = self._objects.pod(request.uid)
        if pod is None:
            raise FailedError(f"pod {request.namespace}/{request.name} is gone", refused=True)
        caches = server.configured.node_cache_capable
        if request.verb == PREEMPT:
            body = wire_format.preemption_body(
                pod, request.candidates, None if caches else self._victim
            )
        else:
            nodes = None if caches else [self._node(name) for name in request.nodes]
            body = wire_format.nodes_body(pod, request.nodes, nodes)
        answer = await server.ask(request.verb, body)
        fields: Mapping[str, Any] = server.read(
            request.verb, answer, lambda body: wire_format.reply(request, body, caches_nodes=caches)
        )
        return fields

    def _node(self, name: str) -> bytes:
        """One that has gone meanwhile is named all the same."""
        return self._objects.node(name) or wire_format.bare([("name", name)])

    def _victim(self, uid: str) -> bytes:
        return self._objects.pod(uid) or wire_format.bare([("uid", uid)])


class _Server:
    """One extender."""

    def __init__(self, configured: ExtenderSection, where: str) -> None:
        self.configured = configured
        nanos = nanoseconds(configured.http_timeout)
        self.timeout = nanos / 1e9 if nanos > 0 else TIMEOUT
        settings = configured.tls_config
        self._server_name = settings.server_name or None if settings else None
        context = extender_tls.context(configured, where)
        self.session = aiohttp.ClientSession(
            connector=Connector(ssl=True if context is None else context),
            timeout=aiohttp.ClientTimeout(total=self.timeout),
            headers={"Content-Type": "application/json", "Accept": "application/json"},
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    def _url(self, verb: str) -> str:
        given = {
            FILTER: self.configured.filter_verb,
            PRIORITIZE: self.configured.prioritize_verb,
            PREEMPT: self.configured.preempt_verb,
            BIND: self.configured.bind_verb,
        }
        return f"{self.configured.url_prefix.rstrip('/')}/{given[verb]}"

    async def ask(self, verb: str, body: bytes) -> tuple[str, bytes]:
        """Content type and body of an answer. Raises FailedError."""
        url = self._url(verb)
        try:
            async with self.session.post(
                url, data=body, server_hostname=self._server_name, allow_redirects=False
            ) as answer:
                if answer.status != 200:
                    said = _failed(url, verb, answer.status) + await _reason(answer)
                    raise FailedError(said, refused=True)
                read = await _content(answer)
                if len(read) > LARGEST:
                    raise FailedError(f"POST {url}: the answer is too long", refused=True)
                return answer.content_type, read
        except TimeoutError:
            said = f"POST {url}: no answer within {self.timeout:g} s"
            raise FailedError(said, refused=False) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise FailedError(f"POST {url}: {_words(error)}", refused=False) from None

    def read(self, verb: str, answer: tuple[str, bytes], read: Any) -> Any:
        """What an answer says. Raises FailedError for one that says nothing."""
        kind, body = answer
        url = self._url(verb)
        try:
            return read(body)
        except wire_format.WrongShapeError as wrong:
            raise FailedError(
                f"POST {url}: the answer has another shape: {wrong}", refused=True
            ) from None
        except (msgspec.DecodeError, UnicodeDecodeError):
            begins = body[:_SHOWN].decode(errors="replace").strip()
            said = f"the answer is no JSON but {kind}, and begins with {begins!r}"
            raise FailedError(f"POST {url}: {said}", refused=True) from None


async def _content(answer: aiohttp.ClientResponse) -> bytes:
    parts, size = [], 0
    async for part in answer.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > LARGEST:
            break
    return b"".join(parts)


def _failed(url: str, verb: str, status: int) -> str:
    """Upstream's words (extender.go send), and what to do about it."""
    said = f"failed {url.rpartition('/')[2]} with extender at URL {url}, code {status}"
    if status in (404, 405):
        said += f": the server does not offer this path; compare {_FIELDS[verb]} with its own"
    return said


async def _reason(answer: aiohttp.ClientResponse) -> str:
    """What the server says of a path that it does not have, such as which there are; "" for pages
    and for what says no more than the code."""
    if answer.status not in (404, 405) or answer.content_type != "text/plain":
        return ""
    said = (await answer.content.read(_SAID)).decode(errors="replace").strip()
    return f"; it says: {said!r}" if said and not said.startswith(str(answer.status)) else ""


def _words(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not accepted: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect: {connect_failure(error)}"
    return str(error) or type(error).__name__
