"""Records 0.1's logs of a real control plane: tests for the harness of 0.1 (README.md here has the
commands). Nothing of the present code is used.

Each test exports its stream into the folder that EVENTSCHED_HISTORIES names.
"""

import asyncio
import os
from pathlib import Path
from typing import Any

from aiohttp import web

from eventsched.domain.records import (
    BindRetried,
    ExtenderAnswered,
    NodeAdded,
    PermitGranted,
    PodBound,
    PodDeleted,
    PodUnreserved,
    PreemptionDecided,
    PreparationIntended,
    WatchRelisted,
)
from tests.cluster.harness.asking import both, grouped
from tests.cluster.harness.client import MERGE, Object, wait_for
from tests.cluster.harness.extender_thread import running
from tests.cluster.harness.faults import Lose
from tests.cluster.harness.kube_proxy import KubeProxy
from tests.cluster.harness.manifests import (
    budget,
    claim,
    deployment,
    mounted,
    node,
    pod,
    priority_class,
    stateful_set,
    storage_class,
    taint,
    volume,
)
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import Pods, phase
from tests.cluster.harness.scheduler import Scheduler, Schedulers, run
from tests.extenders.server import Sample

ZONE = "topology.kubernetes.io/zone"
GANG = {
    "scheduling.x-k8s.io/pod-group": "gang",
    "pod-group.scheduling.sigs.k8s.io/min-available": "2",
}
FIRST = {"profiles": [{"schedulerName": "eventsched"}]}
SECOND = {
    "podMaxBackoffSeconds": 2,
    "profiles": [
        {
            "schedulerName": "eventsched",
            "plugins": {
                "multiPoint": {
                    "enabled": [{"name": "Coscheduling"}, {"name": "FirstScheduledNode"}],
                    "disabled": [{"name": "PrioritySort"}],
                },
                "score": {"enabled": [{"name": "NodeResourcesFit", "weight": 5}]},
            },
            "pluginConfig": [
                {"name": "Coscheduling", "args": {"permitWaitingTimeSeconds": 600}},
                {"name": "FirstScheduledNode", "args": {"key": "owner", "ttl": "168h"}},
            ],
        }
    ],
}


def exported(scheduler: Scheduler, name: str) -> None:
    """Writes a stream to the folder of histories."""
    where = Path(os.environ["EVENTSCHED_HISTORIES"], f"0.1-{name}.jsonl.gz")
    where.unlink(missing_ok=True)
    source = (f"--database={scheduler.database}", f"--stream={scheduler.stream}")
    run("log", "export", *source, str(where))


def test_live(controllers: ControlPlane, schedulers: Schedulers, namespace: str) -> None:
    """Two restarts (one by kill -9 with a bind under way), two changes of leader, two of the
    configuration, a gap in the watches."""
    live = Live(controllers, schedulers, namespace)
    with KubeProxy(controllers) as proxy:
        first = live.replica(FIRST, proxy.kubeconfig())
        first.start()
        live.volumes()
        live.workloads()
        live.preempts()
        live.nodes_change()
        proxy.go_down()
        controllers.admin.create(node("d", labels={ZONE: "z"}))
        live.pods.create(pod("unseen"))
        controllers.forget_history()
        proxy.come_back()
        first.wait_log(WatchRelisted, 90.0)
        live.pods.node("unseen", 60.0)
        lost = proxy.on("POST", "/binding$", Lose())
        live.pods.create(pod("bound-twice"))
        lost.wait()
        first.kill()
        lost.remove()
        first.start()
        live.pods.node("bound-twice", 60.0)
        first.wait_log(BindRetried)
        second = live.replica(FIRST)
        second.server.start()
        wait_for(lambda: second.ask("/readyz")[0] == 200, "the second one stands by", 60.0)
        assert first.stop() == 0
    second.leads(90.0)
    live.placed("after-the-change")
    assert second.stop() == 0
    third = live.replica(SECOND)
    third.start()
    live.gang(third)
    live.sticky()
    assert third.stop() == 0
    fourth = live.replica(FIRST)
    fourth.start()
    live.placed("last")
    live.settled(fourth)
    exported(fourth, "live")


