"""A small synchronous client, for tests to arrange a cluster and to look at it. The product has its
own adapter: what that does is checked with this one, which shares nothing with it."""

import http.client
import json
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode, urlsplit

from tests.waiting import LIMIT

Object = dict[str, Any]
T = TypeVar("T")

STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"

_GROUPS = {
    "v1": "Pod Node Namespace Service ConfigMap Secret ServiceAccount ReplicationController"
    " PersistentVolume PersistentVolumeClaim Event ResourceQuota",
    "apps/v1": "Deployment ReplicaSet StatefulSet DaemonSet",
    "batch/v1": "Job",
    "policy/v1": "PodDisruptionBudget",
    "storage.k8s.io/v1": "StorageClass CSINode CSIDriver CSIStorageCapacity VolumeAttachment",
    "scheduling.k8s.io/v1": "PriorityClass",
    "coordination.k8s.io/v1": "Lease",
    "rbac.authorization.k8s.io/v1": "Role RoleBinding ClusterRole ClusterRoleBinding",
}
_VERSIONS = {kind: version for version, kinds in _GROUPS.items() for kind in kinds.split()}


class Answer(NamedTuple):
    """What the API server said, whatever the status."""

    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def reason(self) -> str:
        """Of a failure, such as ``Conflict``; empty for a success."""
        return str(self.body.get("reason", "")) if isinstance(self.body, dict) else ""

    @property
    def message(self) -> str:
        """Of a failure, in words."""
        return str(self.body.get("message", "")) if isinstance(self.body, dict) else str(self.body)


