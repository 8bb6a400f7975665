"""The chart, installed by Helm into a real API server as a second scheduler with plugins of the
values. The scheduler is started by the test with the release's objects. Also upgrades and
uninstalls."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.cluster.harness.binaries import MissingProgramError
from tests.cluster.harness.binaries import helm as find_helm
from tests.cluster.harness.client import Client, Object
from tests.cluster.harness.manifests import node, pod
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import Pods
from tests.cluster.harness.scheduler import Schedulers
from tests.deploy.chart import CHART, DOCUMENT, chart_of_0_1, helm

NAME = "i-scheduler"
LABEL = "priority.lixueduan.com"
VALUES: Object = {"scheduler": {"name": NAME}, "plugins": {"enabled": ["Priority"]}}
OTHERS_IMAGE = "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.35.7"
KINDS = (
    "ConfigMap", "Service", "ServiceAccount", "apps/v1/Deployment", "policy/v1/PodDisruptionBudget",
    "networking.k8s.io/v1/NetworkPolicy", *(
        f"rbac.authorization.k8s.io/v1/{each}"
        for each in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    ),
)  # fmt: skip

Helm = Callable[..., str]


@pytest.fixture
def on_plane(plane: ControlPlane, namespace: str) -> Helm:
    """Runs helm in the namespace, with values."""
    try:
        program = find_helm()
    except MissingProgramError as missing:
        pytest.skip(str(missing))
    where = (f"--namespace={namespace}", f"--kubeconfig={plane.kubeconfig}")

    def run(*arguments: str, given: object = None) -> str:
        return helm(program, *arguments, *where, given=given or {})

    return run


@contextmanager
def released(on_plane: Helm, given: Object, chart: Path = CHART) -> Iterator[str]:
    """Installs the release for the duration of the block; yields the notes that Helm prints."""
    notes = on_plane("install", NAME, str(chart), "--values=-", given=given)
    try:
        yield notes
    finally:
        on_plane("uninstall", NAME)


def of_release(client: Client) -> dict[str, list[str]]:
    """The names of the release's objects by kind."""
    selector = f"app.kubernetes.io/instance={NAME}"
    by_kind = {kind: client.list(kind, labelSelector=selector) for kind in KINDS}
    return {
        kind.rpartition("/")[2]: sorted(obj["metadata"]["name"] for obj in objects)
        for kind, objects in by_kind.items() if objects
    }  # fmt: skip


@pytest.mark.parametrize("given", [VALUES, DOCUMENT], ids=["own", "scheduler-plugins"])
def test_a_release_schedules(
    plane: ControlPlane, schedulers: Schedulers, namespace: str, on_plane: Helm, given: Object
) -> None:
    """With its configuration, and the rights of its account."""
    pods = Pods(plane.admin, namespace)
    for name, importance in (("a", "10"), ("b", "20")):
        pods.client.create(node(name, labels={LABEL: importance}))
    pods.client.create(node("c"))
    with released(on_plane, given):
        text = pods.client.get("ConfigMap", f"{NAME}-config", namespace)["data"]["eventsched.yaml"]
        kube, own = yaml.safe_load_all(text)
        token = plane.service_account_token(namespace, NAME)
        scheduler = schedulers.start(
            config=kube,
            settings={"stream": own["stream"]},
            kubeconfig=plane.write_kubeconfig("release", {"token": token}),
        )
        pods.create(pod("web", scheduler=NAME))
        assert pods.node("web") == "b"
        if kube["leaderElection"]["leaderElect"]:
            assert pods.client.get("Lease", NAME, namespace)["spec"]["holderIdentity"]
        assert scheduler.stop() == 0


def test_a_release_is_upgraded_and_goes_without_a_trace(
    plane: ControlPlane, namespace: str, on_plane: Helm, tmp_path: Path
) -> None:
    """From the values of 0.1, and to those of another chart with its own image, whose meaningless
    ones are named."""

    def pods() -> Object:
        """The Deployment's template of them."""
        found: Object = plane.admin.get("apps/v1/Deployment", NAME, namespace)["spec"]["template"]
        return found

    with released(on_plane, VALUES, chart_of_0_1(tmp_path)) as said:
        assert f"Pods with schedulerName {NAME} are scheduled by {NAME} in {namespace}." in said
        assert "WARNING" not in said
        old = pods()
        on_plane("upgrade", NAME, str(CHART), "--reuse-values")
        assert pods() == old
        assert old["spec"]["priorityClassName"] == "system-cluster-critical"

        theirs = {**DOCUMENT, "scheduler": {**DOCUMENT["scheduler"], "image": OTHERS_IMAGE}}
        said = on_plane("upgrade", NAME, str(CHART), "--reset-values", "--values=-", given=theirs)
        warnings = [each.split()[0] for each in said.split("WARNING: ")[1:]]
        assert warnings == [
            "these", "there", "DefaultPreemption", "scheduler.image", "CapacityScheduling",
            "NodeResourceTopologyMatch",
        ]  # fmt: skip
        new = pods()
        assert new["spec"]["containers"][0]["image"] == OTHERS_IMAGE
        assert not new["spec"].get("priorityClassName")
        assert new["metadata"]["annotations"] != old["metadata"]["annotations"]
        assert of_release(plane.admin)["ClusterRole"] == [f"{NAME}-scheduler-plugins"]
        on_plane("upgrade", NAME, str(CHART), "--reset-values", "--values=-", given=VALUES)
        assert "ClusterRole" not in of_release(plane.admin)
        assert len(of_release(plane.admin)) == len(KINDS) - 1
    assert of_release(plane.admin) == {}


def test_a_release_is_rolled_back(plane: ControlPlane, namespace: str, on_plane: Helm) -> None:
    """After an upgrade that changes pods, configuration and rights, each is as it was before; also
    after an upgrade whose objects the API server refuses."""

    def objects() -> Object:
        """What an upgrade changes, without what the API server writes."""
        found = plane.admin.get("apps/v1/Deployment", NAME, namespace)["spec"]
        text = plane.admin.get("ConfigMap", f"{NAME}-config", namespace)["data"]
        return {"deployment": found, "configuration": text, "kinds": of_release(plane.admin)}

    with released(on_plane, VALUES):
        before = objects()
        more = {
            **VALUES,
            "scheduler": {"name": NAME, "replicaCount": 2, "podLabels": {"team": "a"}},
            "settings": {"detail": "digest"},
            "rbac": {"role": "own"},
        }
        on_plane("upgrade", NAME, str(CHART), "--reset-values", "--values=-", given=more)
        after = objects()
        assert (before["deployment"]["replicas"], after["deployment"]["replicas"]) == (1, 2)
        assert after["kinds"]["ClusterRole"] == [NAME]
        on_plane("rollback", NAME, "1")
        assert objects() == before
        wrong = {"scheduler": {"name": NAME, "tolerations": [{"operator": "Perhaps"}]}}
        with pytest.raises(AssertionError, match="Unsupported value"):
            on_plane("upgrade", NAME, str(CHART), "--reset-values", "--values=-", given=wrong)
        on_plane("rollback", NAME, "3")
        assert objects() == before
