"""FirstScheduledNode: the first node of a pod is remembered, waited for or preferred; for how long,
and for which pods."""

from typing import Any

import pytest

from eventsched.domain import records
from eventsched.domain.behaviours import CURRENT
from eventsched.domain.objects import Owner, Pod
from eventsched.domain.records import MemoryChanged, Record
from eventsched.plugins.gallery.first_scheduled_node import (
    FirstScheduledNode,
    FirstScheduledNodeArgs,
)
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.scheduling.engine import Engine
from tests.builders import (
    SECOND,
    active,
    added,
    attempted,
    defined,
    engine_of,
    identity,
    make_node,
    make_pod,
    observed,
    parked,
    records_of,
    refused,
    scheduled,
    woken,
)

STICKY = "FirstScheduledNode"
BOUND = records.PodBound(uid="p1", node="n1", attempt=1)
OK = records.BindSucceeded(uid="p1", node="n1")
FIT = (identity("NodeResourcesFit"),)
AGAIN = make_pod(uid="p1 again")
ELSEWHERE = f"1 node(s) didn't satisfy plugin(s) [{STICKY}]"


def remembers(key: str, node: str, at: int = 0) -> MemoryChanged:
    """A pod was bound to a node at a time (µs)."""
    return MemoryChanged(plugin=STICKY, key=key, value={"node": node, "at": at})


def engine(**args: Any) -> Engine:
    """One with the plugin and NodeResourcesFit, in a stream from before memory had bounds."""
    plugin = FirstScheduledNode(FirstScheduledNodeArgs(**args))
    plugin.as_of(())
    return engine_of(NodeResourcesFit(), plugin)


def bounded(**args: Any) -> Engine:
    """The same in a new stream, with the nodes n1 and n2, of which n2 is larger."""
    plugin = FirstScheduledNode(FirstScheduledNodeArgs(**args))
    plugin.as_of(CURRENT)
    made = engine_of(NodeResourcesFit(), plugin)
    opening = records.StreamStarted(format=1, engine="0", seed="s", flags=CURRENT)
    observed(made, opening, *added(make_node(cpu=2000), make_node("n2", cpu=8000)))
    return made


def home(**args: Any) -> Engine:
    """default/p1 has been on n1, which has room for it, and is gone; n2 is larger."""
    made = engine(**args)
    observed(made, *added(make_node(cpu=2000), make_pod()))
    attempted(made)
    assert observed(made, OK) == [OK, BOUND, remembers("default/p1", "n1")]
    observed(made, records.PodDeleted(uid="p1"), *added(make_node("n2", cpu=8000)))
    return made


def bound(made: Engine, pod: Pod, at: int = 0) -> tuple[str, list[Record]]:
    """Places a pod, has its bind succeed and the pod go; its node, and what followed PodBound."""
    observed(made, *added(pod), at=at)
    node = next(r for r in attempted(made) if isinstance(r, records.PodDecided)).node
    after = observed(made, records.BindSucceeded(uid=pod.uid, node=node), at=at)
    observed(made, records.PodDeleted(uid=pod.uid), at=at)
    return node, after[2:]


# --- modes ---------------------------------------------------------------------------------------


def test_required_goes_to_the_first_node() -> None:
    """However much better another one is."""
    made = home()
    observed(made, *added(AGAIN))
    assert attempted(made) == [
        scheduled(uid="p1 again", score=62, counts=((65533, 1),), scores=FIT),
    ]


def test_required_waits_while_its_node_is_full() -> None:
    """And goes there when there is room."""
    made = home()
    observed(made, *added(make_pod("guest", cpu=2000, node_name="n1"), AGAIN))
    _, decided, queued = attempted(made)
    assert decided == refused(
        "p1 again",
        f"0/2 nodes are available: 1 Insufficient cpu, {ELSEWHERE}.",
        counts=((1, 1), (65533, 1)),
    )
    assert queued == parked("p1 again", STICKY, "NodeResourcesFit")
    observed(made, records.PodDeleted(uid="guest"), at=SECOND)
    assert attempted(made)[0].node == "n1"


