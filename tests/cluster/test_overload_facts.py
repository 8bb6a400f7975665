"""The API server's answers when it is overloaded, or when its etcd hangs."""

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from functools import partial

import pytest

from tests.cluster.harness.binaries import Programs
from tests.cluster.harness.client import Answer, Client, wait_for
from tests.cluster.harness.manifests import pod
from tests.cluster.harness.plane import ControlPlane

_ONE_AT_A_TIME = ("--enable-priority-and-fairness=false", "--max-mutating-requests-inflight=1")
_DECISION = "scheduler/7@0a1b2c3d"
_MINE = {"annotations": {"eventsched.io/decision": _DECISION}}


@pytest.fixture(scope="module")
def busy_plane(programs: Programs) -> Iterator[ControlPlane]:
    """A control plane that carries out one write at a time."""
    with ControlPlane(programs, flags=_ONE_AT_A_TIME) as plane:
        yield plane


@pytest.fixture
def schedulers(busy_plane: ControlPlane) -> Iterator[list[Client]]:
    """Two of them; administrators would be exempt from the limit."""
    clients = [busy_plane.client("system:kube-scheduler", timeout=5.0) for _ in range(2)]
    for each in clients:
        each.list("Pod")  # opens its connection, and learns where pods are
    yield clients
    for each in clients:
        each.close()


def _decided(plane: ControlPlane, name: str) -> tuple[str | None, str | None]:
    found = plane.admin.get("Pod", name, "default")
    annotations = found["metadata"].get("annotations", {})
    return found["spec"].get("nodeName"), annotations.get("eventsched.io/decision")


@pytest.mark.row(18)
def test_too_many_writes_are_refused_for_now(
    busy_plane: ControlPlane, schedulers: list[Client]
) -> None:
    pods = [busy_plane.admin.create(pod(name), "default") for name in ("one", "two")]
    busy_plane.etcd.pause()
    with ThreadPoolExecutor(2) as at_once:
        asked = {
            at_once.submit(client.bind, each, "a"): each
            for client, each in zip(schedulers, pods, strict=True)
        }
        refused = wait(asked, timeout=30, return_when=FIRST_COMPLETED).done.pop()
        busy_plane.etcd.go_on()
    answers = {each["metadata"]["name"]: future.result(60) for future, each in asked.items()}

    # The other one, too, when the server was writing something of its own.
    assert {each.status for each in answers.values()} <= {201, 429}
    answer = refused.result(60)
    assert (answer.status, answer.headers["retry-after"]) == (429, "1")
    # As text, not as a Status object.
    assert answer.body == "Too many requests, please try again later.\n"
    nodes = {name: _decided(busy_plane, name)[0] for name in answers}
    assert nodes == {name: "a" if each.status == 201 else None for name, each in answers.items()}
    wait_for(lambda: schedulers[0].bind(asked[refused], "a").status == 201, "it is bound, too")


@pytest.mark.row(19)
def test_the_pod_shows_the_outcome_of_an_unanswered_binding(
    busy_plane: ControlPlane, schedulers: list[Client]
) -> None:
    made = busy_plane.admin.create(pod("three"), "default")
    bind = partial(schedulers[0].bind, made, "a", **_MINE, uid=made["metadata"]["uid"])
    busy_plane.etcd.pause()
    with pytest.raises(TimeoutError):
        _when_admitted(bind)
    busy_plane.etcd.go_on()

    before = _decided(busy_plane, "three")
    again = wait_for(lambda: _when_admitted(bind), "its turn")

    # An unanswered request may be executed before, or even after, the pod is read.
    assert before in [(None, None), ("a", _DECISION)]
    assert again.status in ({201, 409} if before == (None, None) else {409})
    assert _decided(busy_plane, "three") == ("a", _DECISION)


def _when_admitted(bind: Callable[[], Answer]) -> Answer:
    """Asks until the server has noticed that an earlier request, which held the place, was
    cancelled."""
    while (answer := bind()).status == 429:
        pass
    return answer
