"""Demos of the queue: pods of higher priority go first, whatever their order of arrival."""

import time
from datetime import UTC, datetime
from functools import partial

import pytest

from eventsched.domain.records import Outcome, PodDecided, PodQueued
from tests.cluster.harness.client import wait_for
from tests.cluster.harness.demos import Demo
from tests.cluster.harness.manifests import node
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.scheduler import Schedulers

CAME = {"first": None, "one": "1", "second": "abc", "ten": "10", "five": "5", "third": None}
"""Importance by name, in the order in which they come. The names of those without a number are in
the same order: the API server lists by name, and a slow scheduler takes a list over in several
steps, so that pods of an earlier step have waited longer."""
EXPECTED = ["ten", "five", "one", "first", "second", "third"]


@pytest.fixture
def demo(plane: ControlPlane, schedulers: Schedulers, namespace: str) -> Demo:
    """The example, of which nothing is there yet."""
    return Demo(plane, schedulers, namespace, "ImportanceSort")


def come(demo: Demo) -> None:
    """Creates the pods. Those without a number are of different ages also to the API server, which
    counts seconds."""
    for name, importance in CAME.items():
        said = {} if importance is None else {"importance": importance}
        born = demo.pod(name, annotations=said)["metadata"]["creationTimestamp"]
        if name in ("first", "second"):
            wait_for(partial(is_over, born), "another second")


def is_over(second: str) -> bool:
    """Whether a second (such as 2026-01-01T00:00:00Z) has passed."""
    return f"{datetime.now(UTC):%FT%TZ}" > second


def bound_order(demo: Demo) -> list[str]:
    """The pods as it was decided to bind them, once that is all of them."""
    for name in CAME:
        demo.pods.node(name)
    log = demo.scheduler.log()
    chosen = [each.uid for each in log.of(PodDecided) if each.outcome is Outcome.SCHEDULED]
    return [log.names[uid].partition("/")[2] for uid in chosen]


def have_waited(demo: Demo) -> bool:
    """Whether all were refused, and none has to wait before it may be tried again."""
    log = demo.scheduler.log()
    until = {each.uid: each.until for each in log.of(PodQueued) if each.rejectors or each.failures}
    return len(until) == len(CAME) and time.time() * 1e6 > max(until.values())


def test_those_that_came_before_the_scheduler(demo: Demo) -> None:
    """It finds them all at once."""
    come(demo)
    demo.create("nodes")
    demo.start()
    assert bound_order(demo) == EXPECTED


def test_those_that_came_before_the_node(demo: Demo) -> None:
    """Each was tried when it came."""
    demo.start()
    come(demo)
    wait_for(lambda: have_waited(demo), "all wait for a node alone")
    demo.create("nodes")
    assert bound_order(demo) == EXPECTED


def test_where_there_is_room_for_some(demo: Demo) -> None:
    """The example: two of four are bound; more room lets the others come, too."""
    demo.create("nodes", "pods")
    demo.start()
    for name in ("first-come", "odd"):
        demo.pods.wait_event(name, "FailedScheduling")
    expected = {"first-come": "", "odd": "", "important": "only", "most-important": "only"}
    wait_for(lambda: demo.pods.nodes() == expected, "the important ones are bound")
    demo.pods.client.create(node("more", cpu="2"))
    assert {demo.pods.node(name) for name in ("first-come", "odd")} == {"more"}
