"""The proxies do to the traffic what tests of the scheduler rely on."""

import gc
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from http.client import HTTPException
from typing import Any

import psycopg
import pytest

from tests.cluster.harness.client import ApiError, Client, wait_for
from tests.cluster.harness.faults import Delay, Fault, Hang, Hold, Lose, Refuse, Swallow
from tests.cluster.harness.kube_proxy import KubeProxy, twice
from tests.cluster.harness.manifests import node, pod
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.postgres_proxy import PostgresProxy
from tests.waiting import joined


@pytest.fixture
def proxy(plane: ControlPlane) -> Iterator[KubeProxy]:
    with KubeProxy(plane) as proxy:
        yield proxy


@pytest.fixture
def through(proxy: KubeProxy) -> Iterator[Client]:
    """A client through the proxy."""
    with closing(proxy.client()) as client:
        yield client


def test_requests_without_a_fault_pass(through: Client, proxy: KubeProxy, namespace: str) -> None:
    through.create(pod("web"), namespace)
    with closing(through.watch("Pod", namespace)) as events:
        first = next(events)

    assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "web")
    assert [(each.method, each.status) for each in proxy.passed[-2:]] == [
        ("POST", 201),
        ("GET", 200),
    ]


@pytest.mark.parametrize(
    ("fault", "answer", "bound"),
    [
        (Delay(0.2), 201, True),
        (Lose(), ConnectionError, False),
        (Swallow(), ConnectionError, True),
        (Hang(), TimeoutError, True),
        (Refuse(429, retry_after=7), (429, "TooManyRequests", "7"), False),
        (Refuse(503), (503, "ServiceUnavailable", None), False),
    ],
    ids=lambda each: str(each) if isinstance(each, Fault) else "",
)
def test_what_a_fault_does_to_a_binding(
    plane: ControlPlane,
    proxy: KubeProxy,
    through: Client,
    namespace: str,
    fault: Fault,
    answer: Any,
    bound: bool,
) -> None:
    made = through.create(pod("web"), namespace)
    rule = proxy.on("POST", "/binding$", fault, times=1)

    if isinstance(answer, type):
        with closing(proxy.client(timeout=2.0 if fault == Hang() else 60.0)) as sender:
            wait_for(partial(sender.path, "Pod"), "it knows where pods are")
            with pytest.raises(answer):
                sender.bind(made, "a")
    else:
        got = through.bind(made, "a")
        told = (got.status, got.reason, got.headers.get("retry-after"))
        assert told == answer if isinstance(answer, tuple) else got.status == answer

    rule.wait()
    now = plane.admin.get("Pod", "web", namespace)
    assert (now["spec"].get("nodeName") == "a") is bound
    assert through.bind(made, "a").status == (409 if bound else 201)


def test_a_held_binding_lands_when_its_sender_has_gone(
    plane: ControlPlane, proxy: KubeProxy, namespace: str
) -> None:
    made = plane.admin.create(pod("web"), namespace)
    rule = proxy.on("POST", "/binding$", Hold())

    with closing(proxy.client(timeout=3.0)) as hasty, pytest.raises(TimeoutError):
        hasty.bind(made, "a")
    rule.wait()
    before = plane.admin.get("Pod", "web", namespace)
    rule.release()

    wait_for(
        lambda: plane.admin.get("Pod", "web", namespace)["spec"].get("nodeName") == "a",
        "the pod is bound",
    )
    assert "nodeName" not in before["spec"]


def test_a_watch_is_stalled_edited_and_cut(
    plane: ControlPlane, proxy: KubeProxy, through: Client
) -> None:
    told: list[tuple[str, str]] = []
    ended = threading.Event()

    def follow() -> None:
        with suppress(OSError, ValueError, HTTPException):  # however it was cut
            for each in through.watch("Node", resourceVersion=since):
                told.append((each["type"], each["object"]["metadata"]["name"]))  # noqa: PERF401
        ended.set()

    since = plane.revision()
    follower = threading.Thread(target=follow)
    follower.start()
    plane.admin.create(node("a"))
    wait_for(lambda: len(told) == 1, "the first event")
    proxy.stall_watches()
    plane.admin.create(node("b"))
    wait_for(lambda: proxy.stalled == 1, "the second event is at the proxy")
    stalled = not ended.is_set() and list(told)
    proxy.edit_watches(twice, "/nodes")
    proxy.resume_watches()
    wait_for(lambda: len(told) == 3, "the second event, twice")
    cut = proxy.cut("/nodes.*watch")
    joined(follower)

    assert stalled == [("ADDED", "a")]
    assert told == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "b")]
    assert cut == 1
    assert ended.is_set()