class Live:
    """A small cluster with a bit of everything, and replicas that share a Lease."""

    def __init__(self, plane: ControlPlane, schedulers: Schedulers, namespace: str) -> None:
        self.admin, self.pods = plane.admin, Pods(plane.admin, namespace)
        self._schedulers, self._namespace = schedulers, namespace
        for name, zone in (("a", "x"), ("b", "x"), ("c", "y")):
            self.admin.create(node(name, labels={ZONE: zone}))
        self.admin.create(priority_class("urgent", 1000))

    def replica(self, config: Object, kubeconfig: Path | None = None) -> Scheduler:
        """One that is not started yet."""
        lease = {"resourceName": "eventsched", "resourceNamespace": self._namespace}
        times = {"leaseDuration": "12s", "renewDeadline": "10s", "retryPeriod": "1s"}
        election = {"leaderElect": True, **lease, **times}
        return self._schedulers.make(
            config={**config, "leaderElection": election}, kubeconfig=kubeconfig
        )

    def placed(self, name: str, **more: Any) -> None:
        """Creates a pod and waits until it is on a node."""
        self.pods.create(pod(name, **more))
        self.pods.node(name, 60.0)

    def volumes(self) -> None:
        """A stateful set whose claims are bound to local volumes."""
        self.admin.create(storage_class("local"))
        for name in "ab":
            self.admin.create(volume(f"disk-{name}", "local", node=name))
        made = stateful_set("db", 2, claims=[claim("data", "local")])
        self.pods.create(made)
        self.pods.wait_running(2)

    def workloads(self) -> None:
        """A deployment that spreads and is scaled down, and pods that do not fit."""
        spread = {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
        self.pods.create(deployment("web", 4, topologySpreadConstraints=[spread]))
        self.pods.wait_running(6)
        size = {"spec": {"replicas": 2}}
        self.admin.patch("Deployment", "web", size, self._namespace, subresource="scale")
        self.pods.wait_running(4)
        self.pods.create(pod("nowhere", nodeSelector={"disk": "tape"}))
        self.pods.create(pod("no-claim", volumes=mounted("missing")))
        self.pods.create(pod("gated", schedulingGates=[{"name": "example.com/quota"}]))
        for name in ("nowhere", "no-claim", "gated"):
            self.pods.wait_condition(name)

    def preempts(self) -> None:
        """An urgent pod takes the place of one that no budget guards."""
        self.pods.create(budget("guarded", {"app": "guarded"}, 1))
        for name, app in (("filler-a", "guarded"), ("filler-b", "free"), ("filler-c", "free")):
            where = {"kubernetes.io/hostname": name[-1]}
            self.placed(name, cpu="3", labels={"app": app}, nodeSelector=where)
            wait_for(lambda: phase(self.pods.get(name)) == "Running", f"{name} runs")  # noqa: B023
        wait_for(self._is_guarded, "the budget is counted")
        urgent = pod("urgent", cpu="3", priorityClassName="urgent")
        self.pods.create(urgent)
        self.pods.node("urgent", 60.0)

    def nodes_change(self) -> None:
        """A taint and a label come, a pod goes to where the label is, a node goes."""
        tainted = {"spec": {"taints": [taint("dedicated", "batch")]}}
        self.admin.patch("Node", "c", tainted, content_type=MERGE)
        labelled = {"metadata": {"labels": {"disk": "tape"}}}
        self.admin.patch("Node", "b", labelled, content_type=MERGE)
        self.pods.node("nowhere", 60.0)
        self.admin.create(node("e"))
        self.placed("short", nodeSelector={"kubernetes.io/hostname": "e"})
        self.pods.delete("short")
        self.admin.delete("Node", "e")
        open_gate = {"spec": {"schedulingGates": None}}
        self.admin.patch("Pod", "gated", open_gate, self._namespace, content_type=MERGE)
        self.pods.node("gated", 60.0)

    def gang(self, scheduler: Scheduler) -> None:
        """Two pods that go together. The first one waits while its scheduler is killed."""
        where = {"kubernetes.io/hostname": "d"}
        self.pods.create(pod("gang-0", cpu="2", labels=GANG, nodeSelector=where))
        wait_for(lambda: scheduler.log().decisions(self._uid("gang-0")), "gang-0 was tried")
        self.pods.create(pod("gang-1", cpu="3", labels=GANG, nodeSelector=where))
        scheduler.wait_log(PodUnreserved, 60.0)
        scheduler.kill()
        scheduler.start()
        grown = {"status": {each: {"cpu": "6"} for each in ("capacity", "allocatable")}}
        self.admin.patch("Node", "d", grown, subresource="status", content_type=MERGE)
        for name in ("gang-0", "gang-1"):
            self.pods.node(name, 90.0)
        scheduler.wait_log(PermitGranted, 60.0)

    def sticky(self) -> None:
        """The pods of a deployment go to the node of the first one."""
        self.pods.create(deployment("sticky", 1, cpu="50m"))
        [first] = self._wait_app("sticky", 1)
        size = {"spec": {"replicas": 2}}
        self.admin.patch("Deployment", "sticky", size, self._namespace, subresource="scale")
        found = self._wait_app("sticky", 2)
        assert {each["spec"]["nodeName"] for each in found} == {first["spec"]["nodeName"]}

    def settled(self, scheduler: Scheduler) -> None:
        """Waits until the log has all of that."""
        log = scheduler.log()
        for kind in (NodeAdded, PodBound, PodDeleted, PreemptionDecided, PreparationIntended):
            assert log.of(kind), kind
        last = self._uid("last")
        wait_for(
            lambda: last in {each.uid for each in scheduler.log().of(PodBound)}, "last is bound"
        )

    def _is_guarded(self) -> bool:
        found = self.admin.get("PodDisruptionBudget", "guarded", self._namespace)
        return bool(found.get("status", {}).get("currentHealthy"))

    def _wait_app(self, app: str, count: int) -> list[Object]:
        def run() -> list[Object] | None:
            found = [each for each in self.pods.all(app=app) if each["spec"].get("nodeName")]
            return found if len(found) == count else None

        return wait_for(run, f"{count} pods of {app} have nodes", 60.0)

    def _uid(self, name: str) -> str:
        return str(self.pods.get(name)["metadata"]["uid"])


class Binder(Sample):
    """The sample of tests/extenders, which creates the Binding."""

    def __init__(self, pods: Pods) -> None:
        super().__init__()
        self.pods = pods

    async def bind(self, request: web.Request) -> web.StreamResponse:
        """As it is asked; the pod ``unbindable`` is refused at first."""
        args = await self._read(request)
        if args["PodName"] == "unbindable" and not self.error:
            self.error = "not yet"
            return web.json_response({"Error": self.error})
        bound = {"metadata": {"name": args["PodName"], "namespace": args["PodNamespace"]}}
        await asyncio.to_thread(self.pods.client.bind, bound, args["Node"])
        return web.json_response({})


def test_extenders(plane: ControlPlane, schedulers: Schedulers, namespace: str) -> None:
    """One that filters, prioritizes, preempts and binds; one that takes names, and may fail, and
    has no such path; a restart between."""
    pods = Pods(plane.admin, namespace)
    plane.admin.create(priority_class("urgent", 1000))
    for name in ("a0", "a1", "a2", "b1"):
        plane.admin.create(node(name, labels={"extender": "no" if name == "a0" else "yes"}))
    with running(Binder(pods)) as url, running(Sample()) as other:
        verbs = {"filterVerb": "filter", "prioritizeVerb": "priority", "preemptVerb": "preempt"}
        extenders = [
            {"urlPrefix": f"{url}/scheduler", "weight": 50, "bindVerb": "bind", **verbs},
            {
                "urlPrefix": f"{other}/scheduler",
                "weight": 1,
                "prioritizeVerb": "missing",
                "filterVerb": "filter",
                "nodeCacheCapable": True,
                "ignorable": True,
                "managedResources": [{"name": "example.com/managed", "ignoredByScheduler": True}],
            },
        ]
        profiles = [{"schedulerName": "eventsched"}]
        scheduler = schedulers.start(config={"profiles": profiles, "extenders": extenders})
        for name in ("web-0", "web-1", "unbindable"):
            pods.create(pod(name))
            pods.node(name, 60.0)
        pods.create(pod("refused", nodeSelector={"kubernetes.io/hostname": "a0"}))
        pods.wait_condition("refused")
        managed = pod("managed")
        amounts = {"requests": {"example.com/managed": "1"}, "limits": {"example.com/managed": "1"}}
        managed["spec"]["containers"][0]["resources"] = amounts
        pods.create(managed)
        pods.node("managed", 60.0)
        scheduler.kill()
        scheduler.start()
        for name in ("a1", "a2", "b1"):
            where = {"kubernetes.io/hostname": name}
            pods.create(pod(f"filler-{name}", cpu="3500m", nodeSelector=where))
            pods.node(f"filler-{name}", 60.0)
        pods.create(pod("urgent", cpu="3", priorityClassName="urgent"))
        pods.node("urgent", 60.0)
        verbs_seen = {each.verb for each in scheduler.log().of(ExtenderAnswered)}
        assert verbs_seen == {"filter", "prioritize", "preempt"}
        bound = {each.uid for each in scheduler.log().of(PodBound)}
        uid = str(pods.get("urgent")["metadata"]["uid"])
        wait_for(lambda: uid in {each.uid for each in scheduler.log().of(PodBound)} | bound, "told")
        exported(scheduler, "extenders")


def test_extender_server(plane: ControlPlane, schedulers: Schedulers, namespace: str) -> None:
    """kube-scheduler asks 0.1 as its extender: it filters, scores, preempts and binds."""
    pods = Pods(plane.admin, namespace)
    plane.admin.create(priority_class("important", 1000))
    for name in ("a0", "b0", "b1", "b2"):
        plane.admin.create(node(name, "1", labels={"nodeGroup": name[0]}))
    fields = {"nodeCacheCapable": True, "preemptVerb": "preempt", "bindVerb": "bind"}
    with both(plane, schedulers, **fields) as extender:
        for name in ("one", "two", "three"):
            pods.create(grouped(name, "b", cpu="600m"))
            pods.node(name, 60.0)
        pods.create(grouped("nowhere", "c"))
        pods.wait_condition("nowhere")
        pods.create(grouped("important", "b", cpu="700m", priorityClassName="important"))
        pods.node("important", 90.0)
        wait_for(lambda: len(extender.log().of(PodBound)) >= 4, "four are bound", 60.0)
        exported(extender, "extender-server")
