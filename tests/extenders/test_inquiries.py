"""Another scheduler calls eventsched over HTTP as its extender; the log has every reply."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest

from eventsched.cluster.messages import BindPod
from eventsched.domain import records
from eventsched.domain.records import Stimulus
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.stimuli import SERVES
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.process.extenders import extender_server_requests
from eventsched.process.extenders.extender_server_requests import Inquiries
from eventsched.runtime.leader.followed_stream import FollowedStream
from eventsched.runtime.leader.leader import Leader
from eventsched.runtime.live.driver import Driver
from eventsched.scheduling.engine import Engine
from eventsched.web import extender_paths
from eventsched.web.http.https_server import Options, answering
from tests.builders import PROFILE, engine_of, make_node, make_pod
from tests.faults.cluster import LIMITS, OPENING, STREAM
from tests.faults.database import stored_of
from tests.live.stage import LiveCluster, LiveDatabase, until

START = 1_700_000_000_000_000
PATHS = {"filter": "/filter", "prioritize": "/priority", "preempt": "", "bind": "/bind"}


def make() -> Engine:
    return engine_of(NodeResourcesFit())


class Served:
    """A process that serves extender requests, its cluster and its log."""

    def __init__(self, url: str, client: aiohttp.ClientSession, driver: Driver) -> None:
        self.url, self.client, self.driver = url, client, driver
        self.cluster, self.database = LiveCluster(), LiveDatabase()
        self.drivers: list[Driver] = []
        self.inquiries: Inquiries

    async def ask(self, path: str, body: Any) -> tuple[int, Any]:
        """Status, and JSON or text."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self.client.post(self.url + path, data=data) as answer:
            text = await answer.text()
            return answer.status, json.loads(text) if answer.status == 200 else text.strip()

    @property
    def logged(self) -> list[LogEntry]:
        """All committed records."""
        return [
            entry.logged for batch in self.database.stored.batches for entry in stored_of(batch)
        ]


@asynccontextmanager
async def served(
    patience: float = 20.0, *, leads: bool = True, leader_elsewhere: str = ""
) -> AsyncIterator[Served]:
    """n0 has room for one more pod of 1 cpu, n1 for none; p1 and p2 wait."""
    opening = msgspec.structs.replace(OPENING, inputs={SERVES: PROFILE})
    drivers: list[Driver] = []
    inquiries = Inquiries(
        lambda: drivers[0] if drivers else None, patience, lambda: leader_elsewhere
    )
    leader = Leader(FollowedStream(make, STREAM), opening, LIMITS, inquiries.records_committed)
    clock = iter(range(START, START + 10**12, 10_000))
    application = extender_paths.application(PATHS, inquiries.ask)
    options = Options(port=None, plain_health_port=0)
    async with (
        answering(options, application) as url,
        aiohttp.ClientSession() as client,
    ):
        cluster, database = LiveCluster(), LiveDatabase()
        driver = Driver(leader, cluster, database, lambda: next(clock))
        server = Served(url, client, driver)
        server.cluster, server.database = cluster, database
        server.drivers, server.inquiries = drivers, inquiries
        cluster.put(make_node("n0"), make_node("n1"))
        cluster.put(*(make_pod(f"on-{n}", cpu=3000 + 1000 * n, node_name=f"n{n}") for n in (0, 1)))
        cluster.put(make_pod("p1", cpu=1000), make_pod("p2", cpu=1000))
        if leads:
            drivers.append(driver)
        running = asyncio.create_task(driver.run())
        try:
            await until(lambda: driver.accepts_stimuli)
            yield server
            driver.end()
            await asyncio.wait_for(running, 20)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    replayed(server.logged)


def replayed(logged: Sequence[LogEntry]) -> None:
    """Checks that the stimuli alone give the same records."""
    engine = make()
    while engine.position < len(logged):
        at = engine.position
        record = logged[at].record
        assert isinstance(record, Stimulus)
        made = engine.observe(record, logged[at].at)
        assert made
        assert [e.record for e in made] == [e.record for e in logged[at : at + len(made)]]


def args(uid: str, *names: str) -> dict[str, Any]:
    pod = {"metadata": {"name": uid, "uid": uid}, "spec": {"containers": [{"name": "c"}]}}
    return {"Pod": pod, "Nodes": None, "NodeNames": list(names)}


def binding(uid: str, node: str) -> dict[str, str]:
    return {"PodName": uid, "PodNamespace": "default", "PodUID": uid, "Node": node}


def of(logged: Sequence[LogEntry], *kinds: type) -> list[str]:
    return [type(entry.record).__name__ for entry in logged if isinstance(entry.record, kinds)]


ASKED = (records.ExtenderInquired, records.ExtenderReplied)


def test_a_pod_is_filtered_scored_and_bound() -> None:
    async def story() -> list[LogEntry]:
        async with served() as server:
            filtered = await server.ask("/filter", args("p1", "n0", "n1", "n9"))
            assert filtered == (200, {
                "Nodes": None,
                "NodeNames": ["n0"],
                "FailedNodes": {
                    "n1": "Insufficient cpu",
                    "n9": "node(s) are not known to the extender (yet)",
                },
                "FailedAndUnresolvableNodes": {},
                "Error": "",
            })  # fmt: skip
            # The reply is committed before it is sent.
            assert of(server.logged, *ASKED) == ["ExtenderInquired", "ExtenderReplied"]
            status, scores = await server.ask("/priority", args("p1", "n0"))
            assert (status, [score["Host"] for score in scores]) == (200, ["n0"])
            assert await server.ask("/bind", binding("p1", "n0")) == (200, {"Error": ""})
            assert server.cluster.server.pods["p1"].pod.node_name == "n0"
            assert of(server.logged, records.PodBound) == ["PodBound"]
            full = await server.ask("/filter", args("p2", "n0", "n1"))
            assert full[1]["NodeNames"] == []
            # A repeated bind request is the same bind.
            assert await server.ask("/bind", binding("p1", "n0")) == (200, {"Error": ""})
            refusal = {"Error": "the pod is on n0 already"}
            assert await server.ask("/bind", binding("p1", "n1")) == (200, refusal)
        return server.logged

    logged = asyncio.run(story())
    assert len(of(logged, *ASKED)) == 12
    assert of(logged, records.PodQueued, records.PodDecided) == []


