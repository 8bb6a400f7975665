"""The client of extenders, with one connection pool per extender. A failed call is a reply, too.

Upstream: pkg/scheduler/extender.go.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import aiohttp
import msgspec

from eventsched.cluster.extenders import extender_tls, wire_format
from eventsched.cluster.messages import BindPod, CallExtender, ExtenderReply
from eventsched.cluster.transports import Connector, connect_failure
from eventsched.domain.records.extender_records import BIND, FILTER, PREEMPT, PRIORITIZE
from eventsched.domain.units import nanoseconds
from eventsched.scheduling.config.extenders import in_order, problems
from eventsched.scheduling.config.sections import ExtenderSection

DEFAULT_TIMEOUT = 5.0
"""Seconds if httpTimeout is not set (upstream: DefaultExtenderTimeout)."""
MAX_ANSWER_BYTES = 64 * 2**20
"""The largest accepted answer, in bytes."""
_EXCERPT_BYTES = 60
"""Bytes of an answer that is not JSON that a message quotes."""
_ERROR_EXCERPT_BYTES = 200
"""Bytes of the text of an HTTP error that a message quotes."""
_VERB_FIELDS = {
    FILTER: "filterVerb", PRIORITIZE: "prioritizeVerb", PREEMPT: "preemptVerb", BIND: "bindVerb",
}  # fmt: skip


class Objects(Protocol):
    """The cluster's objects as JSON bytes."""

    def pod(self, uid: str) -> bytes | None:
        """The pod; None if it does not exist or is deleted."""

    def node(self, name: str) -> bytes | None:
        """The node; None if it does not exist or is deleted."""


class FailedError(Exception):
    """A call of an extender failed; the text is the reason. ``refused`` is true if the outcome is
    known, for example because the extender answered with an error."""

    def __init__(self, problem: str, *, refused: bool) -> None:
        super().__init__(problem)
        self.refused = refused


class Extenders:
    """All extenders of a configuration. Create and close it inside one running event loop."""

    def __init__(
        self, configured: Sequence[ExtenderSection], objects: Objects, source: str
    ) -> None:
        """``source`` is the configuration's name, for messages. Raises InputError for an extender
        that could never be called."""
        for problem in problems(configured):
            raise problem.within(source)
        self._objects = objects
        self._servers = [
            _Server(section, f"{source}: extenders[{configured.index(section)}]")
            for section in in_order(configured)
        ]

    async def close(self) -> None:
        """Closes all connections."""
        for server in self._servers:
            await server.session.close()

    async def call(self, request: CallExtender) -> ExtenderReply:
        """Calls an extender. Raises nothing: a failure is in the reply's ``problem``."""
        began = time.perf_counter()
        fields: wire_format.Fields
        try:
            fields = await self._call(self._servers[request.extender], request)
        except FailedError as failed:
            fields = {"problem": str(failed)}
        duration = round((time.perf_counter() - began) * 1e6)
        return ExtenderReply(request, duration=duration, **fields)

    async def bind(self, request: BindPod) -> None:
        """Has an extender bind a pod. Raises FailedError."""
        server = self._servers[request.extender]
        answer = await server.ask(BIND, wire_format.binding_body(request))
        if problem := server.read(BIND, answer, wire_format.bind_error):
            raise FailedError(problem, refused=True)

    def is_ignorable(self, extender: int) -> bool:
        """Whether scheduling continues without an extender that fails."""
        return self._servers[extender].configured.ignorable

    async def _call(self, server: "_Server", request: CallExtender) -> wire_format.Fields:
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
        fields: wire_format.Fields = server.read(
            request.verb, answer, lambda body: wire_format.reply(request, body, caches_nodes=caches)
        )
        return fields

    def _node(self, name: str) -> bytes:
        """The node's JSON; only the name if the node was deleted in the meantime."""
        return self._objects.node(name) or wire_format.bare([("name", name)])

    def _victim(self, uid: str) -> bytes:
        return self._objects.pod(uid) or wire_format.bare([("uid", uid)])


class _Server:
    """One extender's server."""

    def __init__(self, configured: ExtenderSection, where: str) -> None:
        self.configured = configured
        nanos = nanoseconds(configured.http_timeout)
        self.timeout = nanos / 1e9 if nanos > 0 else DEFAULT_TIMEOUT
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
        paths = {
            FILTER: self.configured.filter_verb,
            PRIORITIZE: self.configured.prioritize_verb,
            PREEMPT: self.configured.preempt_verb,
            BIND: self.configured.bind_verb,
        }
        return f"{self.configured.url_prefix.rstrip('/')}/{paths[verb]}"

    async def ask(self, verb: str, body: bytes) -> tuple[str, bytes]:
        """Sends a request; the content type and the body of the answer. Raises FailedError."""
        url = self._url(verb)
        try:
            async with self.session.post(
                url, data=body, server_hostname=self._server_name, allow_redirects=False
            ) as answer:
                if answer.status != 200:
                    problem = _http_problem(url, verb, answer.status) + await _error_excerpt(answer)
                    raise FailedError(problem, refused=True)
                content = await _content(answer)
                if len(content) > MAX_ANSWER_BYTES:
                    raise FailedError(f"POST {url}: the answer is too long", refused=True)
                return answer.content_type, content
        except TimeoutError:
            problem = f"POST {url}: no answer within {self.timeout:g} s"
            raise FailedError(problem, refused=False) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise FailedError(f"POST {url}: {_connection_problem(error)}", refused=False) from None

    def read(self, verb: str, answer: tuple[str, bytes], parse: Callable[[bytes], Any]) -> Any:
        """The result of ``parse`` for an answer's body. Raises FailedError if it cannot be
        parsed."""
        content_type, body = answer
        url = self._url(verb)
        try:
            return parse(body)
        except wire_format.WrongShapeError as wrong:
            raise FailedError(
                f"POST {url}: the answer has another shape: {wrong}", refused=True
            ) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            excerpt = body[:_EXCERPT_BYTES].decode(errors="replace").strip()
            problem = f"the answer is no JSON but {content_type}, and begins with {excerpt!r}"
            raise FailedError(f"POST {url}: {problem}", refused=True) from None


async def _content(answer: aiohttp.ClientResponse) -> bytes:
    """The body; of one above ``MAX_ANSWER_BYTES``, some more than that many bytes."""
    parts, size = [], 0
    async for part in answer.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > MAX_ANSWER_BYTES:
            break
    return b"".join(parts)


def _http_problem(url: str, verb: str, status: int) -> str:
    """Upstream's message (extender.go send), and what to do about it."""
    problem = f"failed {url.rpartition('/')[2]} with extender at URL {url}, code {status}"
    if status in (404, 405):
        problem += (
            f": the server does not offer this path; compare {_VERB_FIELDS[verb]} with its own"
        )
    return problem


async def _error_excerpt(answer: aiohttp.ClientResponse) -> str:
    """The server's text about a path that it does not have, such as the paths that it has. "" for
    HTML pages and for texts that only repeat the status code."""
    if answer.status not in (404, 405) or answer.content_type != "text/plain":
        return ""
    text = (await answer.content.read(_ERROR_EXCERPT_BYTES)).decode(errors="replace").strip()
    return f"; it says: {text!r}" if text and not text.startswith(str(answer.status)) else ""


def _connection_problem(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not accepted: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect: {connect_failure(error)}"
    return str(error) or type(error).__name__
