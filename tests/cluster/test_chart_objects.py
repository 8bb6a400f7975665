"""A real API server takes every object that the chart can make: with the values of each overlay,
and with everything enabled."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import yaml

from tests.cluster.harness.client import Object, wait_for
from tests.cluster.harness.deployed import applied
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.scheduler import ROOT
from tests.deploy.chart import CHART, made_of
from tests.deploy.rendering import NAMESPACES

CRD = "apiextensions.k8s.io/v1/CustomResourceDefinition"
DEFINITIONS = ROOT / "tests" / "cluster" / "harness" / "definitions"
OTHERS = ("cnpg-cluster", "prometheusrule", "servicemonitor")
EVERYTHING: dict[str, Any] = {
    "scheduler": {
        "imagePullPolicy": "Always",
        "imagePullSecrets": [{"name": "registry"}],
        "replicaCount": 3,
        "nodeSelector": {"disk": "fast"},
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 1,
                        "podAffinityTerm": {
                            "topologyKey": "zone",
                            "labelSelector": {"matchLabels": {"app": "x"}},
                        },
                    }
                ]
            }
        },
        "tolerations": [{"operator": "Exists"}],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
        ],
        "strategy": {"rollingUpdate": {"maxSurge": 1}},
        "terminationGracePeriodSeconds": 60,
        "podLabels": {"team": "a"},
        "podAnnotations": {"example.com/owner": "b"},
        "extraEnv": [{"name": "A", "value": "b"}],
        "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ca"}],
    },
    "plugins": {"enabled": ["CapacityScheduling", "NodeResourceTopologyMatch"]},
    "settings": {"detail": "digest", "retention": {"detail": "168h"}},
    "database": {
        "cloudNativePG": {
            "enabled": True,
            "storageClass": "fast",
            "imageName": "ghcr.io/cloudnative-pg/postgresql:18",
            "spec": {"resources": {"requests": {"cpu": "1"}}},
        }
    },
    "archive": {
        "enabled": True,
        "existingClaim": "log-archive",
        "nodeSelector": {"disk": "big"},
        "tolerations": [{"operator": "Exists"}],
        "extraEnv": [{"name": "A", "value": "b"}],
        "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ca"}],
    },
    "serviceAccount": {"annotations": {"a": "b"}},
    "rbac": {"role": "own"},
    "monitoring": {
        "serviceMonitor": True,
        "prometheusRule": True,
        "dashboard": True,
        "interval": "30s",
        "labels": {"release": "prometheus"},
    },
}


@pytest.fixture
def definitions(plane: ControlPlane) -> Iterator[None]:
    """The kinds of the two operators."""
    made = [yaml.safe_load((DEFINITIONS / f"{name}.yaml").read_text()) for name in OTHERS]
    for definition in made:
        plane.admin.create(definition)
    try:
        for definition in made:
            spec = definition["spec"]
            kind = f"{spec['group']}/v1/{spec['names']['kind']}"
            wait_for(partial(is_served, plane, kind), f"{kind} is served")
        yield
    finally:
        for definition in made:
            plane.admin.delete(CRD, definition["metadata"]["name"])


def is_served(plane: ControlPlane, kind: str) -> bool:
    return plane.admin.list(kind) == []


def taken(plane: ControlPlane, objects: list[Object], namespace: str) -> None:
    """Each is taken, without a warning, in a namespace that only allows restricted pods."""
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    plane.admin.patch("Namespace", namespace, {"metadata": {"labels": label}})
    for each in objects:
        assert "warning" not in applied(plane, each, dryRun="All").headers
    (deployment,) = [each for each in objects if each["kind"] == "Deployment"]
    template = deployment["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    pod["metadata"] = {"name": "x", **template["metadata"]}
    path = plane.admin.path("Pod", None, namespace)
    answer = plane.admin.call("POST", path, pod, dryRun="All", fieldValidation="Strict")
    assert (answer.status, answer.message) == (201, "")


def made(namespace: str, *more: str, given: object = None) -> list[Object]:
    """The objects of a release with these values, the Pod of its test included."""
    objects = made_of(CHART, "eventsched", given or {}, *more, namespace=namespace)
    test = made_of(
        CHART, "eventsched", given or {}, "--show-only=templates/tests/readiness.yaml", *more,
        namespace=namespace, hooks=True,
    )  # fmt: skip
    return objects + test


@pytest.mark.parametrize("overlay", NAMESPACES)
def test_the_values_of_an_overlay(plane: ControlPlane, namespace: str, overlay: str) -> None:
    taken(plane, made(namespace, f"--values={CHART / 'overlays' / overlay}.yaml"), namespace)


@pytest.mark.usefixtures("definitions")
def test_everything_at_once(plane: ControlPlane, namespace: str) -> None:
    """With the types of the operators' own definitions; fields that they lack are refused."""
    objects = made(namespace, given=EVERYTHING)
    kinds = {each["kind"] for each in objects}
    assert {"Cluster", "ServiceMonitor", "PrometheusRule"} < kinds
    taken(plane, objects, namespace)
