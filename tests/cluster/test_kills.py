"""kill -9 of the scheduler at every boundary of what it does, and at random moments under load. The
next one has only the log; it completes every intent exactly once and overcommits no node."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from eventsched.domain.records import (
    BindIntended,
    BindRetried,
    BindVoided,
    Outcome,
    PodBound,
    PodDecided,
    PodUnreserved,
    PreemptionDecided,
    PreparationIntended,
)
from tests.cluster.harness import volume_binder
from tests.cluster.harness.campaign import ROUND, Campaign
from tests.cluster.harness.client import MERGE, wait_for
from tests.cluster.harness.faults import Fault, Hang, Hold, Lose, Swallow
from tests.cluster.harness.kube_proxy import KubeProxy
from tests.cluster.harness.load import PROFILES, turnstile
from tests.cluster.harness.manifests import (
    claim,
    mounted,
    node,
    pod,
    priority_class,
    storage_class,
    volume,
)
from tests.cluster.harness.observer import Observer
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import Pods, decision
from tests.cluster.harness.scheduler import Log, Schedulers

KILLS = 20
"""As many as a minute or two allow; each boundary has its turn. ``make soak-cluster``: more."""


class Stage:
    """A scheduler behind a proxy; two nodes."""

    def __init__(self, plane: ControlPlane, database: str, namespace: str) -> None:
        self.plane, self.pods = plane, Pods(plane.admin, namespace)
        self.running = ExitStack()
        self.proxy = self.running.enter_context(KubeProxy(plane))
        for name in "ab":
            plane.admin.create(node(name, "2"))
        plane.admin.create(priority_class("important", 1000))
        self.observer = self.running.enter_context(Observer(plane, namespace))
        # It ends before what it speaks through.
        schedulers = self.running.enter_context(Schedulers(plane, database))
        self.scheduler = schedulers.make(
            config={"profiles": PROFILES},
            kubeconfig=self.proxy.kubeconfig(),
            arguments=[f"--plugin={turnstile(plane)}"],
        )

    def uid(self, name: str) -> str:
        """Of a pod."""
        return str(self.pods.get(name)["metadata"]["uid"])

    def bindings(self) -> list[int]:
        """The API server's answers to binds."""
        return [each.status for each in self.proxy.passed if each.path.endswith("/binding")]

    def settled(self, *bound: str) -> Log:
        """The log, once it says that these pods are bound; everything else fits together, too."""
        wanted = {self.uid(name) for name in bound}

        def is_logged() -> bool:
            return wanted <= {each.uid for each in self.scheduler.log().of(PodBound)}

        wait_for(is_logged, f"{bound} are bound", 60.0)
        log = self.scheduler.log()
        self.observer.check(log)
        return log


@pytest.fixture
def stage(plane: ControlPlane, database: str, namespace: str) -> Iterator[Stage]:
    """With a scheduler that leads."""
    made = Stage(plane, database, namespace)
    with made.running:
        made.scheduler.start()
        yield made


@pytest.mark.row(1)
@pytest.mark.parametrize("fault", [Lose(), Hold()], ids=["never arrives", "arrives later"])
def test_after_the_commit_and_before_the_bind(stage: Stage, fault: Fault) -> None:
    """The next one binds the same pod to the same node by the same decision, though another node
    would be better by now."""
    rule = stage.proxy.on("POST", "/binding$", fault)
    stage.pods.create(pod("web"))
    rule.wait()
    stage.scheduler.kill()  # before it tries again
    [decided] = stage.scheduler.log().of(PodDecided)
    rule.remove()
    assert stage.pods.nodes() == {"web": ""}
    filler = stage.pods.create(pod("filler", cpu="1500m", scheduler="nobody"))
    filler["metadata"]["annotations"] = {}
    assert stage.pods.client.bind(filler, decided.node).status == 201
    stage.plane.admin.create(node("c", "64"))
    stage.scheduler.start()
    assert stage.pods.node("web") == decided.node
    rule.release()
    stage.observer.forget(stage.uid("filler"))  # it is none of ours
    log = stage.settled("web")
    assert log.decisions(stage.uid("web")) == [decided]
    assert log.of(BindVoided) == []


