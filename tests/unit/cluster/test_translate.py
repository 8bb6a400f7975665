"""API objects become the domain's nodes and pods, and bad ones errors that say where."""

import copy
import uuid
from typing import Any

import pytest

from eventsched.cluster.translate import manifest
from eventsched.cluster.translate import metadata as translate_metadata
from eventsched.domain.errors import InputError
from eventsched.domain.objects import (
    Container,
    HostPort,
    Image,
    NodeSelectorTerm,
    Owner,
    PodSpec,
    PreferredTerm,
    Requirement,
    Taint,
    Toleration,
)

WHERE = "pods.yaml: Pod default/a"
MIB = 1024 * 1024


def made(spec: dict[str, Any], *, defaults: bool = True, **metadata: Any) -> Any:
    obj = {"kind": "Pod", "metadata": {"name": "a"} | metadata, "spec": spec}
    return manifest.pod(obj, WHERE, defaults=defaults)


def spec_of(spec: dict[str, Any], *, defaults: bool = True) -> PodSpec:
    found = made(spec, defaults=defaults).spec
    assert isinstance(found, PodSpec)
    return found


def test_node_keeps_what_scheduling_reads() -> None:
    node = manifest.node(
        {
            "metadata": {
                "name": "n1",
                "uid": "u1",
                "labels": {"zone": "a"},
                "annotations": {"kept": "yes", "node.alpha.kubernetes.io/ttl": "0"},
            },
            "spec": {
                "podCIDR": "10.0.0.0/24",
                "unschedulable": True,
                "taints": [{"key": "k", "effect": "NoSchedule", "timeAdded": "x"}],
            },
            "status": {
                "allocatable": {"cpu": "1500m", "memory": "2Gi", "pods": "110", "x.io/gpu": 4},
                "capacity": {"cpu": "99"},
                "images": [{"names": ["app:v1", "app@sha256:1"], "sizeBytes": 5}],
                "declaredFeatures": ["B", "A", "B"],
            },
        },
        "nodes.yaml: Node n1",
    )
    assert (node.name, node.uid, node.unschedulable) == ("n1", "u1", True)
    assert node.labels == {"zone": "a"}
    assert node.annotations == {"kept": "yes"}
    assert node.taints == (Taint(key="k", effect="NoSchedule"),)
    assert node.allocatable == {"cpu": 1500, "memory": 2048 * MIB, "pods": 110, "x.io/gpu": 4}
    assert node.images == (Image(names=("app:v1", "app@sha256:1"), size=5),)
    assert node.declared_features == ("A", "B")


def test_node_without_allocatable_takes_capacity_and_adds_nothing() -> None:
    obj = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": 2}}}
    assert manifest.node(obj, "f: Node n").allocatable == {"cpu": 2000}
    assert manifest.node({"metadata": {"name": "n"}}, "f: Node n").allocatable == {}


def test_pod_metadata_and_scheduling_fields() -> None:
    pod = made(
        {
            "priority": 7,
            "schedulerName": "mine",
            "nodeName": "n1",
            "schedulingGates": [{"name": "g1"}, {"name": "g2"}],
        },
        namespace="team",
        uid="not-a-uuid",
        labels={"app": "x"},
        annotations={"kubectl.kubernetes.io/last-applied-configuration": "{}", "b": "c"},
        creationTimestamp="1970-01-01T00:00:01.5Z",
        deletionTimestamp="2026-01-01T00:00:00Z",
        ownerReferences=[
            {"kind": "Job", "name": "other", "uid": "1"},
            {"kind": "ReplicaSet", "name": "rs", "uid": "2", "controller": True},
        ],
    )
    assert (pod.uid, pod.full_name) == (manifest.pod_uid("team", "a"), "team/a")
    assert (pod.priority, pod.scheduler_name, pod.node_name) == (7, "mine", "n1")
    assert pod.gates == ("g1", "g2")
    assert pod.annotations == {"b": "c"}
    assert pod.owner == Owner(kind="ReplicaSet", name="rs", uid="2")
    assert pod.deleting
    assert pod.created_at == 1_500_000


def test_pod_with_nothing_but_a_name() -> None:
    pod = manifest.pod({"metadata": {"name": "a"}}, WHERE, defaults=True)
    assert pod.uid == manifest.pod_uid("default", "a")
    assert pod.full_name == "default/a"
    assert pod.scheduler_name == "default-scheduler"
    assert (pod.owner, pod.created_at, pod.deleting, pod.priority) == (None, 0, False, 0)
    assert pod.spec == PodSpec()


def test_pod_uid_is_a_version_5_uuid_of_namespace_and_name() -> None:
    expected = uuid.uuid5(translate_metadata._PODS_WITHOUT_UID, "default/a")
    assert manifest.pod_uid("default", "a") == str(expected)
    assert manifest.pod_uid("default", "b") != str(expected)


def test_times_with_an_offset_are_in_utc() -> None:
    assert made({}, creationTimestamp="1970-01-01T01:00:00+01:00").created_at == 0


