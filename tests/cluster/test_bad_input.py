"""What is wrong in a cluster, or with the way to it, does not stop the scheduler, or ends it with a
clear word (test_run.py has the mistakes at its start that need nothing of a cluster)."""

import copy
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from eventsched.domain.records import NodeDeleted, PodAdded, PodDecided, PodDeleted
from tests.cluster.harness.certificates import Authority
from tests.cluster.harness.client import Client, Object, wait_for
from tests.cluster.harness.faults import Hold
from tests.cluster.harness.kube_proxy import KubeProxy
from tests.cluster.harness.manifests import node, pod
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import Pods, decision
from tests.cluster.harness.scheduler import Scheduler, Schedulers

RBAC = "rbac.authorization.k8s.io"
UNDECODABLE = "eventsched_undecodable_objects"


@pytest.fixture
def pods(plane: ControlPlane, namespace: str) -> Pods:
    """The pods of a namespace in a cluster of one node."""
    plane.admin.create(node("a"))
    return Pods(plane.admin, namespace)


def said(scheduler: Scheduler, text: str) -> list[Object]:
    """The lines of the scheduler's log with this text in them."""
    return [each for each in scheduler.lines() if text in json.dumps(each)]


# --- the way to the API server -------------------------------------------------------------------


def test_certificates_that_do_not_do_end_it(
    plane: ControlPlane, schedulers: Schedulers, tmp_path: Path
) -> None:
    """Ours is over; or the server's is not of the authority that we know."""
    mine = plane.certificate_kubeconfig("system:kube-scheduler", seconds=-60)
    (tmp_path / "others").mkdir()
    others = Authority(tmp_path / "others").certificate
    text = plane.kubeconfig.read_text().replace(str(plane.authority.certificate), str(others))
    (tmp_path / "theirs").write_text(text)
    words = {
        mine: r"does not know who we are: the client certificate expired at .*; log in again",
        tmp_path / "theirs": r"its certificate is not accepted: .*; check certificate-authority",
    }

    for kubeconfig, expected in words.items():
        scheduler = schedulers.make(kubeconfig=kubeconfig)
        scheduler.server.start()
        assert scheduler.server.wait(60.0) == 2
        last = scheduler.server.tail(1)
        assert re.match(f"eventsched run: API server {plane.url}: {expected}", last)


@contextmanager
def granted(admin: Client, name: str, rules: list[Object]) -> Iterator[None]:
    """A ClusterRole for the user ``nobody``."""
    user = {"kind": "User", "name": "nobody", "apiGroup": RBAC}
    role = {"kind": "ClusterRole", "name": name, "apiGroup": RBAC}
    kinds: dict[str, Object] = {
        "ClusterRole": {"rules": rules},
        "ClusterRoleBinding": {"roleRef": role, "subjects": [user]},
    }
    for kind, content in kinds.items():
        admin.create(
            {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": name}, **content}
        )
    try:
        yield
    finally:
        for kind in kinds:
            admin.delete(kind, name)


def test_a_verb_that_is_forbidden_is_named_until_it_is_granted(
    plane: ControlPlane, pods: Pods, schedulers: Schedulers
) -> None:
    """It reads all, says why, and may not bind."""
    kubeconfig = plane.write_kubeconfig("nobody", {"token": plane.token("nobody")})
    most = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["*"], "resources": ["pods/status", "events"], "verbs": ["create", "patch"]},
    ]
    rule = {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]}
    with granted(plane.admin, "reads", most):
        scheduler = schedulers.start(kubeconfig=kubeconfig)
        pods.create(pod("web"))
        wait_for(lambda: said(scheduler, "create pods/binding"), "the verb is named")
        (line, *_) = said(scheduler, "create pods/binding")
        assert line["level"] in ("warning", "error")
        shown = '{apiGroups: [""], resources: ["pods/binding"], verbs: ["create"]}'
        assert shown in json.dumps(line).replace('\\"', '"')
        assert pods.nodes() == {"web": ""}
        status, text = scheduler.ask("/readyz")
        assert (status, "[-]rights failed: may not create pods/binding" in text) == (500, True)
        assert f"add the rule {shown}" in text
        with granted(plane.admin, "binds", [rule]):
            assert pods.node("web", 90.0) == "a"
            wait_for(lambda: scheduler.ask("/readyz")[0] == 200, "it is ready")
        assert scheduler.stop() == 0


# --- what is deleted meanwhile --------------------------------------------------------------------