@pytest.mark.row(2)
def test_after_the_bind_and_before_its_outcome_is_written(stage: Stage) -> None:
    """The next one finds in its list that the bind was its own, and sends no other."""
    stage.proxy.edit_watches(lambda line: [] if b'"nodeName"' in line else [line])
    stage.proxy.on("POST", "/binding$", Hang(), times=1)
    stage.pods.create(pod("web"))
    found = stage.pods.node("web")
    stage.scheduler.kill()
    stage.proxy.clear()
    before = stage.scheduler.log()
    assert before.of(PodBound) == []
    stage.scheduler.start()
    log = stage.settled("web")
    [decided] = log.decisions(stage.uid("web"))
    assert [each.node for each in log.of(PodBound)] == [decided.node] == [found]
    assert stage.bindings() == [201]


@pytest.mark.row(2)
def test_the_bind_lands_when_the_next_one_is_about_to_repeat_it(stage: Stage) -> None:
    """The repeated one is refused, no watch says why; the pod is read, and names the decision."""
    late, again = (stage.proxy.on("POST", "/binding$", Hold(), times=1) for _ in range(2))
    stage.pods.create(pod("web"))
    late.wait()
    stage.scheduler.kill()
    [decided] = stage.scheduler.log().of(PodDecided)
    stage.proxy.edit_watches(lambda line: [] if b'"nodeName"' in line else [line])
    stage.scheduler.start()
    again.wait()
    late.release()
    assert stage.pods.node("web") == decided.node
    again.release()
    log = stage.settled("web")
    assert stage.bindings() == [201, 409]
    assert log.decisions(stage.uid("web")) == [decided]
    assert [each.node for each in log.of(PodBound)] == [decided.node]
    assert (log.of(BindVoided), len(log.of(BindRetried))) == ([], 1)


@pytest.mark.row(14)
def test_a_bind_that_arrives_after_the_next_leader_has_given_it_up(stage: Stage) -> None:
    """Its node is gone meanwhile: the pod is touched, so that the old bind fails, and is decided
    again."""
    rule = stage.proxy.on("POST", "/binding$", Hold(), times=1)
    stage.pods.create(pod("web"))
    rule.wait()
    stage.scheduler.kill()
    [decided] = stage.scheduler.log().of(PodDecided)
    stage.plane.admin.delete("Node", decided.node)
    stage.scheduler.start()
    [other] = {"a", "b"} - {decided.node}
    assert stage.pods.node("web") == other
    wait_for(lambda: 201 in stage.bindings(), "the proxy has the answer, too")
    before = stage.bindings()  # one may have been refused for a version that is over
    rule.release()
    log = stage.settled("web")
    assert [each.node for each in log.decisions(stage.uid("web"))] == [decided.node, other]
    assert [each.node for each in log.of(BindVoided)] == [decided.node]

    wait_for(lambda: stage.bindings() == [*before, 409], "the old bind is refused")


@pytest.mark.row(15)
def test_a_pod_that_has_changed_meanwhile(stage: Stage) -> None:
    """The intent continues with the newer version of the pod once a record says so."""
    rule = stage.proxy.on("POST", "/binding$", Lose())
    stage.pods.create(pod("web"))
    rule.wait()
    stage.scheduler.kill()  # before it tries again
    [decided] = stage.scheduler.log().of(PodDecided)
    rule.remove()
    notes = {"metadata": {"annotations": {"example.org/note": "x"}}}
    newer = stage.pods.client.patch("Pod", "web", notes, stage.pods.namespace, content_type=MERGE)
    stage.scheduler.start()
    assert stage.pods.node("web") == decided.node
    log = stage.settled("web")
    retried = log.of(BindRetried)
    assert retried
    assert retried[-1].resource_version >= int(newer["metadata"]["resourceVersion"])
    assert log.decisions(stage.uid("web")) == [decided]


@pytest.mark.parametrize("fault", [Hold(), Swallow()], ids=["before the write", "after it"])
def test_in_pre_bind(stage: Stage, fault: Fault) -> None:
    """A volume is reserved for the pod's claim. The scheduler is killed while the call to bind them
    is unanswered. The wait continues, and the pod is bound to the volume's node."""
    admin = stage.plane.admin
    admin.create(storage_class("local"))
    admin.create(volume("disk", "local", node="b"))
    volume_binder.offer(admin, "disk")
    admin.create(claim("data", "local"), stage.pods.namespace)
    rule = stage.proxy.on("PATCH", "/persistentvolumes/disk", fault, times=1)
    stage.pods.create(pod("web", volumes=mounted("data")))
    rule.wait()
    stage.scheduler.kill()
    stage.scheduler.start()

    def is_promised() -> bool:
        return "claimRef" in admin.get("PersistentVolume", "disk")["spec"]

    wait_for(is_promised, "the volume is promised")
    rule.release()
    assert stage.pods.nodes() == {"web": ""}
    volume_binder.bind(admin, stage.pods.namespace, "data", "disk")
    assert stage.pods.node("web") == "b"
    log = stage.settled("web")
    # Before its claim and the volume are seen, it may have been refused.
    assert [each.node for each in log.decisions(stage.uid("web")) if each.node] == ["b"]
    assert [each.node for each in log.of(PreparationIntended)] == ["b"]