def test_required_waits_while_its_node_is_gone() -> None:
    """Another one that comes does not help; it goes there when it is back."""
    made = home()
    observed(made, records.NodeDeleted(name="n1"), *added(AGAIN))
    assert attempted(made) == [
        refused(
            "p1 again", f"0/1 nodes are available: {ELSEWHERE}.", evaluated=0,
            counts=((65533, 1),),
        ),
        parked("p1 again", STICKY),
    ]  # fmt: skip
    other = added(make_node("n3"))
    assert observed(made, *other, at=SECOND) == other
    back = added(make_node(cpu=2000))
    move = active("p1 again", "NodeAdd", plugin=STICKY, rejectors=(STICKY,), until=SECOND,
                  failures=1)  # fmt: skip
    assert observed(made, *back, at=SECOND) == [*back, move]
    assert attempted(made)[0].node == "n1"


def test_preferred_scores_the_first_node() -> None:
    """100 there, 0 elsewhere, on top of the other scores."""
    made = home(mode="preferred")
    observed(made, *added(AGAIN))
    columns = (*FIT, identity(STICKY))
    assert attempted(made) == [
        defined(*columns, number=2),
        scheduled(
            uid="p1 again", score=162, scores=columns, scoring=2, feasible=2, evaluated=2,
            runner_up="n2", runner_up_score=81,
        ),
    ]  # fmt: skip


def test_preferred_takes_another_node_and_remembers_the_first() -> None:
    """Binding elsewhere adds no memory."""
    made = home(mode="preferred")
    observed(made, records.NodeDeleted(name="n1"))
    assert bound(made, AGAIN) == ("n2", [])
    assert made.state.memory == {STICKY: {"default/p1": {"node": "n1", "at": 0}}}


# --- how long ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["required", "preferred"])
def test_a_node_that_is_gone_is_forgotten_where_that_is_wanted(mode: str) -> None:
    """With the attempt that finds it gone; the next one is the first."""
    made = home(mode=mode, when_gone="forget")
    observed(made, records.NodeDeleted(name="n1"), *added(AGAIN))
    decided, forgotten = attempted(made)
    assert (decided.node, forgotten) == ("n2", MemoryChanged(plugin=STICKY, key="default/p1"))
    outcome = records.BindSucceeded(uid="p1 again", node="n2")
    *_, remembered = observed(made, outcome)
    assert remembered == remembers("default/p1", "n2")


def test_a_pod_that_waits_for_its_node_wakes_when_it_goes() -> None:
    """If it is forgotten then; not for another node, nor if the pod waits for it."""
    full = make_pod("guest", cpu=2000, node_name="n1")
    for when_gone, wakes in (("forget", True), ("wait", False)):
        made = home(when_gone=when_gone)
        observed(made, *added(full, AGAIN, make_node("n3")))
        attempted(made)
        other, gone = records.NodeDeleted(name="n3"), records.NodeDeleted(name="n1")
        assert observed(made, other, at=SECOND) == [other]
        said = observed(made, gone, at=SECOND)
        assert [r.plugin for r in said if isinstance(r, records.PodQueued)] == [STICKY] * wakes


def test_a_pod_that_waits_wakes_when_it_goes_by_another_name() -> None:
    """What it went by does not matter to it any more."""
    made = engine(key="annotation", key_annotation="k")
    observed(made, *added(make_node("n1"), make_node("n2")))
    kept = make_pod("p1", annotations={"k": "x"})
    observed(made, *added(kept))
    attempted(made)
    node = made.state.pods["p1"].booked_node
    observed(made, records.BindSucceeded(uid="p1", node=node))
    observed(made, records.PodDeleted(uid="p1"), records.NodeDeleted(name=node))
    observed(made, *added(make_pod("p2", annotations={"k": "x"})))
    attempted(made)
    assert made.state.pods["p2"].queue is records.Queue.UNSCHEDULABLE
    for annotations, wakes in (({"k": "x", "other": ""}, False), ({"k": "y"}, True)):
        update = records.PodUpdated(pod=make_pod("p2", annotations=annotations))
        said = observed(made, update, at=20 * SECOND)
        assert [r.plugin for r in said if isinstance(r, records.PodQueued)] == [STICKY] * wakes