class ApiError(Exception):
    """The API server refused; ``answer`` says how."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"{answer.status} {answer.reason}: {answer.message}")
        self.answer = answer

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.answer.status


def _has_ended(idle: socket.socket) -> bool:
    """Whether the server has closed an idle connection, as it does after a while; nothing else
    would make it readable."""
    poll = select.poll()
    poll.register(idle, select.POLLIN)
    return bool(poll.poll(0))


class Client:
    """Speaks to one API server as one user; every thread has a connection of its own.

    A kind is its bare name if that is clear (``Pod``, ``Deployment``), else with its group and
    version before it: ``events.k8s.io/v1/Event``. Methods raise ApiError if the server refuses,
    OSError if it is unreachable."""

    def __init__(
        self, url: str, context: ssl.SSLContext, token: str | None = None, timeout: float = 60.0
    ) -> None:
        parts = urlsplit(url)
        self._address = (str(parts.hostname), int(parts.port or 443))
        self._context = context
        self._timeout = timeout
        self._headers = {"Accept": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._local = threading.local()
        self._connections: list[http.client.HTTPSConnection] = []
        self._resources: dict[str, dict[str, tuple[str, bool]]] = {}

    def close(self) -> None:
        """Closes the connections of all threads."""
        for each in self._connections:
            each.close()

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = "application/json",
        **params: object,
    ) -> Answer:
        """One request; every status is an answer. An idempotent one is sent again where the server
        closes an idle connection just then."""
        sent = None if body is None else json.dumps(body).encode()
        headers = {**self._headers, "Content-Type": content_type}
        where = f"{path}?{urlencode(params)}" if params else path
        for attempt in (1, 2):
            connection = self._connection()
            if connection.sock is not None and _has_ended(connection.sock):
                connection.close()
            fresh = connection.sock is None
            try:
                connection.request(method, where, sent, headers)
                response = connection.getresponse()
                return _answer(response, response.read())
            except (http.client.HTTPException, OSError):
                connection.close()
                if fresh or attempt == 2 or method != "GET":
                    raise
        raise AssertionError

    def create(self, manifest: Object, namespace: str | None = None) -> Object:
        """Creates an object, in ``namespace`` where its metadata names none."""
        metadata = manifest["metadata"]
        within = metadata.get("namespace") or namespace
        path = self.path(f"{manifest['apiVersion']}/{manifest['kind']}", None, within)
        return self._done(self.call("POST", path, manifest))

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object:
        """The object."""
        return self._done(self.call("GET", self.path(kind, name, namespace)))

    def find(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """The object, None if there is none."""
        answer = self.call("GET", self.path(kind, name, namespace))
        return None if answer.status == 404 else self._done(answer)

    def list(self, kind: str, namespace: str | None = None, **params: object) -> list[Object]:
        """All of a kind, in one namespace or in all."""
        items: list[Object] = self.listing(kind, namespace, **params)["items"]
        return items

    def listing(self, kind: str, namespace: str | None = None, **params: object) -> Object:
        """The whole list with its metadata."""
        path = self.path(kind, None, namespace)
        return self._done(self.call("GET", path, None, "application/json", **params))

    def patch(
        self,
        kind: str,
        name: str,
        body: object,
        namespace: str | None = None,
        *,
        subresource: str = "",
        content_type: str = STRATEGIC,
        **params: object,
    ) -> Object:
        """Patches an object or its subresource, such as ``status``."""
        path = self.path(kind, name, namespace, subresource)
        return self._done(self.call("PATCH", path, body, content_type, **params))

    def replace(self, manifest: Object, subresource: str = "") -> Object:
        """Writes a whole object (PUT)."""
        metadata = manifest["metadata"]
        kind = f"{manifest['apiVersion']}/{manifest['kind']}"
        path = self.path(kind, metadata["name"], metadata.get("namespace"), subresource)
        return self._done(self.call("PUT", path, manifest))

    def apply(self, manifest: Object, namespace: str | None = None) -> Object:
        """Server-side apply: creates it or brings it to what is given."""
        metadata = manifest["metadata"]
        kind = f"{manifest['apiVersion']}/{manifest['kind']}"
        path = self.path(kind, metadata["name"], metadata.get("namespace") or namespace)
        answer = self.call(
            "PATCH",
            path,
            manifest,
            "application/apply-patch+yaml",
            fieldManager="tests",
            force="true",
        )
        return self._done(answer)

    def delete(
        self,
        kind: str,
        name: str,
        namespace: str | None = None,
        *,
        grace: int | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> Object:
        """Deletes an object, under preconditions if they are given."""
        wanted = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {key: value for key, value in wanted.items() if value is not None}
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if preconditions:
            options["preconditions"] = preconditions
        return self._done(self.call("DELETE", self.path(kind, name, namespace), options))

    def delete_all(self, kind: str, namespace: str | None = None) -> None:
        """Deletes all of a kind at once; of a namespaced one in that namespace."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        self._done(self.call("DELETE", self.path(kind, None, namespace), options))

    def bind(self, pod: Object, node: str, **metadata: object) -> Answer:
        """Binds a pod as a scheduler does; ``metadata`` are more fields of the Binding's."""
        where = pod["metadata"]
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": where["name"], "namespace": where["namespace"], **metadata},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = self.path("Pod", where["name"], where["namespace"], "binding")
        return self.call("POST", path, body)

    def is_allowed(self, user: str, **asked: object) -> bool:
        """Whether a user may do something (``resourceAttributes`` or ``nonResourceAttributes``).
        The API server learns of new roles by a watch of its own: a little later."""
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "metadata": {},
            "spec": {"user": user, **asked},
        }
        return bool(self.create(review)["status"]["allowed"])

    def watch(
        self, kind: str, namespace: str | None = None, *, seconds: int = 30, **params: object
    ) -> Generator[Object, None, None]:
        """The events of a watch, until ``seconds`` are over. Close the iterator (``closing``) when
        you leave it early."""
        asked = {"watch": "true", "timeoutSeconds": seconds, **params}
        where = f"{self.path(kind, None, namespace)}?{urlencode(asked)}"
        timeout = seconds + 10.0
        with closing(
            http.client.HTTPSConnection(*self._address, context=self._context, timeout=timeout)
        ) as connection:
            connection.request("GET", where, headers=self._headers)
            response = connection.getresponse()
            with closing(response):
                if response.status != 200:
                    raise ApiError(_answer(response, response.read()))
                for line in response:
                    yield json.loads(line)

    def path(
        self,
        kind: str,
        name: str | None = None,
        namespace: str | None = None,
        subresource: str = "",
    ) -> str:
        """The URL's path of an object or, without a name, of a collection."""
        version, _, bare = kind.rpartition("/")
        version = version or _VERSIONS[bare]
        plural, namespaced = self._resource(version, bare)
        parts = ["/api" if "/" not in version else "/apis", version]
        if namespaced and namespace is not None:
            parts += ["namespaces", namespace]
        parts += [each for each in (plural, name, subresource) if each]
        return "/".join(parts)

    def _connection(self) -> http.client.HTTPSConnection:
        found: http.client.HTTPSConnection | None = getattr(self._local, "connection", None)
        if found is None:
            found = http.client.HTTPSConnection(
                *self._address, context=self._context, timeout=self._timeout
            )
            self._local.connection = found
            self._connections.append(found)
        return found

    def _resource(self, version: str, kind: str) -> tuple[str, bool]:
        # Kinds of one version may be served one after the other.
        if kind not in self._resources.get(version, {}):
            base = "/api" if "/" not in version else "/apis"
            answer = self.call("GET", f"{base}/{version}")
            self._resources[version] = {
                each["kind"]: (each["name"], each["namespaced"])
                for each in self._done(answer)["resources"]
                if "/" not in each["name"]
            }
            if kind not in self._resources[version]:
                raise ApiError(Answer(404, f"no kind {kind} in {version}", answer.headers))
        return self._resources[version][kind]

    def _done(self, answer: Answer) -> Object:
        if answer.status >= 300:
            raise ApiError(answer)
        done: Object = answer.body
        return done


def wait_for(
    condition: Callable[[], T | None], what: str, within: float = LIMIT, every: float = 0.1
) -> T:
    """What the condition gives once that is true. Raises TimeoutError, with what it gave or raised
    last; ApiError and OSError count as not yet."""
    deadline = time.monotonic() + within
    while True:
        last: object
        try:
            found = condition()
            if found:
                return found
            last = found
        except (ApiError, OSError, http.client.HTTPException) as problem:
            last = problem
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {within} s: {what}; at last: {last!r}")
        time.sleep(every)


def _answer(response: http.client.HTTPResponse, content: bytes) -> Answer:
    headers = {key.lower(): value for key, value in response.getheaders()}
    try:
        body = json.loads(content)
    except ValueError:
        body = content.decode(errors="replace")
    return Answer(response.status, body, headers)
