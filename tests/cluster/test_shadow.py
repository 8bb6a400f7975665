"""A shadow beside kube-scheduler: it compares every placement and writes nothing.

The proof is the audit log of the API server: of the shadow's user it has reads only.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from http.client import FORBIDDEN
from pathlib import Path

import pytest

from eventsched.domain.records import PlacementCompared, PlacementMatch, PodBound, TermBegan
from tests.cluster.harness.binaries import Programs
from tests.cluster.harness.client import Client, Object, wait_for
from tests.cluster.harness.demos import DEFAULT
from tests.cluster.harness.manifests import node, pod
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import Pods
from tests.cluster.harness.scheduler import Log, Scheduler, Schedulers, run
from tests.cluster.harness.shadow_user import USER, audit_flags, audited, give_role, kubeconfig
from tests.deploy.rights import rights

READS = {"get", "list", "watch"}
CONFIG = {"profiles": [{"schedulerName": "trial"}]}


@pytest.fixture
def plane(programs: Programs, tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane, a user with the role of shadows, and an audit log of its requests."""
    with ControlPlane(programs, flags=audit_flags(tmp_path), users={USER: ()}) as made:
        give_role(made)
        yield made


@pytest.fixture
def pods(plane: ControlPlane, namespace: str) -> Pods:
    """Three nodes of 4 CPUs."""
    for name in "abc":
        plane.admin.create(node(name))
    return Pods(plane.admin, namespace)


def shadow_of(schedulers: Schedulers, **settings: Object) -> Scheduler:
    """A shadow of kube-scheduler, not started yet."""
    return schedulers.make(
        config=CONFIG,
        settings={"stream": "shadow", "shadow": {"enabled": True}, **settings},
        kubeconfig=kubeconfig(schedulers.plane),
    )


def verbs(plane: ControlPlane, user: str) -> set[str]:
    """The verbs that a user has, except for questions about itself."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "metadata": {},
        "spec": {"namespace": "default"},
    }
    with closing(Client(plane.url, plane.tls(), plane.token(user))) as client:
        rules = client.create(review)["status"]["resourceRules"]
    return {each.verb for each in rights(rules) if "selfsubject" not in each.resource}


def comparisons(log: Log) -> dict[str, PlacementCompared]:
    """The comparisons by the names of their pods."""
    names = log.names
    return {names[each.uid].partition("/")[2]: each for each in log.of(PlacementCompared)}


def compared(scheduler: Scheduler, *names: str) -> dict[str, PlacementCompared]:
    """The comparisons, once these pods have one. Raises TimeoutError."""

    def found() -> bool:
        return set(names) <= comparisons(scheduler.log()).keys()

    wait_for(found, f"{names} are compared")
    return comparisons(scheduler.log())


def test_every_placement_is_compared_and_nothing_is_written(
    plane: ControlPlane,
    pods: Pods,
    default_scheduler: object,
    schedulers: Schedulers,
    tmp_path: Path,
) -> None:
    """Also over a kill, after which the log says what happened meanwhile. Its role has no verb that
    writes, and nothing that it asks for is refused."""
    shadow = shadow_of(schedulers).start()
    first = [f"p{number}" for number in range(6)]
    for name in first:
        pods.create(pod(name, cpu="1", scheduler=DEFAULT))
    found = compared(shadow, *first)
    assert {each.node for each in found.values()} <= set("abc")
    for name, each in found.items():
        assert each.node == pods.node(name)
        assert each.outcome in (PlacementMatch.SAME, PlacementMatch.DIFFERENT)
        assert each.feasible
    wait_for(lambda: shadow.metric("eventsched_shadow_comparisons_total") == 6, "6 are counted")
    shadow.kill()
    pods.create(pod("meanwhile", cpu="1", scheduler=DEFAULT))
    pods.node("meanwhile")
    pods.delete("p0")
    shadow.start()
    pods.create(pod("later", cpu="1", scheduler=DEFAULT))
    found = compared(shadow, "later")
    assert "meanwhile" not in found  # it was seen on its node first
    log = shadow.log()
    assert len(log.of(TermBegan)) == 2
    assert log.of(PodBound) == []
    asked = audited(tmp_path)
    made = Counter(each["verb"] for each in asked)
    assert set(made) <= READS, made
    assert {"list", "watch"} <= set(made)
    assert [each for each in asked if each["responseStatus"]["code"] == FORBIDDEN] == []
    assert verbs(plane, USER) == {"list", "watch"}
    leases = pods.client.list("coordination.k8s.io/v1/Lease", "kube-system")
    assert [each for each in leases if not each["metadata"]["name"].startswith("apiserver-")] == []
    events = pods.client.list("events.k8s.io/v1/Event", pods.namespace)
    assert {each["reportingController"] for each in events} == {DEFAULT}


def test_a_node_of_which_the_other_scheduler_knows_more(
    plane: ControlPlane, pods: Pods, schedulers: Schedulers
) -> None:
    """Another client binds a pod to a node that is too small here; the log names the plugin."""
    plane.admin.create(node("tiny", cpu="1"))
    shadow = shadow_of(schedulers).start()
    pods.create(pod("big", cpu="3", scheduler=DEFAULT))
    uid = pods.get("big")["metadata"]["uid"]
    wait_for(lambda: shadow.log().decisions(uid), "a decision")
    plane.admin.bind(pods.get("big"), "tiny")
    big = compared(shadow, "big")["big"]
    assert (big.outcome, big.node, big.feasible, big.plugin, big.reasons) == (
        PlacementMatch.DIFFERENT, "tiny", False, "NodeResourcesFit", ("Insufficient cpu",),
    )  # fmt: skip
    text = run("explain", f"{pods.namespace}/big", f"--database={shadow.database}",
               "--stream=shadow")  # fmt: skip
    assert "tiny is refused here by NodeResourcesFit: Insufficient cpu" in text


def test_a_scheduler_and_a_shadow_refuse_each_others_log(
    pods: Pods, schedulers: Schedulers
) -> None:
    """With exit code 2 and one line, before anything is decided."""
    shadow = shadow_of(schedulers).start()
    assert shadow.stop() == 0
    normal = schedulers.make(settings={"stream": "shadow"})
    normal.server.start()
    assert normal.server.wait(60.0) == 2
    assert "is the log of a shadow of default-scheduler" in normal.server.tail()
    assert len(shadow.log().of(TermBegan)) == 1