def test_concurrent_requests_get_their_own_answers() -> None:
    async def story() -> None:
        async with served() as server:
            bodies = [args(f"u{n}", "n0") | {"Pod": pod(f"u{n}", n)} for n in range(20)]
            answers = await asyncio.gather(*(server.ask("/filter", body) for body in bodies))
        names = [answer[1]["NodeNames"] for answer in answers]
        assert names == [["n0"] if n <= 10 else [] for n in range(20)]

    def pod(uid: str, tenths: int) -> dict[str, Any]:
        requests = {"cpu": f"{tenths * 100}m"}
        containers = [{"name": "c", "resources": {"requests": requests}}]
        return {"metadata": {"name": uid, "uid": uid}, "spec": {"containers": containers}}

    asyncio.run(story())


def test_a_bind_that_the_cluster_refuses_is_reported() -> None:
    """The pod is deleted while the bind is in flight."""

    async def story() -> None:
        async with served() as server:
            server.cluster.held = True
            bind = asyncio.create_task(server.ask("/bind", binding("p1", "n0")))
            await until(lambda: any(isinstance(e, BindPod) for e in server.cluster.requests))
            server.cluster.server.delete_pod("p1")
            server.cluster.held = False
            server.cluster.tell()
            assert await bind == (200, {"Error": "the pod is gone"})

    asyncio.run(story())


def test_a_replica_that_does_not_lead_answers_no_request() -> None:
    async def story() -> None:
        async with served(leads=False, leader_elsewhere="other") as server:
            status, text = await server.ask("/filter", args("p1", "n0"))
            assert status == 503
            assert text == (
                "this replica: does not lead; other does; ask the one that does, or later"
            )
            # The next question may reach another replica.
            async with server.client.post(server.url + "/filter", data=b"{}") as answer:
                assert (answer.status, answer.headers.get("Connection")) == (400, None)
            body = json.dumps(args("p1", "n0")).encode()
            async with server.client.post(server.url + "/filter", data=body) as answer:
                assert (answer.status, answer.headers.get("Connection")) == (503, "close")

    asyncio.run(story())


def test_a_question_waits_while_a_term_begins() -> None:
    """The caller treats every failure as final: the pod would back off."""

    async def story() -> None:
        async with served(leads=False) as server:
            asking = asyncio.create_task(server.ask("/filter", args("p1", "n0")))
            done, _ = await asyncio.wait((asking,), timeout=0.2)
            assert not done
            server.drivers.append(server.driver)
            status, answer = await asyncio.wait_for(asking, 20)
            assert (status, answer["NodeNames"]) == (200, ["n0"])

    asyncio.run(story())


def test_a_question_does_not_wait_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question waits no longer than ``patience`` or ``STARTING``, and not after ``close``."""

    async def story(*, closes: bool = False) -> tuple[int, str]:
        async with served(patience=0.1 if not closes else 20.0, leads=False) as server:
            asking = asyncio.create_task(server.ask("/filter", args("p1", "n0")))
            await asyncio.sleep(0)
            if closes:
                server.inquiries.close()
            status, text = await asyncio.wait_for(asking, 20)
            return status, text.partition(";")[0]

    late = (503, "this replica: does not lead yet")
    assert asyncio.run(story()) == late
    assert asyncio.run(story(closes=True)) == late
    monkeypatch.setattr(extender_server_requests, "START_SECONDS", 0.0)
    assert asyncio.run(story()) == late


def test_without_a_database_there_is_no_answer() -> None:
    async def story() -> None:
        async with served(patience=0.2) as server:
            server.database.unreachable = True
            status, text = await server.ask("/filter", args("p1", "n0"))
            assert status == 503
            assert text == "the answer: is not committed after 0.2 s; ask again"
            server.database.unreachable = False
            await until(lambda: of(server.logged, *ASKED))

    asyncio.run(story())


def test_paths_methods_and_bodies_that_are_refused() -> None:
    async def story() -> None:
        async with served() as server:
            offered = "offered are POST /filter (filter), /priority (prioritize), /bind (bind)"
            for path in ("/prioritize", "/preempt", "/", "/filter/"):
                expected = f"{path} is not offered; {offered}"
                assert await server.ask(path, b"{}") == (404, expected)
            status, text = await server.ask("/filter", b"<html>")
            assert status == 400
            assert "the request to filter is not JSON" in text
            status, text = await server.ask("/filter", b'{"Pod":' * 100_000)
            assert (status, "the request to filter is not JSON" in text) == (400, True)
            many = [f"x{number}" for number in range(10_001)]
            status, text = await server.ask("/filter", args("p1", *many))
            assert status == 400
            assert text.startswith("the request: is about 10001 nodes that are not known; ask")
            async with server.client.get(server.url + "/filter") as answer:
                assert (answer.status, await answer.text()) == (405, "/filter takes POST only\n")

    asyncio.run(story())
