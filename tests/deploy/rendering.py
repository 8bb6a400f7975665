"""The manifests in ``deploy/`` as kustomize renders them."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

Object = dict[str, Any]

DEPLOY = Path(__file__).parents[2] / "deploy"
NAMESPACES = {
    "trial": "eventsched",
    "external-postgres": "eventsched",
    "replicas": "eventsched",
    "second-scheduler": "kube-system",
    "extender": "eventsched",
}
"""The overlays, and where they go."""
CLUSTER_WIDE = {"Namespace", "ClusterRole", "ClusterRoleBinding"}


@cache
def rendered(overlay: str) -> list[Object]:
    """An overlay's objects, in the order in which they are applied; see ``built``."""
    return built(DEPLOY / "overlays" / overlay)


def with_components(
    overlay: str, components: Sequence[str], folder: Path, more: Sequence[Object] = ()
) -> list[Object]:
    """The objects of an overlay with more components and objects; ``folder`` is an empty one to
    work in."""
    for number, manifest in enumerate(more):
        (folder / f"{number}.yaml").write_text(yaml.safe_dump(manifest))
    place = DEPLOY / "overlays" / overlay
    return _combined(place, NAMESPACES[overlay], components, folder, len(more))


def base_with(components: Sequence[str], folder: Path) -> list[Object]:
    """The objects of the base, which is for overlays of one's own, with components."""
    return _combined(DEPLOY / "base", "eventsched", components, folder)


def _combined(
    resource: Path, namespace: str, components: Sequence[str], folder: Path, more: int = 0
) -> list[Object]:
    content = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": namespace,
        "resources": [_towards(resource, folder), *(f"{number}.yaml" for number in range(more))],
        "components": [_towards(DEPLOY / "components" / each, folder) for each in components],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(content))
    return built(folder)


def _towards(target: Path, folder: Path) -> str:
    return os.path.relpath(target.resolve(), folder.resolve())


def built(folder: Path) -> list[Object]:
    """What ``kubectl kustomize`` makes of a folder. Skips the test without kubectl, and
    fails it in CI (the variable that GitHub, GitLab and others set): it would be green for nothing.
    """
    if shutil.which("kubectl") is None:
        said = "no kubectl in PATH: nothing renders what is in deploy/"
        if os.environ.get("CI"):
            pytest.fail(said)
        pytest.skip(said)
    done = subprocess.run(
        ["kubectl", "kustomize", folder], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return list(yaml.safe_load_all(done.stdout))


def of_kind(objects: Sequence[Object], kind: str) -> list[Object]:
    """Those of a kind."""
    return [each for each in objects if each["kind"] == kind]


def the(objects: Sequence[Object], kind: str) -> Object:
    """The only one of a kind."""
    (found,) = of_kind(objects, kind)
    return found


def pod_spec(objects: Sequence[Object]) -> Object:
    """Of the Deployment's pods."""
    spec: Object = the(objects, "Deployment")["spec"]["template"]["spec"]
    return spec


def configuration(objects: Sequence[Object]) -> str:
    """The text of the configuration file."""
    text: str = the(objects, "ConfigMap")["data"]["eventsched.yaml"]
    return text


def example_secret() -> Object:
    """The Secret that people fill in."""
    found: Object = yaml.safe_load(
        (DEPLOY / "components" / "postgres" / "secret.example.yaml").read_text()
    )
    return found
