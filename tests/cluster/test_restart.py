"""Both replicas are killed at once under load: how much the next start has to apply is bounded,
however heavy the records were, and every pod comes to a node once."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psycopg
import pytest

from eventsched.runtime.snapshot_policy import APPLY_SECONDS, apply_seconds
from tests.cluster.harness.client import Client, Object, wait_for
from tests.cluster.harness.manifests import node, pod
from tests.cluster.harness.observer import Observer
from tests.cluster.harness.plane import ADMIN, ControlPlane
from tests.cluster.harness.scheduler import Scheduler, Schedulers
from tests.waiting import joined

NODES = 20
IMAGES = 2_100
"""Of a node: about 160 kB."""
HEAVY = 1.5 * APPLY_SECONDS
"""Seconds, as estimated, that applying the log's records takes at least. A start without a snapshot
would apply all of them: they are far fewer than the 50,000 after which one is due in any case."""
MARGIN = 1.25
"""Records are committed while a snapshot is on its way to the database."""
PAUSE = 0.05
"""Seconds between two pods."""
_SIZE = """
SELECT coalesce(sum(count), 0), coalesce(sum(octet_length(body::text)), 0) FROM eventsched_log.batch
"""
"""A leader makes attempts before its first batch is committed."""


@pytest.fixture
def replicas(plane: ControlPlane, database: str, namespace: str) -> Iterator[list[Scheduler]]:
    """Two, not started yet, in one election."""
    lease = {"leaseDuration": "6s", "renewDeadline": "4s", "retryPeriod": "1s"}
    where = {"resourceName": "restart", "resourceNamespace": namespace}
    config = {"leaderElection": {"leaderElect": True, **where, **lease}}
    with Schedulers(plane, database) as schedulers:
        yield [schedulers.make(config=config) for _ in range(2)]


def test_a_start_after_both_were_killed_applies_a_bounded_part_of_the_log(
    plane: ControlPlane, database: str, namespace: str, replicas: list[Scheduler]
) -> None:
    """The kill comes when the log holds more work than a start may apply."""
    for number in range(NODES):
        plane.admin.create(node(f"n{number:02}", "64"))
    with ExitStack() as running:
        observer = running.enter_context(Observer(plane, namespace))
        for each in replicas:
            each.server.start()
        wait_for(lambda: _terms(replicas), "one leads", 60.0)
        with _created(plane, namespace):
            _report_images(plane.admin, database)
            for each in replicas:
                each.kill()
            terms = _terms(replicas)
            before = [len(_said(each, _CAUGHT_UP)) for each in replicas]
            for each in replicas:
                each.server.start()
            found = [_caught_up(*each) for each in zip(replicas, before, strict=True)]
            wait_for(lambda: _terms(replicas) > terms, "one leads again", 60.0)
        observer.wait_placed()
        observer.check(replicas[0].log())
    for caught_up in found:
        assert caught_up["estimated"] <= APPLY_SECONDS * MARGIN
        assert 0 < caught_up["snapshot"] <= caught_up["seq"]
        assert caught_up["records"] == caught_up["seq"] - caught_up["snapshot"]


def _report_images(client: Client, database: str) -> None:
    """Nodes report other images, again and again, until the log is heavy."""

    def is_heavy() -> bool:
        with psycopg.connect(database) as connection:
            [(records, size)] = connection.execute(_SIZE).fetchall()
        return apply_seconds(int(records), int(size)) > HEAVY

    for round_ in range(100):
        if is_heavy():
            return
        for number in range(NODES):
            images = [
                {"names": [f"registry.example.com/team/service-{n}:{round_}"], "sizeBytes": 1}
                for n in range(IMAGES)
            ]
            status = {"status": {"images": images}}
            client.patch("Node", f"n{number:02}", status, subresource="status")
    raise AssertionError("the log does not grow")


@contextmanager
def _created(plane: ControlPlane, namespace: str) -> Iterator[None]:
    """Pods are created all the time, as long as the block lasts."""
    over, client = threading.Event(), plane.client(ADMIN)

    def create() -> None:
        number = 0
        while not over.wait(PAUSE):
            client.create(pod(f"web-{number}", "10m"), namespace)
            number += 1

    thread = threading.Thread(target=create, name="pods", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        joined(thread)
        client.close()


def _terms(replicas: list[Scheduler]) -> int:
    """How many terms have begun to make attempts."""
    return sum(len(_said(each, "deciding")) for each in replicas)


def _said(scheduler: Scheduler, event: str) -> list[Object]:
    return [each for each in scheduler.lines() if each["event"] == event]


_CAUGHT_UP = "caught up with the log"


def _caught_up(scheduler: Scheduler, before: int) -> Object:
    """What a replica says about its second start; ``before`` are the lines of its first life, in
    which it may have lost its lease and caught up again."""

    def lines() -> list[Object]:
        return _said(scheduler, _CAUGHT_UP)[before:]

    return wait_for(lines, "it has caught up with the log", 60.0)[0]
