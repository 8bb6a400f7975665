"""Requests to an extender that takes up another configuration: each is answered exactly once, and
no pod is bound twice."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random
from typing import Any

import msgspec
import pytest

from eventsched.cluster.extenders.served_requests import Answer
from eventsched.cluster.messages import BindPod
from eventsched.cluster.translate.kept_annotations import KeptAnnotations
from eventsched.domain.records.stimuli import SERVES
from eventsched.eventlog.postgres.reader import Reader
from eventsched.process.extenders.extender_server_requests import Inquiries
from eventsched.runtime.live import replica as replica_module
from eventsched.runtime.live.replica_plan import Reload
from tests.builders import PROFILE, make_pod
from tests.faults.cluster import OPENING
from tests.live.stage import until
from tests.postgres.replicas import STREAM, Scene, kinds, play
from tests.postgres.test_reload import bound_once, engine_for, replays

PATIENCE = 60.0
NODES = ["n0", "n1", "n2"]


class Extender:
    """What ``service.py`` connects: the requests, the replica, and its reloads."""

    def __init__(self, scene: Scene) -> None:
        self.replica = scene.replica
        self.inquiries = Inquiries(lambda: self.replica.accepting_driver, PATIENCE)
        self.replica.plan = self.plan("")

    def plan(self, node: str) -> Any:
        """A plan by which pods may only be placed on one node, or on all."""
        inputs = {SERVES: PROFILE, **({"configuration": node} if node else {})}
        opening = msgspec.structs.replace(OPENING, inputs=inputs)
        return replace(self.replica.plan, make_engine=lambda: engine_for(opening), opening=opening)

    def reload(self, node: str) -> None:
        """Goes on with such a plan."""
        taken_up = KeptAnnotations(())
        self.replica.reload(Reload(self.plan(node), lambda: self.inquiries.reloaded(taken_up)))

    def filter(self, uid: str) -> "asyncio.Task[Answer]":
        """A request that is under way."""
        pod = {"metadata": {"name": uid, "uid": uid}, "spec": {"containers": [{"name": "c"}]}}
        return self._ask("filter", {"Pod": pod, "NodeNames": NODES})

    def bind(self, uid: str, node: str) -> "asyncio.Task[Answer]":
        """A request that is under way."""
        return self._ask("bind", {"PodName": uid, "PodNamespace": "d", "PodUID": uid, "Node": node})

    def _ask(self, verb: str, body: object) -> "asyncio.Task[Answer]":
        return asyncio.create_task(self.inquiries.ask(verb, json.dumps(body).encode()))


async def answered(*requests: "asyncio.Task[Answer]") -> list[Any]:
    """The answers, all with code 200."""
    async with asyncio.timeout(PATIENCE):
        answers = await asyncio.gather(*requests)
    assert {status for status, _ in answers} <= {200}
    return [json.loads(body) for _, body in answers]


def played(database: str, story: Callable[[Scene, Extender], Awaitable[None]]) -> Scene:
    """Plays a story with an extender that leads, and checks its log."""

    async def served(scene: Scene, _: "asyncio.Task[None]") -> None:
        extender = Extender(scene)
        with pytest.MonkeyPatch.context() as patch:
            heard = scene.ears.records_committed

            def hear(logged: Any, now: int) -> None:
                extender.inquiries.records_committed(logged)
                heard(logged, now)

            patch.setattr(scene.ears, "records_committed", hear)
            await until(lambda: scene.settled)
            await story(scene, extender)

    scene = play(database, served)
    assert bound_once(scene)
    assert replays(database)
    return scene


async def known(scene: Scene, uid: str) -> None:
    """Waits until a pod is known to a leader."""
    await until(lambda: scene.leads and uid in scene.leader.engine.state.pods)


def verbs(database: str) -> Counter[str]:
    """How many requests are in the log, by verb."""
    entries = Reader(database, STREAM).read()
    return Counter(e.record.verb for e in entries if e.kind == "ExtenderInquired")


def test_a_request_that_comes_while_a_term_ends_is_answered_by_the_next(database: str) -> None:
    async def story(scene: Scene, extender: Extender) -> None:
        [before] = await answered(extender.filter("p"))
        extender.reload("n2")
        [after] = await answered(extender.filter("p"))
        assert (before["NodeNames"], after["NodeNames"]) == (NODES, ["n2"])
        assert scene.replica.terms == 2

    played(database, story)
    assert verbs(database) == {"filter": 2}


def test_a_bind_without_an_outcome_is_passed_on_and_not_done_twice(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_module, "RELOAD_GRACE_SECONDS", 0.05)

    async def story(scene: Scene, extender: Extender) -> None:
        scene.cluster.put(make_pod("p1", cpu=10))
        await known(scene, "p1")
        scene.cluster.held = True
        bind = extender.bind("p1", "n0")
        await until(lambda: scene.cluster.binds)
        extender.reload("n2")
        await until(lambda: scene.replica.terms == 2)
        # The next term has the request, too.
        await until(lambda: verbs(database)["bind"] == 2)
        assert not bind.done()
        scene.cluster.held = False
        scene.cluster.tell()
        assert await answered(bind) == [{"Error": ""}]
        assert scene.cluster.server.pods["p1"].pod.node_name == "n0"

    played(database, story)
    found = Counter(kinds(database))
    assert (found["BindIntended"], found["PodBound"]) == (1, 1)


def test_a_change_without_a_new_term_leaves_open_requests_alone(database: str) -> None:
    async def story(scene: Scene, extender: Extender) -> None:
        scene.cluster.put(make_pod("p1", cpu=10))
        await known(scene, "p1")
        scene.cluster.held = True
        bind = extender.bind("p1", "n0")
        await until(lambda: scene.cluster.binds)
        extender.inquiries.reloaded(KeptAnnotations(()))
        scene.cluster.held = False
        scene.cluster.tell()
        assert await answered(bind) == [{"Error": ""}]

    played(database, story)
    assert verbs(database) == {"bind": 1}


@pytest.mark.row(32)
@pytest.mark.parametrize("seed", range(3))
def test_every_request_is_answered_once_over_reloads_at_random_moments(
    database: str, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Some binds have no answer of the cluster when a term ends. All batches are committed by then,
    also on a busy machine."""
    monkeypatch.setattr(replica_module, "RELOAD_GRACE_SECONDS", 0.5)
    rng = Random(seed)

    async def story(scene: Scene, extender: Extender) -> None:
        filters, binds = [], []
        for turn in range(6):
            uids = [f"t{turn}-{number}" for number in range(6)]
            scene.cluster.put(*(make_pod(uid, cpu=10) for uid in uids))
            await known(scene, uids[-1])
            scene.cluster.silent = BindPod if rng.random() < 0.3 else ()
            for uid in uids:
                filters.append(extender.filter(uid))
                binds.append(extender.bind(uid, rng.choice(NODES)))
            await asyncio.sleep(rng.random() * 0.05)
            extender.reload(rng.choice(["", *NODES]))
            await asyncio.sleep(rng.random() * 0.05)
        scene.cluster.silent = ()
        assert len(await answered(*filters)) == 36
        assert await answered(*binds) == [{"Error": ""}] * 36
        assert scene.bound == 36

    played(database, story)
    found = Counter(kinds(database))
    assert (found["BindIntended"], found["PodBound"]) == (36, 36)
    assert verbs(database)["bind"] >= 36
