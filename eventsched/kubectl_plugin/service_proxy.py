"""Asks the HTTP API of a scheduler through the API server's service proxy.

The API server removes the header Authorization before its proxy passes a request on, so the token
goes along in a header of its own, X-Eventsched-Authorization. The pods of the Service could use it
as the user. So it is sent only to a Service of kube-system, where only those who run the cluster
may create one, or to one that the user names (ADR 37).
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec

from eventsched.cluster.kube.http.api import ApiClient, HttpAnswer, UnansweredError, path
from eventsched.cluster.kube.http.refusals import status_of, words
from eventsched.domain.errors import InputError, UnavailableError

LABEL = "app.kubernetes.io/name=eventsched"
PORT = "api"
"""The name of the Service's port with the API."""
SERVICE_VARIABLE = "EVENTSCHED_SERVICE"
TOKEN_SECONDS = 600
"""How long a token made for a service account lasts: the shortest that an API server makes."""
_TRUSTED = "kube-system"
_FORWARDED = "X-Eventsched-Authorization"
_API = "the scheduler's API"
_SECONDS = 90.0
"""Seconds for an answer: those that decide again may take 60."""
_PATIENCE = 10.0


class ApiService(NamedTuple):
    """A Service of the API."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def proxied(self) -> str:
        """Its name in requests to the proxy, and in rules of RBAC: port ``api``, over HTTPS."""
        return f"https:{self.name}:{PORT}"


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    namespace: str


class _Port(msgspec.Struct, frozen=True):
    name: str = ""


class _Spec(msgspec.Struct, frozen=True):
    ports: tuple[_Port, ...] = ()


class _ServiceObject(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _Spec = _Spec()


class _ServiceList(msgspec.Struct, frozen=True):
    items: tuple[_ServiceObject, ...]


class _TokenStatus(msgspec.Struct, frozen=True):
    token: str


class _TokenRequest(msgspec.Struct, frozen=True):
    status: _TokenStatus


class _Problem(msgspec.Struct, frozen=True):
    """What the API answers instead of an answer."""

    title: str
    detail: str = ""
    where: str = ""
    remedy: str = ""


def named_service(text: str, source: str) -> ApiService:
    """The Service ``NAMESPACE/NAME`` that ``source`` names. Raises InputError."""
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name or ":" in text:
        raise InputError(source, f"{text!r} is not a Service", "write NAMESPACE/NAME")
    return ApiService(namespace, name)


async def find_service(api: ApiClient, namespace: str) -> ApiService:
    """The only Service of kube-system with the label and a port named ``api``. If the user may not
    list those of all namespaces, it looks in kube-system and in ``namespace``. Raises InputError,
    also if there are others only, which get no token unless the user names them."""
    found = await _services(api, "/api/v1/services")
    if found is None:
        found = set()
        for each in {_TRUSTED, namespace}:
            found |= (
                await _services(api, path("api", "v1", "namespaces", each, "services")) or set()
            )
    trusted = [service for service in found if service.namespace == _TRUSTED]
    if len(trusted) == 1:
        return trusted[0]
    names = sorted(map(str, trusted or found))
    if not names:
        problem = f"has no Service that you may list: label {LABEL}, port {PORT}"
        raise InputError(_API, problem, "name it with --service NAMESPACE/NAME")
    if trusted:
        remedy = f"choose one: --service {names[0]}"
        raise InputError(_API, f"has several Services: {', '.join(names)}", remedy)
    problem = f"may be Service {' or '.join(names)}, which your token would be sent to"
    remedy = f"if you trust it, add --service {names[0]}, or set {SERVICE_VARIABLE}={names[0]}"
    raise InputError(_API, problem, remedy)


async def _services(api: ApiClient, listing: str) -> set[ApiService] | None:
    """The Services of the API; None if the user may not list them."""
    answer = await _call(api, "GET", listing, params={"labelSelector": LABEL})
    if answer.status == HTTPStatus.FORBIDDEN:
        return None
    if answer.status != HTTPStatus.OK:
        raise UnavailableError(_API, f"cannot be looked for: {words(answer)}", "name it: --service")
    listed = msgspec.json.decode(answer.body, type=_ServiceList).items
    return {
        ApiService(each.metadata.namespace, each.metadata.name)
        for each in listed
        if any(port.name == PORT for port in each.spec.ports)
    }


async def token_of_account(api: ApiClient, namespace: str, name: str) -> str:
    """A new token of a service account. Raises InputError."""
    account = path("api", "v1", "namespaces", namespace, "serviceaccounts", name, "token")
    wanted = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    }
    answer = await _call(api, "POST", account, body=msgspec.json.encode(wanted))
    if answer.status != HTTPStatus.CREATED:
        remedy = "check the name and -n, and that you may create serviceaccounts/token"
        raise InputError("--service-account", f"has no token: {words(answer)}", remedy)
    return msgspec.json.decode(answer.body, type=_TokenRequest).status.token


def own_token(api: ApiClient) -> str:
    """The bearer token of the kubeconfig's user. Raises InputError if it has none."""
    scheme, _, token = (api.access.authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        problem = "has no bearer token, and a client certificate does not pass the proxy"
        remedy = "add --service-account NAME: that account's token is used, for ten minutes"
        raise InputError("the kubeconfig's user", problem, remedy)
    return token


class ServiceProxy:
    """The API of a Service, for the owner of a token."""

    def __init__(self, api: ApiClient, service: ApiService, token: str) -> None:
        self._api, self._service, self._token = api, service, token

    async def ask(
        self, question: str, params: Mapping[str, str], accept: str, body: bytes | None = None
    ) -> bytes:
        """The answer to a path below /api/v1, in a media type; with a ``body`` it is posted. Raises
        InputError and UnavailableError."""
        namespace, name = self._service.namespace, self._service.proxied
        proxy = path("api", "v1", "namespaces", namespace, "services", name, "proxy")
        headers = {_FORWARDED: f"Bearer {self._token}", "Accept": accept}
        answer = await _call(
            self._api, "GET" if body is None else "POST", f"{proxy}/api/v1{question}",
            params=params, body=body, content_type="application/yaml", headers=headers,
        )  # fmt: skip
        if answer.status == HTTPStatus.OK:
            return answer.body
        raise self._refusal(answer)

    def _refusal(self, answer: HttpAnswer) -> InputError | UnavailableError:
        """The error for an answer of the API, or of the API server before it."""
        where = f"Service {self._service}"
        try:
            problem = msgspec.json.decode(answer.body, type=_Problem)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return self._refusal_of_proxy(answer, where)
        text = problem.detail or problem.title
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return UnavailableError(where, text, problem.remedy or "try again, or read its log")
        return InputError(problem.where or where, text, problem.remedy or "see docs/api.md")

    def _refusal_of_proxy(self, answer: HttpAnswer, where: str) -> InputError | UnavailableError:
        is_refused = answer.status in (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)
        if not is_refused or not status_of(answer).kind:
            remedy = "check that its pods are ready and serve the API"
            return UnavailableError(where, f"does not answer: {words(answer)}", remedy)
        remedy = "check --service"
        if answer.status == HTTPStatus.FORBIDDEN:
            remedy = (
                f'ask for the rule {{apiGroups: [""], resources: ["services/proxy"], '
                f'resourceNames: ["{self._service.proxied}"], verbs: ["get", "create"]}} '
                f"in namespace {self._service.namespace}"
            )
        return InputError(where, words(answer), remedy)


async def _call(api: ApiClient, method: str, place: str, **options: Any) -> HttpAnswer:
    try:
        return await api.call(method, place, timeout=_SECONDS, patience=_PATIENCE, **options)
    except UnansweredError as error:
        problem = f"does not answer: {error.reason}"
        remedy = "check that it can be reached"
        raise UnavailableError("the API server", problem, remedy) from error
