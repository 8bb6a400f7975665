"""What the API server answers to a scheduler: the facts that the bind protocol stands on
(docs/architecture.md). Numbers of ``row`` are rows of the failure matrix."""

from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

import pytest

from tests.cluster.harness.client import MERGE, STRATEGIC, Answer, ApiError, Object
from tests.cluster.harness.manifests import node, pod
from tests.cluster.harness.plane import ControlPlane

DECISION = "eventsched.io/decision"
MINE = {"annotations": {DECISION: "scheduler/7@0a1b2c3d"}}
OTHERS = {"annotations": {DECISION: "scheduler/9@0a1b2c3d"}}


class World:
    """A namespace with nodes ``a`` and ``b`` and a pod ``web``."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.client = plane.admin
        self.namespace = namespace
        for name in ("a", "b"):
            self.client.create(node(name))

    def pod(self, **spec: object) -> Object:
        return self.client.create(pod("web", **spec), self.namespace)  # type: ignore[arg-type]

    def now(self) -> Object:
        return self.client.get("Pod", "web", self.namespace)

    def touch(self, nonce: str) -> Object:
        """Moves the pod's resourceVersion, as the scheduler does to fence an intent."""
        condition = {"type": "eventsched.io/Fence", "status": "True", "reason": nonce}
        patch = {"status": {"conditions": [condition]}}
        return self.client.patch("Pod", "web", patch, self.namespace, subresource="status")


@pytest.fixture
def world(plane: ControlPlane, namespace: str) -> World:
    return World(plane, namespace)


def _version(found: Object) -> str:
    return str(found["metadata"]["resourceVersion"])


def _exact(found: Object) -> Object:
    """The preconditions that name exactly this state of the pod."""
    return {"uid": found["metadata"]["uid"], "resourceVersion": _version(found)}


# Binding


class Case(NamedTuple):
    """A bind of ``web`` to node a in a given state, and its outcome."""

    row: int
    bind: Callable[[World], Answer]
    status: int
    reason: str
    message: str
    node: str | None
    """Where the pod is afterwards."""
    decision: str | None
    """The annotation that it has then."""


def _plain(world: World) -> Answer:
    return world.client.bind(world.pod(), "a", **MINE)


def _right(world: World) -> Answer:
    made = world.pod()
    return world.client.bind(made, "a", **MINE, **_exact(made))


def _wrong_uid(world: World) -> Answer:
    made = world.pod()
    return world.client.bind(made, "a", **MINE, **_exact(made) | {"uid": _UNKNOWN})


def _old_version(world: World) -> Answer:
    made = world.pod()
    world.touch("1")
    return world.client.bind(made, "a", **MINE, **_exact(made))


def _new_version(world: World) -> Answer:
    world.pod()
    return world.client.bind(world.touch("1"), "a", **MINE, **_exact(world.now()))


def _twice(world: World) -> Answer:
    made = world.pod()
    world.client.bind(made, "a", **MINE, **_exact(made))
    return world.client.bind(made, "a", **MINE, uid=made["metadata"]["uid"])


def _twice_exactly(world: World) -> Answer:
    made = world.pod()
    world.client.bind(made, "a", **MINE, **_exact(made))
    return world.client.bind(made, "a", **MINE, **_exact(made))


def _bound_elsewhere(world: World) -> Answer:
    made = world.pod()
    world.client.bind(made, "b", **OTHERS)
    return world.client.bind(made, "a", **MINE, uid=made["metadata"]["uid"])


def _gone(world: World) -> Answer:
    made = world.pod()
    world.client.delete("Pod", "web", world.namespace, grace=0)
    return world.client.bind(made, "a", **MINE, **_exact(made))


def _made_anew(world: World) -> Answer:
    made = world.pod()
    world.client.delete("Pod", "web", world.namespace, grace=0)
    world.pod()
    return world.client.bind(made, "a", **MINE, uid=made["metadata"]["uid"])


def _deleting(world: World) -> Answer:
    made = world.pod()
    held = {"metadata": {"finalizers": ["example.org/held"]}}
    world.client.patch("Pod", "web", held, world.namespace, content_type=MERGE)
    world.client.delete("Pod", "web", world.namespace)
    return world.client.bind(made, "a", **MINE, uid=made["metadata"]["uid"])


