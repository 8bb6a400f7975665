"""What the holders of a cluster's tokens see, for given answers of an API server."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request

from eventsched.api.application import OPENAPI, ROOT, application
from eventsched.api.desk.asked import Desk
from eventsched.api.gates import delegated_gate
from eventsched.api.gates.delegated_gate import MOST_NAMESPACES, DelegatedGate, ReviewingServer
from eventsched.api.gates.gate import RefusedError
from eventsched.questions.states import FoldedStates
from eventsched.web.authorization import CACHE_SECONDS, TOKEN_REVIEW, Reviews
from tests.api.asking import Client, scope_of
from tests.api.test_gates import NoStreams
from tests.kube.scripted import ScriptedAnswer, serving

ALL = ""
USERS = {
    "root": {"username": "root", "groups": ["system:masters"]},
    "operator": {"username": "operator"},
    "anna": {"username": "anna", "groups": ["shop"]},
    "guest": {"username": "guest"},
}


class Cluster:
    """An API server with some users. ``lists`` are those who may list pods, with the namespace."""

    def __init__(self) -> None:
        self.lists = {("operator", ALL), ("anna", "shop"), ("anna", "cart")}
        self.known: list[str] = ["cart", "default", "shop"]
        self.is_down = False
        self.broken = "none"
        self.reviews: list[Any] = []
        self.now = 0.0

    async def ask(self, path: str, body: bytes) -> tuple[int, bytes]:
        if self.is_down:
            raise ConnectionRefusedError
        await asyncio.sleep(0)
        spec = json.loads(body)["spec"]
        self.reviews.append(spec)
        if path == TOKEN_REVIEW:
            user = USERS.get(spec["token"])
            status: dict[str, Any] = {"authenticated": user is not None, "user": user or {}}
        else:
            namespace = spec["resourceAttributes"]["namespace"]
            if namespace == self.broken:
                return 500, b"etcd is slow"
            status = {"allowed": (spec["user"], namespace) in self.lists}
        return 201, json.dumps({"status": status}).encode()

    async def namespaces(self) -> Sequence[str]:
        if self.is_down:
            raise ConnectionRefusedError
        return self.known

    def gate(self) -> DelegatedGate:
        return DelegatedGate(Reviews(self.ask, self.clock), self.namespaces, self.clock)

    def clock(self) -> float:
        return self.now


def request(token: str, path: str = "/api/v1/now", **path_params: str) -> Request:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return Request({**scope_of(path, "GET", headers), "path_params": path_params})


def seen(gate: DelegatedGate, token: str, path: str = "/api/v1/now", **given: str) -> Any:
    """The namespaces that are seen (None: all of them), or status and words of a refusal."""
    try:
        found = asyncio.run(gate.visibility(request(token, path, **given))).namespaces
    except RefusedError as refused:
        return int(refused.status), refused.detail
    return found if found is None else sorted(found)


def test_who_sees_what() -> None:
    gate = Cluster().gate()
    assert {token: seen(gate, token) for token in (*USERS, "stolen", "")} == {
        "root": None,
        "operator": None,
        "anna": ["cart", "shop"],
        "guest": (403, "guest may not list pods in any namespace"),
        "stolen": (401, "the API server does not know the bearer token"),
        "": (401, "a bearer token is needed"),
    }


def test_the_review_is_for_listing_pods() -> None:
    cluster = Cluster()
    cluster.known = ["shop"]
    seen(cluster.gate(), "anna")
    wanted = {"verb": "list", "group": "", "version": "v1", "resource": "pods"}
    user = {"user": "anna", "uid": "", "groups": ["shop"], "extra": {}}
    assert cluster.reviews == [
        {"token": "anna"},
        {**user, "resourceAttributes": {**wanted, "namespace": ALL}},
        {**user, "resourceAttributes": {**wanted, "namespace": "shop"}},
    ]


def test_what_the_api_server_said_holds_for_a_while() -> None:
    cluster = Cluster()
    gate = cluster.gate()
    assert seen(gate, "anna") == ["cart", "shop"]
    cluster.lists = {("operator", ALL)}
    asked = len(cluster.reviews)
    assert seen(gate, "anna") == ["cart", "shop"]
    assert len(cluster.reviews) == asked
    cluster.now = CACHE_SECONDS
    assert seen(gate, "anna") == (403, "anna may not list pods in any namespace")


def test_requests_at_the_same_time_share_the_reviews() -> None:
    cluster = Cluster()
    gate = cluster.gate()

    async def asked() -> list[Any]:
        await gate._reviews.user("anna")
        await gate._reviews.lists_pods((await gate._reviews.user("anna")), ALL)  # type: ignore[arg-type]
        return await asyncio.gather(*(gate.visibility(request("anna")) for _ in range(20)))

    assert {tuple(sorted(each.namespaces)) for each in asyncio.run(asked())} == {("cart", "shop")}
    assert len(cluster.reviews) == 2 + len(cluster.known)
    assert gate._under_way == {}


def test_without_an_answer_of_the_api_server_no_question_is_answered() -> None:
    """At each step; and a client is not remembered as refused."""
    cluster = Cluster()
    gate = cluster.gate()
    app = application(Desk(NoStreams(), FoldedStates()), gate)
    cluster.is_down = True
    for path in (f"{ROOT}/streams", OPENAPI, f"{ROOT}/events"):
        answered = Client(app, token="anna").ask(path)
        assert (answered.status, answered.headers["retry-after"]) == (503, "2")
        assert answered.json["detail"] == delegated_gate._NO_ANSWER
    cluster.is_down = False
    asyncio.run(gate._reviews.user("anna"))
    cluster.is_down = True
    assert seen(gate, "anna") == (503, delegated_gate._NO_ANSWER)
    cluster.is_down = False
    seen(gate, "guest")
    cluster.is_down = True
    assert seen(gate, "anna") == (503, delegated_gate._NO_ANSWER)
    cluster.is_down, cluster.broken = False, "shop"
    assert seen(gate, "anna") == (503, delegated_gate._NO_ANSWER)
    cluster.broken = "none"
    assert Client(app, token="anna").ask(f"{ROOT}/streams").status == 200
    assert gate._under_way == {}


def test_in_a_cluster_with_very_many_namespaces_a_request_names_its_own() -> None:
    cluster = Cluster()
    cluster.known = [f"n{number}" for number in range(MOST_NAMESPACES + 1)]
    gate = cluster.gate()
    assert seen(gate, "operator") is None
    assert seen(gate, "anna") == (403, "there are more than 1000 namespaces")
    assert seen(gate, "anna", "/api/v1/pods?namespace=shop") == ["shop"]
    assert seen(gate, "anna", "/api/v1/pods/cart/web/explain", namespace="cart") == ["cart"]
    refused = (403, "anna may not list pods in namespace default")
    assert seen(gate, "anna", "/api/v1/pods?namespace=default") == refused
    assert len(cluster.reviews) < 10


def kubeconfig_of(url: str, folder: Path) -> Path:
    """A kubeconfig of an API server."""
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": url}}],
        "users": [{"name": "a", "user": {"token": "t"}}],
    }))  # fmt: skip
    return kubeconfig


def unreachable(folder: Path) -> Path:
    """A kubeconfig of an API server that does not run."""
    return kubeconfig_of("http://127.0.0.1:1", folder)


def test_an_api_server_that_cannot_be_reached(tmp_path: Path) -> None:
    """It is connected to when it is needed, and each request tries again."""
    kubeconfig = unreachable(tmp_path)

    async def asked() -> None:
        async with delegated_gate.delegated_gate(kubeconfig, None) as gate:
            for _ in range(2):
                with pytest.raises(RefusedError) as refused:
                    await gate.visibility(request("anna"))
                assert refused.value.status == 503

    asyncio.run(asked())
    assert asyncio.run(ReviewingServer(kubeconfig, None).close()) is None


def test_an_api_server_that_is_busy_is_not_waited_for(tmp_path: Path) -> None:
    """The client of the API asks again, not this gate."""
    version = ScriptedAnswer(200, {"major": "1", "minor": "36", "gitVersion": "v1.36.0"})
    busy = ScriptedAnswer(429, {"message": "too many requests"}, retry_after="1")

    async def asked() -> None:
        async with serving([version, busy, busy]) as (server, _):
            reviewing = ReviewingServer(kubeconfig_of(server.url, tmp_path), None)
            try:
                assert (await reviewing.ask(TOKEN_REVIEW, b"{}"))[0] == 429
                with pytest.raises(OSError, match="too many requests"):
                    await reviewing.namespaces()
            finally:
                await reviewing.close()
            assert len(server.asked) == 3

    asyncio.run(asked())