def test_the_namespace_of_a_pending_pod_is_deleted(
    controllers: ControlPlane, pods: Pods, schedulers: Schedulers
) -> None:
    """The pods are forgotten; others are scheduled."""
    scheduler = schedulers.start()
    with controllers.namespace() as doomed:
        there = Pods(controllers.admin, doomed)
        gone = [there.create(pod("waits", cpu="100")), there.create(pod("runs"))]
        there.wait_event("waits", "FailedScheduling")
        there.node("runs")
        controllers.admin.delete("Namespace", doomed)
        wait_for(lambda: not controllers.admin.find("Namespace", doomed), "it is gone", 180.0)

    pods.create(pod("after"))
    assert pods.node("after") == "a"
    uids = {each["metadata"]["uid"] for each in gone}
    wait_for(
        lambda: uids <= {each.uid for each in scheduler.log().of(PodDeleted)}, "they are forgotten"
    )
    assert scheduler.metric("scheduler_pending_pods") == 0


def test_a_node_is_deleted_between_decision_and_bind(
    plane: ControlPlane, pods: Pods, schedulers: Schedulers
) -> None:
    """The API server binds to a node that is not there; so the pod is as the decision says, and
    others go elsewhere."""
    with KubeProxy(plane) as proxy:
        patient = {"client": {"timeout": "60s"}}  # with the bind, until the node's end is known
        scheduler = schedulers.start(kubeconfig=proxy.kubeconfig(), settings=patient)
        held = proxy.on("POST", "/binding", Hold())
        pods.create(pod("web", cpu="3"))
        held.wait()
        plane.admin.delete("Node", "a")
        plane.admin.create(node("b"))
        scheduler.wait_log(NodeDeleted)
        held.release()
        assert pods.node("web") == "a"
        pods.create(pod("after", cpu="3"))
        assert pods.node("after") == "b"
        assert scheduler.stop() == 0
    assert decision(pods.get("web")).startswith("scheduler/")


def test_a_pod_is_deleted_between_decision_and_bind(
    plane: ControlPlane, pods: Pods, schedulers: Schedulers
) -> None:
    """And recreated under its name: that is another pod."""
    with KubeProxy(plane) as proxy:
        scheduler = schedulers.start(kubeconfig=proxy.kubeconfig())
        held = proxy.on("POST", "/binding", Hold(), times=1)
        old = pods.create(pod("web", cpu="3"))
        held.wait()
        pods.delete("web")
        new = pods.create(pod("web", cpu="2"))
        held.release()
        assert pods.node("web") == "a"
        assert scheduler.stop() == 0
    log = scheduler.log()
    assert [each.node for each in log.decisions(old["metadata"]["uid"])] == ["a"]
    assert [each.node for each in log.decisions(new["metadata"]["uid"]) if each.node] == ["a"]


# --- objects that cannot be read -----------------------------------------------------------------


def stored(plane: ControlPlane, made: Object, name: str, **spec: object) -> None:
    """Stores a copy of a pod as a server of another version might have done, past all checks."""
    found = copy.deepcopy(made)
    found["metadata"].update(name=name, uid=made["metadata"]["uid"][:-4] + "ffff")
    del found["metadata"]["resourceVersion"]
    found["spec"].update(spec)
    where = f"/registry/pods/{made['metadata']['namespace']}/{name}"
    plane.store(where, json.dumps(found).encode())


def test_an_object_that_cannot_be_read_is_passed_over(
    plane: ControlPlane, pods: Pods, schedulers: Schedulers
) -> None:
    """Whether it is there at the start, or comes later; it is said, counted, and forgotten when it
    goes."""
    good = pods.create(pod("good"))
    stored(plane, good, "bad", tolerations=[{"key": "a", "effect": "Sometimes"}])
    scheduler = schedulers.start()
    assert pods.node("good") == "a"
    assert scheduler.metric(UNDECODABLE, resource="Pod") == 1
    (line,) = said(scheduler, "'Sometimes', which is not known")
    assert f"{pods.namespace}/bad" in json.dumps(line)
    (shown,) = json.loads(scheduler.ask("/debug/undecodable")[1])
    assert (shown["resource"], shown["name"]) == ("Pod", f"{pods.namespace}/bad")
    assert (shown["reason"] in line.values(), shown["kept"]) == (True, False)

    pods.client.delete("Pod", "bad", pods.namespace, grace=0)
    wait_for(lambda: not scheduler.metric(UNDECODABLE), "it is forgotten")
    pods.create(pod("next"))
    assert pods.node("next") == "a"
    log = scheduler.log()
    known = {f"{pods.namespace}/good", f"{pods.namespace}/next"}
    assert set(log.names.values()) == known
    assert {log.names[each.uid] for each in log.of(PodDecided)} == known
    assert len(log.of(PodAdded)) <= 2
