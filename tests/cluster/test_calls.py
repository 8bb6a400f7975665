"""What the adapter's requests come to at a real API server. Numbers of ``row`` are rows of the
failure matrix."""

import asyncio
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from eventsched.cluster.kube.calls.dispatch import RequestDispatcher
from eventsched.cluster.kube.http.access import connect
from eventsched.cluster.messages import (
    BindPod,
    Bound,
    EvictPod,
    GetPod,
    PatchStatus,
    PodAbsent,
    PodShown,
    Reported,
    TouchPod,
    WriteEvent,
)
from eventsched.domain.units import SECOND
from tests.cluster.harness.client import MERGE, Object
from tests.cluster.harness.manifests import node, pod
from tests.cluster.harness.plane import ControlPlane

DECISION = "scheduler/7@0a1b2c3d"
NOW = 1_790_000_000 * SECOND


class World:
    """A namespace with nodes ``a`` and ``b``."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.client = plane.admin
        self.namespace = namespace
        for name in ("a", "b"):
            self.client.create(node(name))

    def pod(self, **spec: Any) -> Object:
        """A new pod ``web``."""
        return self.client.create(pod("web", **spec), self.namespace)

    def now(self) -> Object:
        """The pod as it is."""
        return self.client.get("Pod", "web", self.namespace)

    def conditions(self) -> dict[str, Object]:
        """Its conditions by type."""
        return {each["type"]: each for each in self.now()["status"]["conditions"]}

    def carry_out(self, *requests: Any, user: str = "admin") -> list[Any]:
        """What requests come to, one after the other."""
        token = self.plane.token(user)
        kubeconfig = self.plane.write_kubeconfig(user, {"token": token})

        async def run() -> list[Any]:
            api = await connect(kubeconfig)
            try:
                calls = RequestDispatcher(api, host="h", now=lambda: NOW)
                return [await calls.carry_out(each) for each in requests]
            finally:
                await api.close()

        return asyncio.run(run())


@pytest.fixture
def world(plane: ControlPlane, namespace: str) -> World:
    """A fresh one."""
    return World(plane, namespace)


def of(made: Object) -> tuple[str, str, str]:
    """Uid, namespace and name."""
    metadata = made["metadata"]
    return metadata["uid"], metadata["namespace"], metadata["name"]


def version(made: Object) -> int:
    return int(made["metadata"]["resourceVersion"])


def bind(made: Object, node: str = "a") -> BindPod:
    return BindPod(*of(made), node, version(made), DECISION)


# Each arranges things and gives a bind of ``web`` to node a.


def _as_seen(world: World) -> BindPod:
    return bind(world.pod())


def _touched(world: World) -> BindPod:
    made = world.pod()
    world.carry_out(TouchPod(*of(made)))
    return bind(made)


def _bound_already(world: World) -> BindPod:
    made = world.pod()
    world.carry_out(bind(made))
    return bind(made)


def _bound_elsewhere(world: World) -> BindPod:
    made = world.pod()
    world.client.bind(made, "b")
    return bind(world.now())


def _gone(world: World) -> BindPod:
    made = world.pod()
    world.client.delete("Pod", "web", world.namespace, grace=0)
    return bind(made)


def _made_anew(world: World) -> BindPod:
    old = _gone(world)
    world.pod()
    return old


def _deleting(world: World) -> BindPod:
    world.pod()
    held = {"metadata": {"finalizers": ["example.org/held"]}}
    world.client.patch("Pod", "web", held, world.namespace, content_type=MERGE)
    world.client.delete("Pod", "web", world.namespace)
    return bind(world.now())


def _gated(world: World) -> BindPod:
    return bind(world.pod(schedulingGates=[{"name": "example.org/wait"}]))


def _finished(world: World) -> BindPod:
    made = world.pod()
    failed = {"status": {"phase": "Failed"}}
    world.client.patch("Pod", "web", failed, world.namespace, subresource="status")
    return bind(made)


def _node_gone(world: World) -> BindPod:
    world.client.delete("Node", "a")
    return bind(world.pod())


def _namespace_never_there(world: World) -> BindPod:
    uid, _, name = of(world.pod())
    return BindPod(uid, "nowhere", name, "a", 1, DECISION)


CASES = {
    "as seen": (15, _as_seen, Bound, "a"),
    "touched since": (14, _touched, PodShown, ""),
    "bound already": (2, _bound_already, PodShown, "a"),
    "bound elsewhere": (17, _bound_elsewhere, PodShown, "b"),
    "gone": (17, _gone, PodAbsent, None),
    "another of that name": (17, _made_anew, PodAbsent, ""),
    "being deleted": (17, _deleting, PodShown, ""),
    "gated": (17, _gated, PodShown, ""),
    "finished": (17, _finished, PodAbsent, ""),
    "no such node": (28, _node_gone, Bound, "a"),
    "no such namespace": (17, _namespace_never_there, PodAbsent, ""),
}


@pytest.mark.parametrize(
    ("arrange", "kind", "bound_to"),
    [
        pytest.param(*case, id=name, marks=pytest.mark.row(row))
        for name, (row, *case) in CASES.items()
    ],
)
def test_what_a_bind_comes_to(
    world: World, arrange: Callable[[World], BindPod], kind: type, bound_to: str | None
) -> None:
    request = arrange(world)
    (answer,) = world.carry_out(request)
    assert isinstance(answer, kind)
    found = world.client.find("Pod", "web", world.namespace)
    assert (None if found is None else found["spec"].get("nodeName", "")) == bound_to
    if isinstance(answer, PodShown):
        assert (answer.seen.pod.node_name, answer.seen.resource_version) == (
            bound_to,
            version(world.now()),
        )
    if isinstance(answer, Bound):
        assert world.now()["metadata"]["annotations"] == {"eventsched.io/decision": DECISION}


@pytest.mark.row(14)
def test_a_touch_makes_older_binds_fail_and_changes_nothing_that_is_read(world: World) -> None:
    made = world.pod()
    first, second, shown, late = world.carry_out(
        TouchPod(*of(made)), TouchPod(*of(made)), GetPod(*of(made)), bind(made)
    )
    versions = [each.seen.resource_version for each in (first, second, shown)]
    assert version(made) < versions[0] < versions[1] == versions[2]
    assert first.seen.pod == second.seen.pod == shown.seen.pod
    assert late == PodShown(bind(made), shown.seen)


def test_a_touch_does_not_reach_another_pod_of_that_name(world: World) -> None:
    old = world.pod()
    world.client.delete("Pod", "web", world.namespace, grace=0)
    new = world.pod()
    assert world.carry_out(TouchPod(*of(old))) == [PodAbsent(TouchPod(*of(old)))]
    assert version(world.now()) == version(new)


def test_a_victim_is_marked_as_upstream_marks_it_and_ends_with_its_grace(world: World) -> None:
    made = world.pod(terminationGracePeriodSeconds=30)
    world.carry_out(bind(made))
    evict = EvictPod(*of(made), DECISION, "second")
    first, again = world.carry_out(evict, evict)
    assert isinstance(first, PodShown)
    assert (first.seen.pod.deleting, first.seen.pod.displaced) == (True, True)
    assert again == first
    condition = world.conditions()["DisruptionTarget"]
    assert condition == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": f"second: preempting to accommodate a higher priority pod ({DECISION})",
        "lastProbeTime": None,
        "lastTransitionTime": "2026-09-21T14:13:20Z",
        "observedGeneration": 1,
    }
    assert world.now()["metadata"]["deletionGracePeriodSeconds"] == 30


def test_a_victim_that_is_gone_is_absent(world: World) -> None:
    made = world.pod()
    evict = EvictPod(*of(made), DECISION)
    (at_once,) = world.carry_out(evict)  # it is on no node
    world.pod()
    (another,) = world.carry_out(evict)
    assert at_once == another == PodAbsent(evict)
    assert "deletionTimestamp" not in world.now()["metadata"]


def report(made: Object, message: str, nominated: str | None = None, at: int = 0) -> PatchStatus:
    return PatchStatus(
        *of(made), version(made), "Unschedulable", message, nominated, NOW + at * SECOND
    )


def test_a_pods_status_says_why_it_waits(world: World) -> None:
    made = world.pod()
    (first,) = world.carry_out(report(made, "0/2 nodes are available", "a"))
    assert isinstance(first, Reported)
    assert first.seen is not None
    assert first.seen.pod.nominated_node == "a"
    (second,) = world.carry_out(report(world.now(), "no port", "", at=60))
    assert isinstance(second, Reported)
    assert world.conditions()["PodScheduled"] == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "no port",
        "lastProbeTime": None,
        "lastTransitionTime": "2026-09-21T14:13:20Z",
        "observedGeneration": 1,
    }
    assert "nominatedNodeName" not in world.now()["status"]


def test_a_late_report_does_not_reach_a_pod_that_is_bound(world: World) -> None:
    made = world.pod()
    late = report(made, "no room")
    _, answer = world.carry_out(bind(made), late)
    assert isinstance(answer, PodShown)
    assert answer.seen.pod.node_name == "a"
    assert world.conditions()["PodScheduled"]["status"] == "True"


def announcement(made: Object, at: int, note: str, **fields: Any) -> WriteEvent:
    uid, namespace, name = of(made)
    given = {"reason": "FailedScheduling", "action": "Scheduling", "type": "Warning", **fields}
    return WriteEvent(f"scheduler/{at}@0a1b2c3d", namespace, name, uid, note=note, related=None,
                    at=NOW + at * SECOND, controller="eventsched", **given)  # fmt: skip


def test_events_read_as_upstreams_in_kubectl_describe(world: World) -> None:
    made = world.pod()
    why = "0/2 nodes are available: 2 Insufficient cpu."
    done = f"Successfully assigned {world.namespace}/web to a"
    requests = [announcement(made, at, why) for at in range(4)]
    requests.append(
        announcement(made, 7, done, reason="Scheduled", action="Binding", type="Normal")
    )
    answers = world.carry_out(*requests, requests[-1], requests[0])
    assert answers == [Reported(each) for each in (*requests, requests[-1], requests[0])]

    described = world.plane.kubectl("describe", "pod", "web", "-n", world.namespace)
    lines = described[described.index("Events:") :].splitlines()[3:]
    rows = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]
    assert [(row[0], row[1], *row[3:]) for row in rows] == [
        ("Warning", "FailedScheduling", "eventsched", why),
        ("Normal", "Scheduled", "eventsched", done),
    ]
    assert "(x4 over " in rows[0][2]


def test_what_may_not_be_done_is_refused_and_named(world: World) -> None:
    made = world.pod()

    async def run() -> tuple[list[Any], list[str]]:
        api = await connect(world.plane.write_kubeconfig("nobody", {"token": token}))
        try:
            calls = RequestDispatcher(api, host="h")
            requests = (bind(made), report(made, "no"), announcement(made, 1, "no"))
            return [await calls.carry_out(each) for each in requests], calls.refusals.present
        finally:
            await api.close()

    token = world.plane.token("nobody")
    answers, present = asyncio.run(run())
    assert [type(each).__name__ for each in answers] == ["Unknown", "Reported", "Reported"]
    assert [each.split(";")[-1] for each in present] == [
        f' add the rule {{apiGroups: ["{group}"], resources: ["{resource}"], verbs: ["{verb}"]}}'
        " to the scheduler's role"
        for group, resource, verb in (
            ("", "pods/binding", "create"),
            ("", "pods", "get"),
            ("events.k8s.io", "events", "create"),
        )
    ]


@pytest.mark.row(17)
def test_a_namespace_that_is_being_deleted_refuses_binds_and_events(
    world: World, plane: ControlPlane
) -> None:
    made = world.pod()
    namespace = made["metadata"]["namespace"]
    with closing(plane.client("admin")) as client:
        client.delete("Namespace", namespace)  # stays: no controller deletes its objects
    bound, announced, touched = world.carry_out(
        bind(made), announcement(made, 1, "no"), TouchPod(*of(made))
    )
    assert isinstance(bound, PodShown)
    assert bound.seen.pod.node_name == ""
    assert isinstance(announced, Reported)
    assert "is being terminated" in announced.refused
    assert isinstance(touched, PodShown)
