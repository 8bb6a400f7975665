"""A replica that takes up another configuration: the Lease and the state are kept, each pod is
bound once, and the log replays."""

import asyncio
from collections import Counter
from contextlib import closing
from dataclasses import replace
from random import Random

import msgspec
import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.cluster.messages import BindPod
from eventsched.domain.objects import Node, Pod
from eventsched.domain.records import StreamStarted, TermBegan
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.session import Session
from eventsched.history.replay import stream_replay
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.runtime.leader.followed_stream import FollowedStream
from eventsched.runtime.live import replica as replica_module
from eventsched.runtime.live.replica_plan import Reload
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import Status
from tests.builders import engine_of
from tests.faults.cluster import OPENING
from tests.live.stage import pods, until
from tests.postgres.replicas import STREAM, Scene, kinds, play


class Only:
    """Refuses all nodes except one."""

    name = "Only"
    wakes_on = ()

    def __init__(self, node: str) -> None:
        self._node = node

    def filter_node(self, pod: Pod, node: Node) -> Status | None:
        return None if node.name == self._node else Status.unschedulable("another one")


def engine_for(began: TermBegan | StreamStarted) -> Engine:
    """The engine of a configuration: that of a node's name, or of all nodes."""
    node = began.inputs.get("configuration", "")
    return engine_of(NodeResourcesFit(), Only(node)) if node else engine_of(NodeResourcesFit())


def reloaded(scene: Scene, node: str) -> Reload:
    """A plan by which pods are placed on one node."""
    opening = msgspec.structs.replace(OPENING, inputs={"configuration": node})
    plan = replace(scene.replica.plan, make_engine=lambda: engine_for(opening), opening=opening)
    return Reload(plan)


def replays(database: str) -> bool:
    """Whether every decision comes out as it is in the log."""
    reader = Reader(database, STREAM)
    started = next(iter(reader.read())).record
    assert isinstance(started, StreamStarted)
    done = stream_replay.verify(lambda: engine_for(started), reader, engine_of_term=engine_for)
    assert done.divergence is None, done.divergence
    return done.records == len(kinds(database))


def nodes_of(scene: Scene, prefix: str) -> Counter[str]:
    """How many pods of a prefix are on each node."""
    seen = scene.cluster.server.pods.items()
    return Counter(each.pod.node_name for uid, each in seen if uid.startswith(prefix))


def bound_once(scene: Scene) -> bool:
    """Whether no pod was bound to two nodes."""
    return all(count == 1 for count in Counter(uid for uid, _ in set(scene.cluster.binds)).values())


def test_a_leader_goes_on_under_another_configuration(database: str) -> None:
    """With its Lease and its state: no record is read again."""
    read: list[int] = []
    follow = FollowedStream.follow

    def counted(self: FollowedStream, *arguments: object) -> None:
        before = self.head.next
        follow(self, *arguments)  # type: ignore[arg-type]
        read.append(self.head.next - before)

    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        scene.cluster.put(*pods(20))
        await until(lambda: scene.bound == 20 and scene.settled)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(FollowedStream, "follow", counted)
            scene.replica.reload(reloaded(scene, "n2"))
            await until(lambda: scene.replica.terms == 2 and scene.settled)
        assert (scene.booth.released, sum(read)) == (0, 0)
        scene.cluster.put(*pods(5, "q"))
        await until(lambda: scene.bound == 25 and scene.settled)
        assert nodes_of(scene, "q") == {"n2": 5}

    scene = play(database, story)
    assert scene.ears.positions == list(range(len(kinds(database))))
    assert scene.booth.released == 1
    assert len(scene.cluster.binds) == 25
    began = [each.record for each in Reader(database, STREAM).read() if each.kind == "TermBegan"]
    assert [getattr(each, "inputs", None) for each in began] == [{}, {"configuration": "n2"}]
    assert replays(database)
    assert main(["verify", "--database", database]) == 0


