"""``eventsched extender`` killed, replaced and standing by, with kube-scheduler that asks it."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from eventsched.domain.records import BindIntended, BindVoided, PodBound
from tests.cluster.harness.asking import PROFILE, Extender, asking, grouped, section
from tests.cluster.harness.client import wait_for
from tests.cluster.harness.faults import Fault, Hold, Lose
from tests.cluster.harness.kube_proxy import KubeProxy
from tests.cluster.harness.manifests import node
from tests.cluster.harness.observer import Observer
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import Pods
from tests.cluster.harness.scheduler import Schedulers


class Stage:
    """An extender behind a proxy that binds for kube-scheduler; three nodes."""

    def __init__(
        self, plane: ControlPlane, database: str, namespace: str, running: ExitStack
    ) -> None:
        self.plane, self.pods = plane, Pods(plane.admin, namespace)
        for name in ("a0", "b0", "b1"):
            plane.admin.create(node(name, labels={"nodeGroup": name[0]}))
        self.proxy = running.enter_context(KubeProxy(plane))
        self.observer = running.enter_context(Observer(plane, namespace))
        # It ends before what it speaks through.
        schedulers = running.enter_context(Schedulers(plane, database))
        self.extender = Extender(schedulers, kubeconfig=self.proxy.kubeconfig())
        self.extender.process.start()
        entry = section(self.extender.url, nodeCacheCapable=True, bindVerb="bind")
        running.enter_context(asking(plane, entry))

    def binding(self, name: str, to: str) -> dict[str, str]:
        """A request to bind a pod."""
        uid = self.pods.get(name)["metadata"]["uid"]
        return {
            "PodName": name, "PodNamespace": self.pods.namespace, "PodUID": uid, "Node": to,
        }  # fmt: skip


@pytest.fixture
def stage(plane: ControlPlane, database: str, namespace: str) -> Iterator[Stage]:
    with ExitStack() as running:
        yield Stage(plane, database, namespace, running)


@pytest.mark.parametrize("fault", [Lose(), Hold()], ids=["never arrives", "arrives later"])
def test_killed_with_a_bind_under_way(stage: Stage, fault: Fault) -> None:
    """The intent is in the log, the answer was never sent. A caller that asks again gets the
    outcome of the same bind; there is only one."""
    first = stage.proxy.on("POST", "/binding$", fault, times=1)
    stage.pods.create(grouped("web", "b"))
    first.wait()
    process, extender = stage.extender.process, stage.extender
    process.kill()  # before it tries again
    [intended] = process.log().of(BindIntended)
    assert intended.node == "b1"
    again = stage.proxy.on("POST", "/binding$", Hold(), times=1)
    process.start()
    again.wait()  # the promise is kept without being asked again
    assert extender.ask("/bind", stage.binding("web", "b0")) == (
        200, {"Error": "the pod is being bound to b1"}
    )  # fmt: skip
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(extender.ask, "/bind", stage.binding("web", "b1"))
        again.release()
        assert answer.result(30) == (200, {"Error": ""})
    first.release()
    stage.pods.create(grouped("next", "b"))
    assert {name: stage.pods.node(name, 60.0) for name in ("web", "next")} == {
        "web": "b1", "next": "b1",
    }  # fmt: skip
    wait_for(lambda: len(process.log().of(PodBound)) == 2, "2 are bound")
    log = process.log()
    assert [each.node for each in log.of(PodBound)] == ["b1", "b1"]
    assert [each for each in log.of(BindIntended) if each.uid == intended.uid] == [intended]
    assert not log.of(BindVoided)
    assert not stage.observer.wrong


def test_a_standby_is_ready_and_answers_when_it_leads(
    plane: ControlPlane, schedulers: Schedulers, namespace: str
) -> None:
    plane.admin.create(node("b1", labels={"nodeGroup": "b"}))
    web = Pods(plane.admin, namespace).create(grouped("web", "b"))
    election = {"leaderElect": True, "resourceName": "audit", "resourceNamespace": namespace}
    config = {"profiles": [PROFILE], "leaderElection": {**election, "retryPeriod": "1s"}}
    leading, standing_by = Extender(schedulers, config=config), Extender(schedulers, config=config)
    leading.process.start()
    standing_by.process.server.start()
    standing_by.process.server.until(lambda: is_ready(standing_by), "ready", 60.0)
    question = {"Pod": web, "NodeNames": ["b1", "b2"]}
    status, said = standing_by.ask("/filter", question)
    assert status == 503
    assert re.fullmatch(
        "this replica: does not lead; .+ does; ask the one that does, or later", said.strip()
    ), said
    answer = leading.ask("/filter", question)
    assert (answer[0], answer[1]["NodeNames"]) == (200, ["b1"])
    assert leading.process.stop() == 0  # it gives its Lease back
    standing_by.process.leads()
    assert standing_by.ask("/filter", question) == answer


def is_ready(extender: Extender) -> bool:
    """Whether a probe would say so."""
    try:
        return extender.process.ask("/readyz")[0] == 200
    except OSError:
        return False
