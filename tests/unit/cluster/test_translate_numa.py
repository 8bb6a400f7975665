"""NodeResourceTopologies become the registry's, and pods are known to be Guaranteed. The cases of
the latter are those of kubernetes, pkg/apis/core/v1/helper/qos/qos_test.go."""

from typing import Any

import pytest

from eventsched.cluster.translate import cluster_objects, manifest
from eventsched.domain.errors import InputError
from eventsched.domain.objects.registry import NodeResourceTopology, NumaZone

FULL = {"cpu": "100m", "memory": "100Mi"}


def read(**given: Any) -> Any:
    """The object n1 with such fields."""
    obj = {"metadata": {"name": "n1"}, **given}
    return cluster_objects.read("NodeResourceTopology", obj, "f.yaml: it", defaults=False)


def test_a_whole_object() -> None:
    """What decisions need of it; zones by their numbers."""
    zones = [
        {
            "name": "node-1", "type": "Node",
            "costs": [{"name": "node-1", "value": 10}, {"name": "node-0", "value": 2**40}],
            "resources": [
                {"name": "cpu", "capacity": "4", "allocatable": "4", "available": "1500m"},
                {"name": "memory", "available": "1Gi"}, {"name": "vendor/nic1"},
            ],
        },
        {"name": "node-0", "type": "Node"}, {"name": "node-0", "type": "Node", "costs": []},
        {"name": "node-2", "type": "Core"}, {"name": "cell-3", "type": "Node"},
        {"name": "node-64", "type": "Node"}, {"name": "node--1", "type": "Node"},
    ]  # fmt: skip
    attributes = {
        "topologyManagerPolicy": "restricted", "topologyManagerScope": "pod",
        "topologyManagerMaxNUMANodes": "2000", "nodeTopologyPodsFingerprint": "pfp0v0011",
        "nodeTopologyPodsFingerprintMethod": "with-exclusive-resources", "other": "x",
    }  # fmt: skip
    found = read(
        topologyPolicies=["SingleNUMANodeContainerLevel"],
        attributes=[{"name": name, "value": value} for name, value in attributes.items()],
        zones=zones,
    )
    assert found == NodeResourceTopology(
        name="n1",
        policy="restricted",
        scope="pod",
        most_zones=1024,
        zones=(
            NumaZone(number=0),
            NumaZone(
                number=1,
                available={"cpu": 1500, "memory": 2**30, "vendor/nic1": 0},
                costs=((0, 2**31), (1, 10)),
            ),
        ),
        fingerprint="pfp0v0011",
        only_exclusive=True,
    )


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        (["SingleNUMANodePodLevel"], ("single-numa-node", "pod")),
        (["SingleNUMANodeContainerLevel", "BestEffort"], ("single-numa-node", "container")),
        (["RestrictedPodLevel"], ("restricted", "pod")),
        (["BestEffortContainerLevel"], ("best-effort", "container")),
        (["None", "SingleNUMANodePodLevel"], ("none", "container")),
        ([], ("none", "container")),
    ],
)
def test_deprecated_policies(policies: list[str], expected: tuple[str, str]) -> None:
    """The first of them counts."""
    found = read(topologyPolicies=policies)
    assert (found.policy, found.scope) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [("4", 4), ("1", 8), ("0", 8), ("-4", 8), ("many", 8), ("1024", 1024)]
)
def test_how_many_zones_are_combined(value: str, expected: int) -> None:
    """At least 2; any other value is ignored."""
    found = read(attributes=[{"name": "topologyManagerMaxNUMANodes", "value": value}])
    assert found.most_zones == expected


def test_a_fingerprint_in_an_annotation() -> None:
    """It covers all pods, whatever the method."""
    metadata = {"name": "n1", "annotations": {"topology.node.k8s.io/fingerprint": "pfp0v0012"}}
    method = {"name": "nodeTopologyPodsFingerprintMethod", "value": "with-exclusive-resources"}
    found = read(metadata=metadata, attributes=[method])
    assert (found.fingerprint, found.only_exclusive) == ("pfp0v0012", False)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"zones": {}}, "f.yaml: it: zones: is not a list"),
        (
            {"zones": [{"name": "node-0", "type": "Node", "resources": [{"name": "cpu",
             "available": "x"}]}]},
            "f.yaml: it: zones[0].resources[0].available: ",
        ),
        ({"attributes": [{"name": "topologyManagerScope", "value": 5}]}, "attributes[0].value"),
    ],
)  # fmt: skip
def test_malformed_objects(given: Any, told: str) -> None:
    """File and field."""
    with pytest.raises(InputError) as refused:
        read(**given)
    assert told in str(refused.value)


def part(requests: Any = None, limits: Any = None) -> dict[str, Any]:
    """A container."""
    return {"name": "c", "resources": {"requests": requests or {}, "limits": limits or {}}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [part(FULL, FULL)]}, True),
        ({"containers": [part(FULL, FULL), part(FULL, FULL)]}, True),
        ({"containers": [part(FULL | {"nvidia.com/gpu": "2"}, FULL)]}, True),
        ({"containers": [part()]}, False),
        ({"containers": [part({"nvidia.com/gpu": "2"}, {"nvidia.com/gpu": "2"})]}, False),
        ({"containers": [part(FULL)]}, False),
        ({"containers": [part(FULL, {"cpu": "100m"})]}, False),
        ({"containers": [part(FULL, {"cpu": "200m", "memory": "100Mi"})]}, False),
        ({"containers": [part(FULL, FULL), part()]}, False),
        ({"containers": [part(FULL, FULL)], "initContainers": [part()]}, False),
        ({"containers": [part(FULL, FULL)], "initContainers": [part(FULL, FULL)]}, True),
        ({"containers": [part({"cpu": "0", "memory": "0"}, {"cpu": "0", "memory": "0"})]}, False),
        ({"containers": [part({"cpu": "0.1", "memory": "104857600"}, FULL)]}, True),
        ({"containers": [part()], "resources": {"requests": FULL, "limits": FULL}}, True),
        ({"containers": [part(FULL, FULL)], "resources": {"requests": FULL}}, False),
    ],
)
@pytest.mark.parametrize("defaults", [True, False])
def test_which_pods_are_guaranteed(spec: Any, *, expected: bool, defaults: bool) -> None:
    """From an API server, which has filled in what is missing, and from files."""
    obj = {"metadata": {"name": "p"}, "spec": spec}
    assert manifest.pod(obj, "f.yaml: it", defaults=defaults).spec.guaranteed is expected


def test_limits_alone() -> None:
    """An API server would fill in the requests."""
    obj = {"metadata": {"name": "p"}, "spec": {"containers": [part(None, FULL)]}}
    assert manifest.pod(obj, "f.yaml: it", defaults=True).spec.guaranteed
    assert not manifest.pod(obj, "f.yaml: it", defaults=False).spec.guaranteed
