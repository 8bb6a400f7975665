"""Which Service ``kubectl eventsched`` asks, and what it says about refusals."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from eventsched.cluster.kube.http.api import HttpAnswer, UnansweredError
from eventsched.domain.errors import InputError, UnavailableError
from eventsched.kubectl_plugin.service_proxy import (
    ApiService,
    ServiceProxy,
    find_service,
    named_service,
    own_token,
)

OWN = ApiService("shop", "eventsched")
SYSTEM = ApiService("kube-system", "eventsched")
PROXY = "/api/v1/namespaces/shop/services/https:eventsched:api/proxy"


def status(code: int, message: str) -> HttpAnswer:
    return HttpAnswer(code, json.dumps({"kind": "Status", "message": message}).encode())


FORBIDDEN = status(403, "services is forbidden")


class ScriptedApi:
    """An API server that answers by path; ``asked`` has the headers of each request."""

    def __init__(self, answers: Mapping[str, HttpAnswer], authorization: str | None = None) -> None:
        self._answers = answers
        self.access = self
        self.authorization = authorization
        self.asked: dict[str, Mapping[str, str]] = {}

    async def call(self, method: str, path: str, **options: Any) -> HttpAnswer:
        self.asked[f"{method} {path}"] = options.get("headers", {})
        if path not in self._answers:
            raise UnansweredError("no connection", sent=False)
        return self._answers[path]


def services(*found: ApiService, port: str = "api") -> HttpAnswer:
    items = [
        {"metadata": {"name": each.name, "namespace": each.namespace},
         "spec": {"ports": [{"name": "https"}, {"name": port}]}}
        for each in found
    ]  # fmt: skip
    return HttpAnswer(200, json.dumps({"items": items}).encode())


def find(answers: Mapping[str, HttpAnswer]) -> ApiService:
    return asyncio.run(find_service(ScriptedApi(answers), "shop"))  # type: ignore[arg-type]


EVERYWHERE = "/api/v1/services"
IN_SYSTEM = "/api/v1/namespaces/kube-system/services"
IN_SHOP = "/api/v1/namespaces/shop/services"


@pytest.mark.parametrize(
    "answers",
    [
        {EVERYWHERE: services(SYSTEM)},
        {EVERYWHERE: services(OWN, SYSTEM)},
        {EVERYWHERE: FORBIDDEN, IN_SYSTEM: services(SYSTEM), IN_SHOP: FORBIDDEN},
        {EVERYWHERE: FORBIDDEN, IN_SYSTEM: services(SYSTEM), IN_SHOP: services(OWN)},
    ],
)
def test_the_service_of_kube_system_is_taken(answers: Mapping[str, HttpAnswer]) -> None:
    assert find(answers) == SYSTEM


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({EVERYWHERE: services(OWN)}, "may be Service shop/eventsched, which your token would be"),
        ({EVERYWHERE: FORBIDDEN, IN_SYSTEM: FORBIDDEN, IN_SHOP: services(OWN)},
         "add --service shop/eventsched, or set EVENTSCHED_SERVICE=shop/eventsched"),
        ({EVERYWHERE: services(SYSTEM, ApiService("kube-system", "other"))},
         "has several Services: kube-system/eventsched, kube-system/other; choose one"),
        ({EVERYWHERE: services(SYSTEM, port="metrics")}, "has no Service that you may list"),
        ({EVERYWHERE: FORBIDDEN, IN_SYSTEM: FORBIDDEN, IN_SHOP: FORBIDDEN}, "has no Service"),
    ],
)  # fmt: skip
def test_no_other_service_gets_a_token(answers: Mapping[str, HttpAnswer], message: str) -> None:
    with pytest.raises(InputError, match=message):
        find(answers)


@pytest.mark.parametrize("text", ["eventsched", "/a", "a/", "a/b/c", "a/https:b:api"])
def test_names_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match="write NAMESPACE/NAME"):
        named_service(text, "--service")


@pytest.mark.parametrize("authorization", [None, "Basic YTpi", "Bearer "])
def test_a_user_without_a_token(authorization: str | None) -> None:
    with pytest.raises(InputError, match="add --service-account NAME"):
        own_token(ScriptedApi({}, authorization))  # type: ignore[arg-type]


def ask(answer: HttpAnswer | None) -> bytes:
    path = f"{PROXY}/api/v1/queue"
    api = ScriptedApi({} if answer is None else {path: answer}, "Bearer secret")
    proxy = ServiceProxy(api, OWN, own_token(api))  # type: ignore[arg-type]
    found = asyncio.run(proxy.ask("/queue", {}, "text/plain"))
    headers = {"X-Eventsched-Authorization": "Bearer secret", "Accept": "text/plain"}
    assert api.asked == {f"GET {path}": headers}
    return found


def problem(code: int, **fields: str) -> HttpAnswer:
    return HttpAnswer(code, json.dumps({"title": "Bad", "status": code, **fields}).encode())


def test_an_answer() -> None:
    assert ask(HttpAnswer(200, b"no pod waits\n")) == b"no pod waits\n"


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (problem(400, where="at", detail="is no time", remedy="write one"), InputError,
         "at: is no time; write one"),
        (problem(401), InputError, "Service shop/eventsched: Bad; see docs/api.md"),
        (problem(503, detail="too many requests"), UnavailableError, "too many requests; try"),
        (status(403, "cannot get services/proxy"), InputError,
         'cannot get services/proxy; ask for the rule .*"https:eventsched:api".* namespace shop'),
        (status(404, 'services "eventsched" not found'), InputError, "not found; check --service"),
        (status(503, "no endpoints available"), UnavailableError, "no endpoints available; check"),
        (HttpAnswer(404, b"<html>"), UnavailableError, "does not answer: HTTP 404"),
        (HttpAnswer(502, b""), UnavailableError, "does not answer: HTTP 502"),
        (None, UnavailableError, "the API server: does not answer: no connection"),
    ],
)  # fmt: skip
def test_refusals(answer: HttpAnswer | None, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ask(answer)
