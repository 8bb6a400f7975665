"""A leader on an event loop and an extender over HTTP: pods are bound where the extender says, and
the log alone gives the same again."""

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
from eventsched.runtime.leader.catch_up import FollowedStream
from eventsched.runtime.leader.leader import Leader
from eventsched.runtime.live.driver import Driver
from eventsched.scheduling.config.configuration import load
from eventsched.scheduling.config.extenders import extenders_of
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.queueing.queue import Backoff
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
        """A pod's bytes."""
        return json.dumps({"metadata": {"name": uid, "uid": uid}}).encode()

    def node(self, name: str) -> bytes | None:
        """A node's bytes, with its labels."""
        labels = self.server.nodes[name].node.labels
        return json.dumps({"metadata": {"name": name, "labels": labels}}).encode()

    async def carry_out(self, request: Any) -> ClusterAnswer:
        """See the port."""
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
    """A cluster of n0 to n2 after so many pods were bound, and the log of it."""

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
        logged = [each.logged for batch in database.stored.batches for each in stored_of(batch)]
        _replayed(engine_of(text), logged)
        return cluster, logged

    return asyncio.run(schedule())


def _replayed(engine: Engine, logged: list[Any]) -> None:
    """The stimuli alone give the same records, and no extender is called."""
    while engine.position < len(logged):
        at = engine.position
        record = logged[at].record
        if isinstance(record, Stimulus):
            made = engine.observe(record, logged[at].at)
        else:
            made = engine.schedule_next()
        assert made
        assert [each.record for each in made] == [e.record for e in logged[at : at + len(made)]]


@pytest.mark.parametrize("caches", [False, True])
def test_pods_go_where_the_extender_says(caches: bool) -> None:
    sample = Sample()
    scores: dict[str, Any] = {"prioritizeVerb": "priority", "weight": 100}
    cluster, logged = scheduled(sample.handlers, 6, nodeCacheCapable=caches, **scores)
    nodes = {placed.node for placed in cluster.server.placed.values()}
    assert nodes == ({"n1"} if caches else {"n2"})
    answers = [e.record for e in logged if isinstance(e.record, records.ExtenderAnswered)]
    assert len(answers) == len(sample.requests) == (6 if caches else 12)
    assert all(each.duration > 0 and not each.problem for each in answers)


@pytest.mark.parametrize("handler", [silent, saying("<html>", kind="text/html")])
def test_one_that_may_be_ignored_holds_nobody_up(handler: Handler) -> None:
    fields = {"ignorable": True, "httpTimeout": "50ms"}
    cluster, logged = scheduled({"/scheduler/filter": handler}, 3, **fields)
    answers = [e.record for e in logged if isinstance(e.record, records.ExtenderAnswered)]
    assert len(answers) == 3
    assert all(each.problem for each in answers)
    assert len(cluster.server.placed) == 3


def test_one_that_comes_back_is_asked_again() -> None:
    failures = Random(3)
    sample = Sample()

    async def moody(request: Any) -> Any:
        if failures.random() < 0.5:
            return await saying("", status=503)(request)
        return await sample.filter(request)

    _, logged = scheduled({"/scheduler/filter": moody}, 5)
    answers = [e.record for e in logged if isinstance(e.record, records.ExtenderAnswered)]
    assert any(each.problem for each in answers)
    failed = [
        e.record for e in logged
        if isinstance(e.record, records.PodDecided) and e.record.outcome == "error"
    ]  # fmt: skip
    assert len(failed) == sum(bool(each.problem) for each in answers)
    assert {each.plugin for each in failed} == {"Extender"}