def test_a_proxy_goes_down_and_comes_back(through: Client, proxy: KubeProxy) -> None:
    through.list("Node")
    proxy.go_down()
    with pytest.raises(ConnectionRefusedError):
        through.list("Node")
    proxy.come_back()

    assert through.list("Node") == []


def test_connections_are_cut_while_the_api_server_is_down(own_plane: ControlPlane) -> None:
    with KubeProxy(own_plane) as proxy, closing(proxy.client()) as through:
        through.list("Node")
        own_plane.apiserver.kill()
        with pytest.raises(OSError):
            through.list("Node")


def test_a_token_gets_through(proxy: KubeProxy) -> None:
    with closing(proxy.client("nobody")) as client, pytest.raises(ApiError) as refused:
        client.list("Secret", "kube-system")

    assert refused.value.status == 403


# Postgres


@pytest.fixture
def table(one_server: Any) -> Iterator[str]:
    """The URL of a database with a table of numbers."""

    def prepare(url: str) -> None:
        with psycopg.connect(url) as connection:
            connection.execute("create table numbers (number int)")

    with one_server.fresh(prepare) as url:
        yield url


def _numbers(url: str) -> list[int]:
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute("select number from numbers order by 1")]


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize(
    ("fault", "there"),
    [(Delay(0.2), True), (Lose(), False), (Swallow(), True)],
    ids=["delay", "lose", "swallow"],
)
def test_what_a_fault_does_to_a_statement(
    table: str, fault: Fault, there: bool, prepared: bool
) -> None:
    with PostgresProxy(table) as proxy:
        connection = psycopg.connect(proxy.url, autocommit=True)
        insert = "insert into numbers values (%s)"
        connection.execute(insert, [1], prepare=prepared)
        rule = proxy.on("insert into numbers", fault, times=1)
        connection.execute("select 1")
        if fault == Delay(0.2):
            connection.execute(insert, [2], prepare=prepared)
        else:
            with pytest.raises(psycopg.OperationalError):
                connection.execute(insert, [2], prepare=prepared)
        connection.close()
        rule.wait()

    assert _numbers(table) == ([1, 2] if there else [1])


def test_a_held_statement_lands_when_its_sender_has_gone(table: str) -> None:
    with PostgresProxy(table) as proxy:
        rule = proxy.on("insert", Hold())
        connection = psycopg.connect(proxy.url, autocommit=True)
        connection.pgconn.send_query(b"insert into numbers values (1)")
        rule.wait()
        connection.close()
        before = _numbers(table)
        rule.release()
        wait_for(lambda: _numbers(table) == [1], "the number is there")

    assert before == []


def test_a_connection_stalls_and_is_cut(table: str) -> None:
    with PostgresProxy(table) as proxy:
        connection = psycopg.connect(proxy.url, autocommit=True)
        proxy.stall()
        connection.pgconn.send_query(b"insert into numbers values (1)")
        connection.pgconn.flush()
        before = _numbers(table)
        proxy.resume()
        wait_for(lambda: _numbers(table) == [1], "the number is there")
        proxy.cut()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")
        proxy.go_down()
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(proxy.url)
        proxy.come_back()
        psycopg.connect(proxy.url).close()
        connection.close()

    assert before == []
    assert proxy.connections == 2


@pytest.mark.parametrize("seconds", [0.0, 0.003, 0.006, 0.012, 0.025])
def test_a_proxy_that_ends_leaves_no_connection_open(plane: ControlPlane, seconds: float) -> None:
    """Whatever happens to those who were about to ask. (A ResourceWarning is an error here.)"""

    def ask(ending: KubeProxy) -> None:
        with suppress(OSError, HTTPException), closing(ending.client(timeout=2.0)) as client:
            client.list("Node")

    with KubeProxy(plane) as ending:
        asking = [threading.Thread(target=ask, args=[ending]) for _ in range(12)]
        for each in asking:
            each.start()
        time.sleep(seconds)
    for each in asking:
        joined(each)
    gc.collect()


def test_a_client_that_is_reset_before_its_tls_leaves_no_connection_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        reset = socket.create_connection(listening.getsockname(), timeout=60)
    with pytest.raises(OSError, match="reset"):
        ssl.create_default_context().wrap_socket(reset, server_hostname="localhost")
    gc.collect()


def test_a_port_is_free_after_a_proxy(table: str) -> None:
    with PostgresProxy(table) as proxy:
        pass

    with socket.create_server(("127.0.0.1", proxy.port)):
        pass