def test_a_memory_ends_some_time_after_the_last_bind() -> None:
    """Each bind there renews it."""
    hour = 3600 * SECOND
    made = home(ttl="1h30m")
    for at, node, after in [
        (hour, "n1", [remembers("default/p1", "n1", hour)]),
        (2 * hour, "n1", [remembers("default/p1", "n1", 2 * hour)]),
        (4 * hour, "n2", [remembers("default/p1", "n2", 4 * hour)]),
    ]:
        assert bound(made, AGAIN, at) == (node, after)


def test_a_value_from_before_there_were_times_is_known() -> None:
    """It is the node's name alone, and old where anything is."""
    for ttl, node in (("0s", "n1"), ("1h", "n2")):
        made = engine(ttl=ttl)
        made.state.apply(MemoryChanged(plugin=STICKY, key="default/p1", value="n1"), 0)
        observed(made, *added(make_node(cpu=2000), make_node("n2", cpu=8000)))
        assert bound(made, make_pod(), 3600 * SECOND)[0] == node


DAY = 24 * 3600 * SECOND


def returns(made: Engine, at: int, name: str = "p1") -> bool:
    """Whether a pod of that name, which ran on n1, goes there again. It is deleted then."""
    node, _ = bound(made, make_pod(name, uid=f"{name} at {at}", cpu=0), at)
    return node == "n1"


def ran(made: Engine, name: str, until: int) -> None:
    """A pod that runs on n1 from now until a time (µs)."""
    observed(made, *added(make_pod(name, cpu=0, node_name="n1")), at=made.state.now)
    changed = MemoryChanged(
        plugin=STICKY, key=f"default/{name}", value={"node": "n1", "at": 0}, used_by=name
    )
    made.state.apply(changed, made.state.now)
    observed(made, records.PodDeleted(uid=name), at=until)


@pytest.mark.parametrize(
    ("args", "days", "expected"),
    [
        ({}, 29, True), ({}, 30, False),
        ({"ttl": "48h"}, 1, True), ({"ttl": "48h"}, 2, False),
        ({"ttl": "0s"}, 10_000, True),
    ],
)  # fmt: skip
def test_the_time_counts_from_the_end_of_the_pod(
    args: dict[str, Any], days: int, expected: bool
) -> None:
    """However long the pod ran."""
    made = bounded(**args)
    ran(made, "p1", until=400 * DAY)
    assert returns(made, (400 + days) * DAY) is expected


def test_a_bind_says_who_uses_the_node() -> None:
    made = bounded()
    _, after = bound(made, make_pod())
    value = {"node": "n2", "at": 0}
    assert after == [
        MemoryChanged(plugin=STICKY, key="default/p1", value=value, used_by="p1"),
    ]


def test_the_names_that_were_not_used_for_the_longest_time_are_forgotten() -> None:
    made = bounded(max_entries=2)
    for number, name in enumerate("abc"):
        ran(made, name, until=number)
    assert list(made.state.memory[STICKY]) == ["default/b", "default/c"]
    assert [returns(made, 5, name) for name in "cba"] == [True, True, False]


def test_any_number_of_names() -> None:
    made = bounded(max_entries=0, ttl="0s")
    for number in range(20):
        ran(made, f"p{number}", until=number)
    assert len(made.state.memory[STICKY]) == 20


def test_a_pod_waits_for_its_node_only_while_that_is_remembered() -> None:
    """The bind of another pod removes the expired entry and wakes the pod."""
    made = bounded(ttl="1h")
    ran(made, "p1", until=0)
    observed(made, records.NodeDeleted(name="n1"), *added(AGAIN))
    attempted(made)
    assert made.state.pods["p1 again"].queue is records.Queue.UNSCHEDULABLE

    _, after = bound(made, make_pod("other"), at=2 * 3600 * SECOND)

    assert after[1] == MemoryChanged(plugin=STICKY, key="default/p1")
    assert isinstance(after[2], records.PodQueued)
    assert (after[2].uid, after[2].cause) == ("p1 again", "MemoryForgotten")


# --- the same pod --------------------------------------------------------------------------------

HASHED = {"pod-template-hash": "6d4cf56db6"}