def test_requests_take_the_limits_only_with_defaults() -> None:
    spec = {
        "containers": [
            {"resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": 1, "memory": "1Mi"}}}
        ],
        "initContainers": [
            {"restartPolicy": "Always", "resources": {"limits": {"x.io/gpu": "2"}}},
            {"restartPolicy": "Never"},
        ],
    }
    admitted, as_is = spec_of(spec), spec_of(spec, defaults=False)
    assert admitted.containers[0].requests == {"cpu": 100, "memory": MIB}
    assert admitted.init_containers == (
        Container(requests={"x.io/gpu": 2}, restarts=True),
        Container(),
    )
    assert as_is.containers[0].requests == {"cpu": 100}
    assert as_is.init_containers[0].requests == {}


def test_restart_policy_makes_a_sidecar_of_init_containers_alone() -> None:
    assert not spec_of({"containers": [{"restartPolicy": "Always"}]}).containers[0].restarts


@pytest.mark.parametrize(
    ("resources", "containers", "expected"),
    [
        ({}, [], None),
        ({"requests": {}}, [], None),
        ({"requests": {"cpu": "1"}}, [], {"cpu": 1000}),
        ({"limits": {"cpu": "2"}}, [], {"cpu": 2000}),
        ({"limits": {"x.io/gpu": "2"}}, [], None),
        (
            {"limits": {"memory": "8"}},
            [{"resources": {"requests": {"cpu": "1"}}}, {"resources": {"requests": {"cpu": "2"}}}],
            {"cpu": 3000, "memory": 8},
        ),
        (
            {"requests": {"cpu": "5"}, "limits": {"cpu": "9"}},
            [{"resources": {"requests": {"cpu": "1"}}}],
            {"cpu": 5000},
        ),
    ],
)
def test_pod_level_requests(
    resources: dict[str, Any], containers: list[Any], expected: dict[str, int] | None
) -> None:
    assert spec_of({"resources": resources, "containers": containers}).requests == expected


def test_pod_level_limits_mean_nothing_without_defaults() -> None:
    assert spec_of({"resources": {"limits": {"cpu": "2"}}}, defaults=False).requests is None


def test_host_ports() -> None:
    ports = [
        {"containerPort": 80},
        {"containerPort": 81, "hostPort": 8081},
        {"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"},
    ]
    spec = {"containers": [{"ports": ports}]}
    named = (HostPort(port=8081), HostPort(port=53, protocol="UDP", ip="10.0.0.1"))
    assert spec_of(spec).host_ports == named
    on_host = spec | {"hostNetwork": True}
    assert spec_of(on_host).host_ports == (HostPort(port=80), *named)
    assert spec_of(on_host, defaults=False).host_ports == named


def test_node_affinity_tolerations_overhead_and_images() -> None:
    expression = {"key": "zone", "operator": "In", "values": ["a"]}
    by_name = {"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}
    spec = spec_of(
        {
            "overhead": {"cpu": "10m"},
            "nodeSelector": {"disk": "ssd"},
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [expression], "matchFields": [by_name]},
                            {},
                        ]
                    },
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 5, "preference": {"matchExpressions": [expression]}}
                    ],
                }
            },
            "tolerations": [{"operator": "Exists"}, {"key": "k", "value": "v", "effect": ""}],
            "volumes": [{"image": {"reference": "data:v1"}}, {"emptyDir": {}}],
        }
    )
    zone = Requirement(key="zone", operator="In", values=("a",))
    name = Requirement(key="metadata.name", operator="NotIn", values=("n1",))
    assert spec.overhead == {"cpu": 10}
    assert spec.node_selector == {"disk": "ssd"}
    assert spec.required_node_terms == (
        NodeSelectorTerm(expressions=(zone,), fields=(name,)),
        NodeSelectorTerm(),
    )
    assert spec.preferred_node_terms == (
        PreferredTerm(weight=5, term=NodeSelectorTerm(expressions=(zone,))),
    )
    assert spec.tolerations == (Toleration(operator="Exists"), Toleration(key="k", value="v"))
    assert spec.image_volumes == ("data:v1",)


def test_required_affinity_without_terms_is_not_the_same_as_none() -> None:
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    empty: dict[str, Any] = {"affinity": {"nodeAffinity": {key: {"nodeSelectorTerms": []}}}}
    assert spec_of(empty).required_node_terms == ()
    assert spec_of({"affinity": {"nodeAffinity": {}}}).required_node_terms is None


def test_null_counts_as_missing() -> None:
    spec = spec_of({"containers": [{"resources": None, "ports": None}], "tolerations": None})
    assert spec == PodSpec(containers=(Container(),))


def test_the_object_is_left_as_it_was() -> None:
    obj = {"metadata": {"name": "a"}, "spec": {"containers": [{"resources": {"limits": {}}}]}}
    before = copy.deepcopy(obj)
    manifest.pod(obj, WHERE, defaults=True)
    assert obj == before


def _selecting(**requirement: Any) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k"} | requirement]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