def test_pods_that_waited_are_tried_again(database: str) -> None:
    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        scene.replica.reload(reloaded(scene, "nowhere"))
        scene.cluster.put(*pods(4))
        await until(lambda: scene.settled and kinds(database).count("PodDecided") == 4)
        assert scene.bound == 0
        scene.replica.reload(reloaded(scene, "n1"))
        await until(lambda: scene.bound == 4 and scene.settled)
        assert nodes_of(scene, "p") == {"n1": 4}

    play(database, story)
    assert replays(database)


@pytest.mark.row(32)
def test_a_bind_without_an_answer_is_repeated_and_not_given_up(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next term looks it up."""
    monkeypatch.setattr(replica_module, "RELOAD_GRACE_SECONDS", 0.05)

    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        await until(lambda: scene.settled)
        scene.cluster.held = True
        scene.cluster.put(*pods(3))
        await until(lambda: len(scene.cluster.binds) == 3)
        promised = dict(scene.cluster.binds)
        scene.replica.reload(reloaded(scene, "n2"))
        await until(lambda: scene.replica.terms == 2)
        scene.cluster.held = False
        await until(lambda: scene.bound == 3 and scene.settled)
        seen = scene.cluster.server.pods
        assert {uid: seen[uid].pod.node_name for uid in promised} == promised

    scene = play(database, story)
    assert bound_once(scene)
    assert kinds(database).count("PodBound") == 3
    assert replays(database)


def test_a_standby_takes_up_the_configuration_with_which_it_will_lead(database: str) -> None:
    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        await until(lambda: scene.booth.stood == 1)
        scene.replica.reload(reloaded(scene, "n2"))
        await until(lambda: scene.booth.stood == 2)
        assert scene.booth.released == 0
        scene.booth.wins.set()
        scene.cluster.put(*pods(3))
        await until(lambda: scene.bound == 3 and scene.settled)
        assert nodes_of(scene, "p") == {"n2": 3}

    scene = play(database, story, wins=False)
    assert scene.replica.terms == 1
    assert replays(database)


def test_a_deposed_leader_reads_the_log_and_takes_it_up_too(database: str) -> None:
    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        await until(lambda: scene.settled)
        with closing(Session(database)) as other:
            other.acquire(STREAM, "other")
        scene.cluster.put(*pods(3))
        scene.replica.reload(reloaded(scene, "n2"))
        await until(lambda: scene.bound == 3 and scene.settled)
        assert nodes_of(scene, "p") == {"n2": 3}

    play(database, story)
    assert replays(database)


def test_a_lost_lease_is_released_although_a_reload_was_asked_for(database: str) -> None:
    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        await until(lambda: scene.settled)
        scene.booth.wins.clear()
        scene.booth.loses.set()
        scene.replica.reload(reloaded(scene, "n2"))
        await until(lambda: scene.booth.released == 1)
        scene.booth.loses.clear()
        scene.booth.wins.set()
        scene.cluster.put(*pods(3))
        await until(lambda: scene.bound == 3 and scene.settled)
        assert nodes_of(scene, "p") == {"n2": 3}

    play(database, story)


@pytest.mark.row(32)
@pytest.mark.parametrize("seed", range(3))
def test_reloads_at_random_moments(database: str, seed: int) -> None:
    """While pods come, binds are under way and answers are lost."""
    rng = Random(seed)

    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        total = 0
        for turn in range(8):
            scene.cluster.silent = BindPod if rng.random() < 0.3 else ()
            scene.cluster.put(*pods(6, f"t{turn}-"))
            total += 6
            await asyncio.sleep(rng.random() * 0.05)
            scene.replica.reload(reloaded(scene, rng.choice(["", "n0", "n1", "n2"])))
            await asyncio.sleep(rng.random() * 0.05)
        scene.cluster.silent = ()
        scene.replica.reload(reloaded(scene, ""))
        await until(lambda: scene.bound == total and scene.settled)

    scene = play(database, story)
    assert bound_once(scene)
    assert scene.ears.positions == list(range(len(kinds(database))))
    assert kinds(database).count("PodBound") == 48
    assert scene.booth.released == 1
    assert replays(database)
    with psycopg.connect(database) as admin:
        taken = admin.execute("SELECT count(*) FROM eventsched_log.epoch").fetchone()
    assert taken == (scene.replica.terms,)