def _gated(world: World) -> Answer:
    made = world.pod(schedulingGates=[{"name": "example.org/wait"}])
    return world.client.bind(made, "a", **MINE, **_exact(made))


def _node_gone(world: World) -> Answer:
    made = world.pod()
    world.client.delete("Node", "a")
    return world.client.bind(made, "a", **MINE, **_exact(made))


_UNKNOWN = "00000000-0000-4000-8000-000000000000"
_MINE = "scheduler/7@0a1b2c3d"
_CHANGED = "Precondition failed: ResourceVersion"
_REPLACED = "Precondition failed: UID"
CASES = {
    "no precondition": Case(15, _plain, 201, "", "", "a", _MINE),
    "right uid and version": Case(15, _right, 201, "", "", "a", _MINE),
    "wrong uid": Case(15, _wrong_uid, 409, "Conflict", _REPLACED, None, None),
    "touched since": Case(14, _old_version, 409, "Conflict", _CHANGED, None, None),
    "touched, and read again": Case(15, _new_version, 201, "", "", "a", _MINE),
    "same node again": Case(
        17, _twice, 409, "Conflict", 'already assigned to node "a"', "a", _MINE
    ),
    "same request again": Case(17, _twice_exactly, 409, "Conflict", _CHANGED, "a", _MINE),
    "bound elsewhere": Case(
        17, _bound_elsewhere, 409, "Conflict", 'assigned to node "b"', "b", "scheduler/9@0a1b2c3d"
    ),
    "gone": Case(17, _gone, 404, "NotFound", 'pods "web" not found', None, None),
    "another of that name": Case(17, _made_anew, 409, "Conflict", _REPLACED, None, None),
    "deleting": Case(17, _deleting, 409, "Conflict", "is being deleted", None, None),
    "gated": Case(17, _gated, 409, "Conflict", "non-empty .spec.schedulingGates", None, None),
    "no such node": Case(28, _node_gone, 201, "", "", "a", _MINE),
}


@pytest.mark.parametrize(
    "case",
    [pytest.param(each, id=name, marks=pytest.mark.row(each.row)) for name, each in CASES.items()],
)
def test_what_a_binding_is_answered(world: World, case: Case) -> None:
    answer = case.bind(world)

    assert (answer.status, answer.reason) == (case.status, case.reason)
    assert case.message in answer.message
    found = world.client.find("Pod", "web", world.namespace) or {"metadata": {}, "spec": {}}
    decision = found["metadata"].get("annotations", {}).get(DECISION)
    assert (found["spec"].get("nodeName"), decision) == (case.node, case.decision)


@pytest.mark.row(19)
def test_a_binding_sets_node_annotation_and_condition_in_one_step(world: World) -> None:
    made = world.pod(annotations={"example.org/kept": "yes"})
    since = _version(made)
    nominated = {"status": {"nominatedNodeName": "b"}}
    world.client.patch("Pod", "web", nominated, world.namespace, subresource="status")

    world.client.bind(made, "a", **MINE)

    now = world.now()
    seen = [
        (
            each["object"]["spec"].get("nodeName"),
            each["object"]["metadata"]["annotations"].get(DECISION),
            each["object"]["status"].get("nominatedNodeName"),
            [
                (condition["type"], condition["status"])
                for condition in each["object"]["status"].get("conditions", [])
            ],
        )
        for each in _until(world, since, _version(now))
    ]
    assert seen == [
        (None, None, "b", []),
        ("a", "scheduler/7@0a1b2c3d", None, [("PodScheduled", "True")]),
    ]
    assert now["metadata"]["annotations"]["example.org/kept"] == "yes"


def _until(world: World, since: str, version: str) -> list[Object]:
    """The pods' events after a resourceVersion, up to another."""
    found = []
    with closing(world.client.watch("Pod", world.namespace, resourceVersion=since)) as events:
        for each in events:
            found.append(each)
            if _version(each["object"]) == version:
                return found
    raise AssertionError(f"the watch ended before {version}")


# Touching


@pytest.mark.row(14)
def test_only_a_change_moves_the_resource_version(world: World) -> None:
    made = world.pod()
    touched = world.touch("1")
    again = world.touch("1")
    empty = world.client.patch("Pod", "web", {}, world.namespace, subresource="status")
    other = world.touch("2")

    order = [int(_version(each)) for each in (made, touched, again, empty, other)]
    assert order[0] < order[1] == order[2] == order[3] < order[4]
    assert [(each["type"], each["reason"]) for each in other["status"]["conditions"]] == [
        ("eventsched.io/Fence", "2")
    ]


