"""What plugins of one's own can do about their pods' waking: hints, Pending and memory."""

from collections.abc import Hashable
from typing import Any

import pytest

from eventsched.domain import records
from eventsched.domain.objects import Node, Pod
from eventsched.domain.records import Queue
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import Change, ClusterEvent, Cycle, PreFilterResult, Status
from tests.builders import (
    SECOND,
    added,
    attempted,
    engine_of,
    engine_with,
    make_node,
    make_pod,
    observed,
    woken,
)

ROOMY = make_node("n2")


def test_an_update_of_one_pod_does_not_hide_its_like() -> None:
    """Two pods wait alike; the first is updated so that the change does not concern it any more."""

    class Picky:
        """Takes pods labelled red on nodes labelled hot; reads the pod's labels."""

        name = "Picky"
        wakes_on = (ClusterEvent.NODE_ADD,)

        def sign(self, pod: Pod) -> Hashable:
            return pod.labels["colour"]

        def filter_node(self, pod: Pod, node: Node) -> Status | str | None:
            return None if (pod.labels["colour"], "hot") == ("red", node.uid) else "picky"

        def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
            return pod.labels["colour"] == "red"

    engine = engine_of(Picky())
    red: dict[str, Any] = {"labels": {"colour": "red"}}
    observed(engine, *added(make_node(), make_pod("p0", **red), make_pod("p1", **red)))
    attempted(engine), attempted(engine)
    blue = records.PodUpdated(pod=make_pod("p0", labels={"colour": "blue"}))
    assert observed(engine, blue) == [blue]
    hot = make_node("n2", uid="hot")
    assert observed(engine, *added(hot), at=2 * SECOND) == [*added(hot), woken("NodeAdd", "Picky")]


class Barrier:
    """Refuses every pod by Pending, and wakes them when a node comes."""

    name = "Barrier"
    wakes_on = (ClusterEvent.NODE_ADD,)

    def __init__(self, status: Status) -> None:
        self.status = status

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: Any) -> PreFilterResult | Status | None:
        return self.status


@pytest.mark.parametrize(
    ("status", "queue"),
    [(Status.unschedulable("full"), Queue.BACKOFF), (Status.pending("soon"), Queue.ACTIVE)],
)
def test_pending_wakes_without_backoff(status: Status, queue: Queue) -> None:
    """Other refusals do not."""
    engine = engine_of(Barrier(status))
    observed(engine, *added(make_node(), make_pod()))
    attempted(engine)
    pending = ("Barrier",) if status.code == "Pending" else ()
    move = woken("NodeAdd", "Barrier", queue, pending=pending)
    assert observed(engine, *added(ROOMY), at=1) == [*added(ROOMY), move]


def test_a_hint_that_raises_wakes() -> None:
    """A try too many harms nothing."""

    class Broken(Barrier):
        name = "Broken"

        def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
            raise RuntimeError("no idea")

    engine = engine_of(Broken(Status.unschedulable("full")))
    observed(engine, *added(make_node(), make_pod()))
    attempted(engine)
    move = woken("NodeAdd", "Broken")
    assert observed(engine, *added(ROOMY), at=SECOND) == [*added(ROOMY), move]


def test_memory_wakes_the_pods_its_plugin_refused_in_their_order() -> None:
    """By a MemoryChanged event, whatever the history of the groups that they wait in."""

    class Club:
        """Lets in who is on its list; a pod named doorman opens it to all."""

        name = "Club"
        wakes_on = (ClusterEvent.MEMORY_CHANGE, ClusterEvent.NODE_UPDATE_LABEL)

        def pre_filter(self, cycle: Cycle, pod: Pod, nodes: Any) -> PreFilterResult | Status | None:
            if pod.name == "doorman":
                cycle.remember("open", True)
            elif not cycle.memory.get("open"):
                return Status.unschedulable("closed")
            return None

        def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
            return change.event is ClusterEvent.MEMORY_CHANGE or pod.name == "p1"

    def refuse_all(engine: Engine) -> None:
        while not engine.idle:
            attempted(engine)

    engine = engine_of(Club())
    observed(engine, *added(make_node(), make_pod("p1"), make_pod("p2")))
    refuse_all(engine)
    observed(engine, records.NodeUpdated(node=make_node(labels={"a": "b"})), at=SECOND)
    refuse_all(engine)
    observed(engine, *added(make_pod("doorman")), at=9 * SECOND)
    *_, changed, one, two = attempted(engine)
    assert changed == records.MemoryChanged(plugin="Club", key="open", value=True)
    assert [one.uid, two.uid] == ["p2", "p1"]
    assert {one.cause, two.cause} == {"MemoryChange"}


@pytest.mark.parametrize("event", [ClusterEvent.MEMORY_CHANGE, ClusterEvent.MEMORY_FORGOTTEN])
def test_what_people_have_a_plugin_forget_is_a_change_of_its_memory(event: ClusterEvent) -> None:
    """Whichever of the two it listens to, and only to its own."""

    class Closed:
        """Refuses each pod on its list."""

        name = "Closed"
        wakes_on = (event,)

        def pre_filter(self, cycle: Cycle, pod: Pod, nodes: Any) -> PreFilterResult | Status | None:
            return Status.unschedulable("listed") if pod.name in cycle.memory else None

    engine = engine_of(Closed())
    for plugin in ("Closed", "Other"):
        engine.state.apply(records.MemoryChanged(plugin=plugin, key="p1", value=True), 0)
    observed(engine, *added(make_node(), make_pod()))
    attempted(engine)
    for plugin, moves in (("Other", []), ("Closed", [woken(event, "Closed")])):
        asked = records.MemoryForgotten(plugin=plugin, key="p1", by="ada", request=1)
        gone = records.MemoryChanged(plugin=plugin, key="p1")
        assert observed(engine, asked, at=SECOND) == [asked, gone, *moves]
    assert attempted(engine)[-1].node == "n1"


def test_a_pod_wakes_for_room_that_it_could_make() -> None:
    """A more important pod leaves: what is in the way now could be preempted."""
    engine = engine_with()
    top = make_pod("top", cpu=2000, priority=100, node_name="n1")
    low = make_pod("low", cpu=2000, node_name="n1")
    observed(engine, *added(make_node(), top, low, make_pod("mid", cpu=4000, priority=50)))
    attempted(engine)
    *_, queued = observed(engine, records.PodDeleted(uid="top"))
    assert (queued.uid, queued.plugin) == ("mid", "NodeResourcesFit")
    never = make_pod("mid", cpu=4000, priority=50, preemption_policy="Never")
    engine = engine_with()
    observed(engine, *added(make_node(), top, low, never))
    attempted(engine)
    deleted = records.PodDeleted(uid="top")
    assert observed(engine, deleted) == [deleted]
