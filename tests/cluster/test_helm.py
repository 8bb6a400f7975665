"""The chart, installed by Helm into a real API server: as a second scheduler with a plugin of the
values, run by hand with what the release has made."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import yaml

from tests.cluster.binaries import MissingProgramError
from tests.cluster.binaries import helm as find_helm
from tests.cluster.client import Object
from tests.cluster.manifests import node, pod
from tests.cluster.plane import ControlPlane
from tests.cluster.pods import Pods
from tests.cluster.scheduler import ROOT, Schedulers

NAME = "i-scheduler"
LABEL = "priority.lixueduan.com"
VALUES: Object = {"scheduler": {"name": NAME}, "plugins": {"enabled": ["Priority"]}}


@contextmanager
def released(plane: ControlPlane, namespace: str) -> Iterator[None]:
    """The release, for as long as the block runs."""
    where = ("--namespace", namespace, "--kubeconfig", str(plane.kubeconfig))
    helm(plane, "install", NAME, str(ROOT / "deploy" / "helm"), "--values=-", *where)
    try:
        yield
    finally:
        helm(plane, "uninstall", NAME, *where)


def helm(plane: ControlPlane, *arguments: str) -> None:
    """Runs it with the values as its input. Skips the test where there is no helm."""
    try:
        program = find_helm()
    except MissingProgramError as missing:
        pytest.skip(str(missing))
    home = {f"HELM_{name}_HOME": str(plane.folder / "helm") for name in ("CACHE", "CONFIG", "DATA")}
    subprocess.run(
        [program, *arguments], input=json.dumps(VALUES), text=True, check=True, timeout=60,
        capture_output=True, env={**os.environ, **home},
    )  # fmt: skip


def test_a_release_schedules(plane: ControlPlane, schedulers: Schedulers, namespace: str) -> None:
    """With its configuration, and the rights of its account."""
    pods = Pods(plane.admin, namespace)
    for name, importance in (("a", "10"), ("b", "20")):
        pods.client.create(node(name, labels={LABEL: importance}))
    pods.client.create(node("c"))
    with released(plane, namespace):
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
        assert pods.client.get("Lease", NAME, namespace)["spec"]["holderIdentity"]
        assert scheduler.stop() == 0
