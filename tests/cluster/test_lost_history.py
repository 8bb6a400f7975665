"""The database loses what it had committed, while a bind is on its way: whatever the log does not
know any more can no longer land, and nothing that it still promises counts."""

from collections.abc import Iterator

import pytest

from eventsched.domain.records import (
    BindVoided,
    HistoryLost,
    Outcome,
    PodBound,
    PodDecided,
    TermBegan,
)
from tests.cluster.harness.client import wait_for
from tests.cluster.harness.faults import Hold, Refuse
from tests.cluster.harness.manifests import node, pod, priority_class
from tests.cluster.harness.own_postgres import OwnPostgres
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.stage import Stage

LOST = "history was lost"


@pytest.fixture
def stage(plane: ControlPlane, postgres: OwnPostgres, namespace: str) -> Iterator[Stage]:
    """A scheduler that leads; one node, with room for one of the pods."""
    plane.admin.create(node("a", "1"))
    plane.admin.create(priority_class("important", 1000))
    plane.admin.create(priority_class("patient", 1000, preemptionPolicy="Never"))
    made = Stage(plane, postgres.url, namespace)
    with made.running:
        made.scheduler.start()
        made.placed("small")
        made.scheduler.wait_log(PodBound)
        yield made


def until(stage: Stage, kind: type[TermBegan | BindVoided | PodDecided], count: int) -> None:
    """Waits for a number of records of a kind."""
    what = f"{count} {kind.__name__}"
    wait_for(lambda: len(stage.scheduler.log().of(kind)) >= count, what, 60.0)


@pytest.mark.row(9)
@pytest.mark.parametrize("branches", [True, False], ids=["a restored backup", "a disk put back"])
def test_an_intent_is_lost_and_its_bind_arrives(
    stage: Stage, postgres: OwnPostgres, branches: bool
) -> None:
    """Its room is another pod's by then. The pod was touched, so the API server refuses the bind,
    and it takes its turn like any other."""
    postgres.keep()
    late = stage.kube.on("POST", "/pods/lost/binding$", Hold())
    stage.pods.create(pod("lost", "700m"))
    late.wait()
    until(stage, PodDecided, 2)
    postgres.stop("stopped at once")
    stage.pods.create(pod("other", "700m", priorityClassName="important"))
    postgres.put_back(branches=branches)
    assert stage.pods.node("other", 60.0) == "a"
    stage.scheduler.wait_log(HistoryLost)
    late.release()
    wait_for(lambda: set(stage.bindings("lost")) == {409}, "the old bind is refused")
    assert stage.pods.nodes() == {"small": "a", "lost": "", "other": "a"}
    stage.pods.delete("other")
    assert stage.pods.node("lost", 60.0) == "a"
    log = stage.settled()
    assert len(log.of(HistoryLost)) == 1
    assert [each.epoch for each in log.of(TermBegan)] == [1, 2]
    uid = stage.pods.get("lost")["metadata"]["uid"]
    outcomes = [each.outcome for each in log.decisions(uid)]
    assert (set(outcomes[:-1]), outcomes[-1]) == ({Outcome.UNSCHEDULABLE}, Outcome.SCHEDULED)


@pytest.mark.row(10)
def test_an_epoch_is_handed_out_twice(stage: Stage, postgres: OwnPostgres) -> None:
    """The first holder is paused meanwhile. The term's token identifies it; it stops, and detects
    that the log is not the one that it wrote."""
    postgres.keep()
    stage.scheduler.kill()
    stage.scheduler.start()
    until(stage, TermBegan, 2)
    stage.scheduler.server.pause()
    postgres.stop("stopped at once")
    postgres.put_back(branches=False)
    second = stage.another().start()
    stage.placed("new")
    second.kill()
    before = stage.bindings()
    stage.scheduler.server.go_on()
    [word] = wait_for(lambda: deposed(stage), "it is deposed", 60.0)
    assert word.endswith("we write in epoch 2, but another writer has begun epoch 2")
    until(stage, TermBegan, 3)
    assert stage.bindings() == before
    stage.placed("newer")
    log = stage.settled()
    assert [each.epoch for each in log.of(TermBegan)] == [1, 2, 3]
    assert len(log.of(HistoryLost)) == 1


def deposed(stage: Stage) -> list[str]:
    """Why the scheduler was deposed, each time."""
    return [each["reason"] for each in stage.scheduler.lines() if each["event"] == "deposed"]


@pytest.mark.row(11)
def test_the_end_of_an_intent_is_lost(stage: Stage, postgres: OwnPostgres) -> None:
    """The log has it open again, and another pod has its room. The bind is not repeated, though it
    would go through."""
    unheard = stage.kube.on("POST", "/pods/first/binding$", Refuse(503, 1))
    stage.pods.create(pod("first", "700m"))
    unheard.wait()
    stage.pods.create(pod("second", "700m", priorityClassName="patient"))
    until(stage, PodDecided, 3)
    postgres.keep()
    refused = stage.kube.on("POST", "/pods/first/binding$", Refuse(409))
    unheard.remove()
    assert stage.pods.node("second", 60.0) == "a"
    until(stage, BindVoided, 1)
    until_unschedulable(stage, "first")
    postgres.stop("stopped at once")
    refused.remove()
    postgres.put_back(branches=True)
    stage.scheduler.wait_log(HistoryLost, 60.0)
    uid = stage.pods.get("first")["metadata"]["uid"]
    log = stage.scheduler.log()
    assert [(each.uid, each.reason) for each in log.of(BindVoided)] == [(uid, LOST)]
    stage.pods.delete("second")
    assert stage.pods.node("first", 60.0) == "a"
    wait_for(lambda: stage.bindings("first") == [201], "the proxy has the answer, too")
    assert stage.observer.wrong == []


def until_unschedulable(stage: Stage, name: str) -> None:
    """Waits until a pod was last refused by all nodes."""
    uid = stage.pods.get(name)["metadata"]["uid"]

    def is_refused() -> bool:
        found = stage.scheduler.log().decisions(uid)
        return bool(found) and found[-1].outcome is Outcome.UNSCHEDULABLE

    wait_for(is_refused, f"{name} is refused")