@pytest.mark.parametrize(
    ("key", "fields", "expected"),
    [
        ("name", {}, "shop/p1"),
        ("name", {"owner": Owner(kind="StatefulSet", name="db")}, "shop/p1"),
        ("owner", {}, "shop/p1"),
        ("owner", {"owner": Owner(kind="Job", name="night")}, "shop/Job/night"),
        ("owner", {"owner": Owner(kind="StatefulSet", name="db")}, "shop/StatefulSet/db/p1"),
        (
            "owner",
            {"owner": Owner(kind="ReplicaSet", name="web-6d4cf56db6"), "labels": HASHED},
            "shop/Deployment/web",
        ),
        (
            "owner",
            {"owner": Owner(kind="ReplicaSet", name="web-6d4cf56db6")},
            "shop/ReplicaSet/web-6d4cf56db6",
        ),
        ("owner", {"owner": Owner(kind="DaemonSet", name="agent")}, None),
        ("annotation", {}, None),
        ("annotation", {"annotations": {"example.com/desk": "7"}}, "shop/example.com/desk=7"),
    ],
)
def test_what_makes_two_pods_the_same(
    key: Any, fields: dict[str, Any], expected: str | None
) -> None:
    """Whatever it is, it is so within a namespace."""
    more = {"key_annotation": "example.com/desk"} if key == "annotation" else {}
    made = engine(key=key, **more)
    observed(made, *added(make_node()))
    _, after = bound(made, make_pod(namespace="shop", **fields))
    assert after == ([] if expected is None else [remembers(expected, "n1")])


def test_pods_of_a_deployment_share_a_node_over_a_rollout() -> None:
    """The next ReplicaSet's pod goes where the last one's was."""
    made = engine(key="owner")
    observed(made, *added(make_node(cpu=2000), make_node("n2", cpu=2000)))
    nodes = set()
    for number in range(4):
        name = f"{number}abc"
        owner = Owner(kind="ReplicaSet", name=f"web-{name}")
        pod = make_pod(f"web-{name}-xyz", owner=owner, labels={"pod-template-hash": name})
        nodes.add(bound(made, pod)[0])
    assert len(nodes) == 1


def test_a_pod_of_another_namespace_has_another_memory() -> None:
    """The memory is of namespace and name."""
    made = home()
    observed(made, *added(make_pod(uid="other", namespace="other")))
    decided = attempted(made)[0]
    assert (decided.node, decided.feasible) == ("n2", 2)


# --- forgetting ----------------------------------------------------------------------------------


def test_what_people_have_it_forget_wakes_who_waits_for_it() -> None:
    """And no other pod."""
    made = home()
    observed(made, records.NodeDeleted(name="n1"), *added(make_pod()))
    attempted(made)
    asked = records.MemoryForgotten(plugin=STICKY, key="default/p1", by="ada", request=1)
    gone = MemoryChanged(plugin=STICKY, key="default/p1")
    assert observed(made, asked, at=SECOND) == [asked, gone, woken("MemoryForgotten", STICKY)]
    assert attempted(made)[0].node == "n2"
    again = records.MemoryForgotten(plugin=STICKY, key="default/p1", by="bob", request=2)
    assert observed(made, again, at=SECOND) == [again]
    unknown = records.MemoryForgotten(plugin="Nobody", key="x", by="bob", request=3)
    assert observed(made, unknown, at=SECOND) == [unknown]


def test_memory_survives_the_fold() -> None:
    """A fresh engine that reads the log back knows the first node; forgetting is a record, too."""
    live, again = engine(), engine()
    logged = []
    for stimulus in added(make_node(), make_pod()):
        logged += live.observe(stimulus, 0)
    logged += live.schedule_next()
    logged += live.observe(OK, 1)
    assert any(isinstance(each, MemoryChanged) for each in records_of(logged))
    for each in logged:
        again.apply(each)
    kept = {STICKY: {"default/p1": {"node": "n1", "at": 1}}}
    assert again.state.memory == live.state.memory == kept
    assert again.state.digest() == live.state.digest()
    again.state.apply(MemoryChanged(plugin=STICKY, key="default/p1"), 1)
    assert again.state.memory == {STICKY: {}}
