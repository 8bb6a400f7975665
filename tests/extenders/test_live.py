"""A leader on an event loop calls an extender over HTTP. Pods are bound to the nodes that it
chooses, and a replay of the log gives the same records without it."""

import asyncio
import json
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from eventsched.cluster.extenders.client import Extenders
from eventsched.cluster.messages import CallExtender, ClusterAnswer
from eventsched.domain import records
from eventsched.domain.records import Stimulus
from eventsched.runtime.leader.followed_stream import FollowedStream
from eventsched.runtime.leader.leader import Leader
from eventsched.runtime.live.driver import Driver
from eventsched.scheduling.config.configuration import load
from eventsched.scheduling.config.extenders import extenders_of
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.queueing.queue_index import Backoff
from tests.builders import make_node, make_pod
from tests.faults.cluster import LIMITS, OPENING, STREAM, _profiles, namespace
from tests.faults.database import stored_of
from tests.live.stage import LiveCluster, LiveDatabase, until

from .server import Handler, Sample, saying, serving, silent

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
START = 1_700_000_000_000_000


class Extended(LiveCluster):
    """A cluster whose requests to extenders go over HTTP."""

    def __init__(self) -> None:
        super().__init__()
        self.extenders: Extenders | None = None
        self.server.put_namespace(namespace("default"))

    def pod(self, uid: str) -> bytes | None:
        """A pod as JSON."""
        return json.dumps({"metadata": {"name": uid, "uid": uid}}).encode()

    def node(self, name: str) -> bytes | None:
        """A node with its labels, as JSON."""
        labels = self.server.nodes[name].node.labels
        return json.dumps({"metadata": {"name": name, "labels": labels}}).encode()

    async def carry_out(self, request: Any) -> ClusterAnswer:
        """Calls extenders over HTTP, and leaves other requests to the base class."""
        if isinstance(request, CallExtender):
            assert self.extenders is not None
            return await self.extenders.call(request)
        return await super().carry_out(request)


def engine_of(text: str) -> Engine:
    extenders = extenders_of(load(text, "test.yaml").extenders)
    return Engine(_profiles(), Backoff(1, 0), extenders=extenders)


def scheduled(
    handlers: Mapping[str, Handler], pods: int, **fields: Any
) -> tuple[Extended, list[Any]]:
    """A cluster of n0 to n2 after ``pods`` pods were bound, and its log."""

    async def schedule() -> tuple[Extended, list[Any]]:
        cluster, database = Extended(), LiveDatabase()
        async with serving(handlers) as url:
            section = {"urlPrefix": f"{url}/scheduler", "filterVerb": "filter", **fields}
            text = HEAD + f"extenders: [{json.dumps(section)}]\n"
            configured = load(text, "test.yaml").extenders
            cluster.extenders = Extenders(configured, cluster, "test.yaml")
            clock = iter(range(START, START + 10**12, 100_000))
            leader = Leader(FollowedStream(lambda: engine_of(text), STREAM), OPENING, LIMITS)
            driver = Driver(leader, cluster, database, lambda: next(clock))
            running = asyncio.create_task(driver.run())
            try:
                labels = {"n1": {"extender": "yes"}, "n2": {"extender": "yes"}}
                cluster.put(*(make_node(n, labels=labels.get(n, {})) for n in ("n0", "n1", "n2")))
                cluster.put(*(make_pod(f"p{i}", cpu=100, memory=0) for i in range(pods)))
                await until(lambda: len(cluster.server.placed) == pods)
                driver.end()
                await asyncio.wait_for(running, 20)
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                await cluster.extenders.close()
        logged = [entry.logged for batch in database.stored.batches for entry in stored_of(batch)]
        _replayed(engine_of(text), logged)
        return cluster, logged

    return asyncio.run(schedule())


def _replayed(engine: Engine, logged: list[Any]) -> None:
    """Checks that the stimuli alone give the same records; no extender is called."""
    while engine.position < len(logged):
        at = engine.position
        record = logged[at].record
        if isinstance(record, Stimulus):
            made = engine.observe(record, logged[at].at)
        else:
            made = engine.schedule_next()
        assert made
        assert [e.record for e in made] == [e.record for e in logged[at : at + len(made)]]


@pytest.mark.parametrize("caches", [False, True])
def test_pods_are_bound_to_the_nodes_that_the_extender_chooses(caches: bool) -> None:
    sample = Sample()
    scores: dict[str, Any] = {"prioritizeVerb": "priority", "weight": 100}
    cluster, logged = scheduled(sample.handlers, 6, nodeCacheCapable=caches, **scores)
    nodes = {placed.node for placed in cluster.server.placed.values()}
    assert nodes == ({"n1"} if caches else {"n2"})
    answers = [e.record for e in logged if isinstance(e.record, records.ExtenderAnswered)]
    assert len(answers) == len(sample.requests) == (6 if caches else 12)
    assert all(answer.duration > 0 and not answer.problem for answer in answers)


@pytest.mark.parametrize("handler", [silent, saying("<html>", kind="text/html")])
def test_an_ignorable_extender_delays_no_pod(handler: Handler) -> None:
    fields = {"ignorable": True, "httpTimeout": "50ms"}
    cluster, logged = scheduled({"/scheduler/filter": handler}, 3, **fields)
    answers = [e.record for e in logged if isinstance(e.record, records.ExtenderAnswered)]
    assert len(answers) == 3
    assert all(answer.problem for answer in answers)
    assert len(cluster.server.placed) == 3


def test_an_extender_that_failed_is_called_again() -> None:
    failures = Random(3)
    sample = Sample()

    async def unreliable(request: Any) -> Any:
        if failures.random() < 0.5:
            return await saying("", status=503)(request)
        return await sample.filter(request)

    _, logged = scheduled({"/scheduler/filter": unreliable}, 5)
    answers = [e.record for e in logged if isinstance(e.record, records.ExtenderAnswered)]
    assert any(answer.problem for answer in answers)
    failed = [
        e.record for e in logged
        if isinstance(e.record, records.PodDecided) and e.record.outcome == "error"
    ]  # fmt: skip
    assert len(failed) == sum(bool(answer.problem) for answer in answers)
    assert {decision.plugin for decision in failed} == {"Extender"}