@pytest.mark.parametrize("fault", [Lose(), Hold(), Swallow()], ids=["lost", "late", "unanswered"])
def test_half_way_through_a_preemption(stage: Stage, fault: Fault) -> None:
    """One victim is gone, the outcome of the other is unknown: both are evicted, no other pod is,
    and the pod takes their room."""
    on_a: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": "a"}}
    for name, cpu in (("small-1", "1"), ("small-2", "1"), ("large", "2")):
        stage.pods.create(pod(name, cpu, **(on_a if cpu == "1" else {})))
        stage.pods.node(name)
    once = stage.proxy.on("DELETE", "/pods/small-", fault, times=1)
    stage.pods.create(pod("web", "2", priorityClassName="important", **on_a))
    once.wait()
    stage.scheduler.kill()
    stage.scheduler.start()
    once.release()
    assert stage.pods.node("web", 60.0) == "a"
    stage.settled("web")
    assert sorted(stage.pods.nodes()) == ["large", "web"]
    [preemption] = stage.scheduler.log().of(PreemptionDecided)
    assert (preemption.node, len(preemption.victims)) == ("a", 2)
    told = [len(stage.pods.events(name, "Preempted")) for name in ("small-1", "small-2", "large")]
    assert told == [1, 1, 0]


def test_in_permit(stage: Stage) -> None:
    """A pod that waits there keeps waiting, and is bound to its node once it is allowed."""
    stage.pods.create(pod("web", labels={"waits": "600"}))
    [waiting] = stage.scheduler.wait_log(PodDecided)
    stage.scheduler.kill()
    stage.plane.admin.create(node("c", "64"))
    stage.scheduler.start()
    assert stage.pods.nodes() == {"web": ""}
    stage.pods.create(pod("next"))
    assert stage.pods.node("web") == waiting.node
    log = stage.settled("web", "next")
    assert log.decisions(stage.uid("web")) == [waiting]
    assert [(each.uid, each.node) for each in log.of(BindIntended)] == [
        (stage.uid("web"), waiting.node)
    ]


@pytest.mark.row(26)
def test_a_deadline_in_permit_outlives_three_kills(stage: Stage) -> None:
    """It is over once, when it was to be from the beginning; then the pod is tried again."""
    stage.pods.create(pod("web", labels={"waits": "20"}))
    [waiting] = stage.scheduler.wait_log(PodDecided)
    for _ in range(3):
        stage.scheduler.kill()
        stage.scheduler.start()

    def is_tried_again() -> bool:
        return len(stage.scheduler.log().of(PodDecided)) > 1

    wait_for(is_tried_again, "another attempt", 90.0)
    log = stage.scheduler.log()
    first, second = log.of(PodDecided)[:2]
    assert (first, second.outcome, second.attempt) == (waiting, Outcome.WAITING, 2)
    ends = [
        (stored.at, each.plugin)
        for stored, each in zip(log.stored, log.records, strict=True)
        if isinstance(each, PodUnreserved) and each.uid == waiting.uid
    ]
    [(at, plugin)] = ends[:1]
    assert plugin == "Turnstile"
    assert at >= waiting.deadlines["Turnstile"]

    def is_let_through() -> bool:
        """More than one may come while it is in its back-off."""
        stage.pods.create(pod(f"next-{len(stage.pods.nodes())}"))
        return bool(stage.pods.nodes()["web"])

    wait_for(is_let_through, "web has a node", 60.0, every=3.0)
    wait_for(lambda: decision(stage.pods.get("web")), "web names its decision")
    stage.settled("web")


@pytest.mark.row(1)
@pytest.mark.row(2)
@pytest.mark.row(14)
def test_random_kills_under_load(plane: ControlPlane, database: str, namespace: str) -> None:
    """Everything that is there in the end has a node; nothing was bound twice or too much; no Event
    is missing; the log is whole, and all its decisions come out again."""
    with Campaign(plane, database, namespace, seed=1) as campaign:
        campaign.kill(KILLS)
        campaign.kill_until_met(KILLS)
        outcome = campaign.settle()
    print(outcome)
    assert ROUND < KILLS < outcome.bound
    assert outcome.never == set()