@pytest.mark.parametrize(
    ("spec", "path", "problem", "remedy"),
    [
        (
            {"containers": [{"resources": {"requests": {"cpu": "1 core"}}}]},
            "containers[0].resources.requests.cpu",
            "not a Kubernetes quantity",
            "suffix",
        ),
        (
            {"containers": [{}, {"resources": {"limits": {"memory": True}}}]},
            "containers[1].resources.limits.memory",
            "is not a quantity (True)",
            "2Gi",
        ),
        ({"overhead": {"cpu": "-1"}}, "overhead.cpu", "is negative (-1)", "0 or more"),
        ({"containers": {}}, "containers", "is not a list ({})", "write a list"),
        ({"containers": ["a"]}, "containers[0]", "is not a mapping ('a')", "write a mapping"),
        ({"nodeSelector": {"a": 5}}, "nodeSelector.a", "is not a string (5)", "in quotes"),
        ({"nodeSelector": {1: "a"}}, "nodeSelector", "has the key 1", "in quotes"),
        ({"priority": "high"}, "priority", "is not a whole number", "write a whole number"),
        ({"priority": True}, "priority", "is not a whole number", "write a whole number"),
        ({"priority": 2**31}, "priority", "is 2147483648", "use a number from"),
        ({"hostNetwork": "yes"}, "hostNetwork", "is not true or false", "write true or false"),
        ({"tolerations": [{"operator": "Is"}]}, "tolerations[0].operator", "'Is'", "Exists, Eq"),
        ({"tolerations": [{"effect": "No"}]}, "tolerations[0].effect", "'No'", "NoSchedule"),
        (
            _selecting(operator="in"),
            "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
            ".nodeSelectorTerms[0].matchExpressions[0].operator",
            "'in', which is not known",
            "NotIn",
        ),
        ({"schedulingGates": [{}]}, "schedulingGates[0].name", "is missing", "give it a value"),
        (
            {"containers": [{"ports": [{"hostPort": 70000}]}]},
            "containers[0].ports[0].hostPort",
            "is 70000",
            "65535",
        ),
        (
            {"containers": [{"ports": [{"hostPort": 1, "protocol": "tcp"}]}]},
            "containers[0].ports[0].protocol",
            "'tcp'",
            "TCP, UDP",
        ),
    ],
)
def test_a_bad_pod_spec_is_named(
    spec: dict[str, Any], path: str, problem: str, remedy: str
) -> None:
    with pytest.raises(InputError) as caught:
        spec_of(spec)
    assert caught.value.where == f"{WHERE}: spec.{path}"
    assert problem in caught.value.problem
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    ("metadata", "path", "problem"),
    [
        ({"name": None}, "metadata.name", "is missing"),
        ({"name": ""}, "metadata.name", "is missing"),
        ({"name": 5}, "metadata.name", "is not a string"),
        ({"creationTimestamp": "yesterday"}, "metadata.creationTimestamp", "RFC 3339"),
        ({"creationTimestamp": "2026-01-01T00:00:00"}, "metadata.creationTimestamp", "RFC 3339"),
        ({"labels": ["a"]}, "metadata.labels", "is not a mapping"),
        ({"ownerReferences": [{"controller": True}]}, "metadata.ownerReferences[0].kind", "missi"),
    ],
)
def test_bad_metadata_is_named(metadata: dict[str, Any], path: str, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        made({}, **metadata)
    assert caught.value.where == f"{WHERE}: {path}"
    assert problem in caught.value.problem


@pytest.mark.parametrize(
    ("rest", "path"),
    [
        ({"spec": {"taints": [{"key": "k", "effect": "Never"}]}}, "spec.taints[0].effect"),
        ({"spec": {"taints": [{"effect": "NoSchedule"}]}}, "spec.taints[0].key"),
        ({"spec": {"unschedulable": 1}}, "spec.unschedulable"),
        ({"status": {"allocatable": {"cpu": []}}}, "status.allocatable.cpu"),
        ({"status": {"images": [{"sizeBytes": -1}]}}, "status.images[0].sizeBytes"),
        ({"status": "ready"}, "status"),
    ],
)
def test_a_bad_node_is_named(rest: dict[str, Any], path: str) -> None:
    with pytest.raises(InputError) as caught:
        manifest.node({"metadata": {"name": "n"}} | rest, "nodes.yaml: Node n")
    assert caught.value.where == f"nodes.yaml: Node n: {path}"
    assert caught.value.remedy


def test_long_values_are_cut_in_errors() -> None:
    with pytest.raises(InputError) as caught:
        spec_of({"containers": "x" * 1000})
    assert len(str(caught.value)) < 200


def test_unjudged_constraints_are_named_once_each() -> None:
    spec = {"resourceClaims": [{"name": "r"}, {"name": "s"}], "topologySpreadConstraints": [{}]}
    assert manifest.unjudged({"spec": spec}) == ["resourceClaims"]


@pytest.mark.parametrize(
    "spec",
    [
        None,
        {},
        {"resourceClaims": None},
        {"resourceClaims": []},
        5,
    ],
)
def test_pods_without_such_constraints_have_none(spec: Any) -> None:
    assert manifest.unjudged({"spec": spec}) == []
