"""A shadow's replica on a real database: what it compares, its log, and how it carries on."""

import asyncio
from random import Random

import msgspec
import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.domain.behaviours import Behaviour
from eventsched.domain.errors import InputError
from eventsched.domain.records import PlacementCompared, PodAdded, Queue
from eventsched.domain.records.stimuli import SHADOWS
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.explain.stored_evidence import StoredEvidence
from eventsched.history.replay.stream_replay import verify
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from tests.builders import engine_of
from tests.faults.cluster import OPENING
from tests.live.stage import pods, until
from tests.postgres.replicas import STREAM, Scene, kinds, play

SHADOW = msgspec.structs.replace(
    OPENING,
    inputs={SHADOWS: "default-scheduler"},
    flags=(*OPENING.flags, Behaviour.SHADOWS),
)
COUNT = 24


def scheduled(scene: Scene, draw: Random, share: float) -> None:
    """The other scheduler places this share of the pods that wait, and some are deleted."""
    for seen in list(scene.cluster.server.pods.values()):
        if seen.pod.node_name:
            continue
        if draw.random() < share:
            node = draw.choice(["n0", "n1", "n2"])
            scene.cluster.put(msgspec.structs.replace(seen.pod, node_name=node))


def decided(scene: Scene) -> bool:
    """Whether no pod is left to be decided, and all is committed."""
    state = scene.leader.engine.state
    waits = [each for each in state.pods.values() if each.queue is Queue.ACTIVE]
    return len(state.pods) == COUNT and not waits and scene.settled


def compared(address: str) -> list[PlacementCompared]:
    """All comparisons."""
    found = (each.record for each in Reader(address, STREAM).read())
    return [record for record in found if isinstance(record, PlacementCompared)]


def test_a_shadow_compares_every_pod_also_over_restarts(database: str) -> None:
    """In each life some pods are placed: while it watches, and while it does not run. Nothing is
    asked of the cluster. The log is whole, and decides again what it did, byte for byte."""
    draw = Random(1)
    cluster = None
    for life in range(4):

        async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
            nonlocal cluster
            if cluster is None:
                scene.cluster.put(*pods(COUNT))
            else:
                for seen in cluster.server.pods.values():
                    scene.cluster.put(seen.pod)
                scheduled(scene, draw, 0.2)  # while no shadow watches: its next list shows it
            await until(lambda: scene.leads and decided(scene))
            scheduled(scene, draw, 0.3)
            await until(lambda: decided(scene))
            cluster = scene.cluster
            assert scene.cluster.requests == []

        play(database, story, opening=SHADOW)
        assert life or "PodBound" not in kinds(database)
    names = kinds(database)
    assert names.count("TermBegan") == 4
    found = compared(database)
    assert cluster is not None
    on_nodes = {
        uid: seen.pod.node_name for uid, seen in cluster.server.pods.items() if seen.pod.node_name
    }
    assert {record.uid: record.node for record in found} == on_nodes
    assert len(found) == len(on_nodes) > COUNT / 2
    assert {record.outcome.value for record in found} >= {"same", "different"}
    assert main(["verify", "--database", database, "--stream", STREAM]) == 0
    result = verify(lambda: engine_of(NodeResourcesFit()), Reader(database, STREAM))
    assert (result.divergence, result.records) == (None, len(names))
    with psycopg.connect(database) as connection:
        rows = connection.execute(
            "SELECT pod_uid::text, node FROM eventsched.pods_now WHERE state = 'bound'"
        ).fetchall()
    assert len(rows) == len(on_nodes)


@pytest.mark.parametrize("begun_as", ["shadow", "scheduler"])
def test_a_log_is_not_continued_in_the_other_mode(database: str, begun_as: str) -> None:
    """No term begins, and the lease is not asked for."""

    async def first(scene: Scene, _: "asyncio.Task[None]") -> None:
        scene.cluster.put(*pods(COUNT))
        await until(lambda: scene.settled)

    refused = []

    async def second(scene: Scene, running: "asyncio.Task[None]") -> None:
        with pytest.raises(InputError) as refusal:
            await running
        refused.append(str(refusal.value))
        assert scene.booth.stood == 0

    openings = (SHADOW, OPENING) if begun_as == "shadow" else (OPENING, SHADOW)
    play(database, first, opening=openings[0])
    before = kinds(database)
    play(database, second, opening=openings[1])
    assert kinds(database) == before
    assert PodAdded.__name__ in before
    [message] = refused
    assert message.startswith(f"stream {STREAM}: is the log of a {begun_as}")


def test_what_explain_says(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The comparison is the last line of a pod's story."""

    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        scene.cluster.put(*pods(COUNT))
        await until(lambda: scene.leads and decided(scene))
        assert compared(database) == []
        assert StoredEvidence(Reader(database, STREAM)).is_shadow
        scheduled(scene, Random(2), 1)
        await until(lambda: len(scene.leader.engine.state.reservations) == 0 and scene.settled)

    play(database, story, opening=SHADOW)
    for record in compared(database)[:6]:
        capsys.readouterr()
        where = ["--database", database, "--stream", STREAM]
        assert main(["explain", record.uid, *where]) == 0
        text = capsys.readouterr().out
        assert f"was placed on {record.node}" in text
        if record.outcome.value == "different":
            assert f"attempt {record.attempt} had chosen {record.chosen} here" in text
            assert f"; this shadow had chosen {record.chosen}" in text.replace("\n", " ")