@pytest.mark.row(14)
def test_a_touch_may_name_what_it_means(world: World) -> None:
    made = world.pod()
    moved = world.touch("1")
    condition = {"type": "eventsched.io/Fence", "status": "True", "reason": "2"}
    answers = []
    for metadata in ({"uid": _UNKNOWN}, _exact(made), {"uid": made["metadata"]["uid"]}):
        body = {"metadata": metadata, "status": {"conditions": [condition]}}
        path = world.client.path("Pod", "web", world.namespace, "status")
        answers.append(world.client.call("PATCH", path, body, STRATEGIC))

    assert [(each.status, each.reason) for each in answers] == [
        (422, "Invalid"),  # a uid that does not fit is taken for a wish to change it
        (409, "Conflict"),
        (200, ""),
    ]
    assert "metadata.uid" in answers[0].message
    assert int(_version(world.now())) > int(_version(moved))


# Eviction of victims, as upstream's preemption does it: a condition, then a delete


def test_a_victim_is_marked_and_deleted_by_uid(world: World) -> None:
    made = world.pod(terminationGracePeriodSeconds=30)
    world.client.bind(made, "a")
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "eventsched: preempting to accommodate a higher priority pod",
    }
    patch = {"status": {"conditions": [condition]}}

    marked = world.client.patch("Pod", "web", patch, world.namespace, subresource="status")
    with pytest.raises(ApiError) as wrong:
        world.client.delete("Pod", "web", world.namespace, uid=_UNKNOWN)
    uid = made["metadata"]["uid"]
    deleting = world.client.delete("Pod", "web", world.namespace, uid=uid)
    again = world.client.delete("Pod", "web", world.namespace, uid=uid)
    world.client.delete("Pod", "web", world.namespace, uid=uid, grace=0)
    with pytest.raises(ApiError) as gone:
        world.client.delete("Pod", "web", world.namespace, uid=uid)

    assert [each["type"] for each in marked["status"]["conditions"]] == [
        "DisruptionTarget",
        "PodScheduled",
    ]
    assert wrong.value.status == 409
    assert deleting["metadata"]["deletionGracePeriodSeconds"] == 30
    assert _version(again) == _version(deleting)
    assert gone.value.status == 404


def test_a_pod_without_a_node_is_deleted_at_once(world: World) -> None:
    made = world.pod(terminationGracePeriodSeconds=30)

    world.client.delete("Pod", "web", world.namespace, uid=made["metadata"]["uid"])

    assert world.client.find("Pod", "web", world.namespace) is None


# Events


def test_an_event_with_a_name_of_its_own_is_written_once(world: World) -> None:
    made = world.pod()
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "web.scheduler-7", "annotations": MINE["annotations"]},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "eventsched",
        "reportingInstance": "eventsched-0",
        "action": "Binding",
        "reason": "Scheduled",
        "type": "Normal",
        "note": f"Successfully assigned {world.namespace}/web to a",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": world.namespace,
            "name": "web",
            "uid": made["metadata"]["uid"],
        },
    }

    world.client.create(event, world.namespace)
    with pytest.raises(ApiError) as again:
        world.client.create(event, world.namespace)

    assert (again.value.status, again.value.answer.reason) == (409, "AlreadyExists")
    shown = world.client.list("Event", world.namespace)
    assert [(each["reason"], each["message"], each["source"]) for each in shown] == [
        ("Scheduled", f"Successfully assigned {world.namespace}/web to a", {})
    ]


@pytest.mark.parametrize("length", [1024, 1025])
def test_an_event_has_a_note_of_at_most_1024_bytes(world: World, length: int) -> None:
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "long"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "eventsched",
        "reportingInstance": "eventsched-0",
        "action": "Scheduling",
        "reason": "FailedScheduling",
        "type": "Warning",
        "note": "x" * length,
        "regarding": {"kind": "Pod", "namespace": world.namespace, "name": "web"},
    }

    path = world.client.path("events.k8s.io/v1/Event", None, world.namespace)
    answer = world.client.call("POST", path, event)

    assert answer.status == (201 if length == 1024 else 422)
