"""API objects besides nodes and pods become the registry's; bad ones are errors that say where."""

from typing import Any

import pytest

from eventsched.cluster.translate import manifest
from eventsched.domain.errors import InputError
from eventsched.domain.objects import NodeSelectorTerm, Requirement
from eventsched.domain.objects.registry import (
    TYPES,
    AnyObject,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    Namespace,
    NodeDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
    StorageClass,
    VolumeAttachment,
)
from tests.databases import ROOT

WHERE = "all.yaml: it"
APP = Requirement(key="app", operator="In", values=("web",))
SELECTOR = {"matchLabels": {"app": "web"}}


def made(kind: str, *, defaults: bool = False, meta: Any = None, **rest: Any) -> AnyObject:
    metadata = {"name": "x"} | (meta or {})
    found = manifest.cluster_object(
        {"kind": kind, "metadata": metadata} | rest, WHERE, defaults=defaults
    )
    assert found is not None
    return found


def test_every_type_can_be_read() -> None:
    assert [type(made(kind)).__name__ for kind in TYPES] == list(TYPES)


def test_the_document_names_every_type() -> None:
    """docs/log-format.md says which types of objects are in a log."""
    page = (ROOT / "docs/log-format.md").read_text()
    assert [kind for kind in TYPES if f"`{kind}`" not in page] == []


@pytest.mark.parametrize(
    "obj",
    [
        {},
        {"kind": 5},
        {"kind": "Pod"},
        {"kind": "Secret"},
        {"kind": "Service", "apiVersion": "serving.example.com/v1"},
        {"kind": "PodDisruptionBudget", "apiVersion": "v1"},
    ],
)
def test_other_kinds_are_none(obj: dict[str, Any]) -> None:
    """Whatever is in them."""
    assert manifest.cluster_object(obj | {"spec": "x"}, WHERE) is None


def test_any_version_of_the_group_will_do() -> None:
    obj = {"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget"}
    found = manifest.cluster_object(obj | {"metadata": {"name": "x"}}, WHERE)
    assert found == PodDisruptionBudget(name="x", namespace="default")


def test_namespaces_and_what_owns_pods() -> None:
    here = {"namespace": "shop", "uid": "u"}
    assert made("Namespace", meta={"labels": {"a": "b"}}) == Namespace(name="x", labels={"a": "b"})
    assert made("Namespace", defaults=True) == Namespace(
        name="x", labels={"kubernetes.io/metadata.name": "x"}
    )
    assert made("Service", meta=here, spec={"selector": {"app": "web"}}) == Service(
        name="x", namespace="shop", selector={"app": "web"}
    )
    assert made("Service") == Service(name="x", namespace="default")
    spec = {"selector": SELECTOR}
    assert made("ReplicaSet", meta=here, spec=spec) == ReplicaSet(
        name="x", namespace="shop", uid="u", selector=(APP,)
    )
    assert made("StatefulSet", meta=here, spec={"selector": {}}) == StatefulSet(
        name="x", namespace="shop", uid="u", selector=()
    )


def test_a_replication_controller_selects_by_a_map() -> None:
    plain = {"selector": {"app": "web"}}
    template = {"template": {"metadata": {"labels": {"app": "web"}}}}
    found = ReplicationController(name="x", namespace="default", selector=(APP,))
    assert made("ReplicationController", spec=plain) == found
    assert made("ReplicationController", spec=template, defaults=True) == found
    assert made("ReplicationController", spec=template) == ReplicationController(
        name="x", namespace="default"
    )


def test_a_claim() -> None:
    found = made(
        "PersistentVolumeClaim",
        meta={
            "uid": "u",
            "namespace": "shop",
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {
                "pv.kubernetes.io/bind-completed": "yes",
                "volume.kubernetes.io/selected-node": "n1",
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
            },
            "ownerReferences": [{"kind": "Other", "name": "o", "uid": "o1", "controller": True}],
        },
        spec={
            "storageClassName": "fast",
            "volumeName": "v1",
            "accessModes": ["ReadWriteOncePod"],
            "volumeMode": "Block",
            "resources": {"requests": {"storage": "1.5Gi"}},
            "selector": SELECTOR,
            "volumeAttributesClassName": "gold",
        },
        status={"phase": "Bound"},
    )
    assert found == PersistentVolumeClaim(
        name="x",
        namespace="shop",
        uid="u",
        storage_class="fast",
        volume="v1",
        access_modes=("ReadWriteOncePod",),
        volume_mode="Block",
        requested=1_610_612_736,
        selector=(APP,),
        phase="Bound",
        bound=True,
        deleting=True,
        selected_node="n1",
        owner_uid="o1",
        annotations={
            "pv.kubernetes.io/bind-completed": "yes",
            "volume.kubernetes.io/selected-node": "n1",
        },
        attributes_class="gold",
    )


@pytest.mark.parametrize(
    ("spec", "annotated", "expected"),
    [
        ({}, None, None),
        ({"storageClassName": ""}, None, ""),
        ({"storageClassName": "new"}, None, "new"),
        ({"storageClassName": "new"}, "old", "old"),
        ({"storageClassName": "new"}, "", ""),
    ],
)
def test_the_beta_annotation_names_the_class_first(
    spec: dict[str, Any], annotated: str | None, expected: str | None
) -> None:
    """Upstream: component-helpers storage/volume GetPersistentVolumeClaimClass."""
    key = "volume.beta.kubernetes.io/storage-class"
    meta = {} if annotated is None else {"annotations": {key: annotated}}
    claim = made("PersistentVolumeClaim", spec=spec, meta=meta)
    volume = made("PersistentVolume", spec=spec, meta=meta)
    assert isinstance(claim, PersistentVolumeClaim)
    assert isinstance(volume, PersistentVolume)
    assert (claim.storage_class, volume.storage_class) == (expected, expected or "")


@pytest.mark.parametrize("uid", ["u1", "11111111-2222-4333-8444-55555555555A"])
def test_a_claim_belongs_to_the_pod_under_the_uid_that_the_pod_has_here(uid: str) -> None:
    """Also if that is not what the API object says: the log's pods have UUIDs."""
    pod = manifest.pod({"metadata": {"name": "web", "uid": uid}}, WHERE, defaults=False)
    owner = {"kind": "Pod", "name": "web", "uid": uid, "controller": True}
    claim = made("PersistentVolumeClaim", meta={"ownerReferences": [owner]})
    assert isinstance(claim, PersistentVolumeClaim)
    assert claim.owner_uid == pod.uid


def test_a_volume() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    found = made(
        "PersistentVolume",
        meta={"uid": "u", "labels": {"zone": "a"}},
        spec={
            "storageClassName": "fast",
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": "shop", "name": "data", "uid": "c1"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            "csi": {"driver": "d", "volumeHandle": "h"},
        },
        status={"phase": "Bound"},
    )
    zone = Requirement(key="zone", operator="In", values=("a",))
    assert found == PersistentVolume(
        name="x",
        uid="u",
        storage_class="fast",
        capacity=10 * 2**30,
        access_modes=("ReadWriteOnce",),
        phase="Bound",
        claim=("shop", "data", "c1"),
        labels={"zone": "a"},
        node_terms=(NodeSelectorTerm(expressions=(zone,)),),
        driver="d",
        handle="h",
    )


@pytest.mark.parametrize(
    ("spec", "source", "identity"),
    [
        ({"local": {"path": "/d"}}, "local", ()),
        ({"gcePersistentDisk": {"pdName": "p"}}, "gcePersistentDisk", ("p",)),
        (
            {"rbd": {"pool": "p", "image": "i", "monitors": ["m"]}, "hostPath": None},
            "rbd",
            ("p", "i", "m"),
        ),
        ({}, "", ()),
    ],
)
def test_the_source_of_a_volume(spec: Any, source: str, identity: tuple[str, ...]) -> None:
    found = made("PersistentVolume", spec=spec)
    assert isinstance(found, PersistentVolume)
    assert (found.source, found.identity) == (source, identity)
    assert (found.claim, found.node_terms) == (None, None)


def test_storage_classes() -> None:
    expression = {"key": "zone", "values": ["a", "b"]}
    found = made(
        "StorageClass",
        meta={
            "creationTimestamp": "1970-01-01T00:00:01Z",
            "annotations": {"storageclass.beta.kubernetes.io/is-default-class": "true"},
        },
        provisioner="p",
        volumeBindingMode="WaitForFirstConsumer",
        allowedTopologies=[{"matchLabelExpressions": [expression]}, {}],
    )
    assert found == StorageClass(
        name="x",
        provisioner="p",
        binding_mode="WaitForFirstConsumer",
        topologies=((Requirement(key="zone", operator="In", values=("a", "b")),), ()),
        default=True,
        created_at=1_000_000,
    )
    assert made("StorageClass") == StorageClass(name="x", binding_mode="")
    assert made("StorageClass", defaults=True) == StorageClass(name="x", binding_mode="Immediate")


def test_drivers() -> None:
    drivers: list[dict[str, Any]] = [
        {"name": "d", "nodeID": "i", "topologyKeys": ["zone"], "allocatable": {"count": 0}},
        {"name": "e", "allocatable": None},
    ]
    migrated = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd,b"}
    found = made("CSINode", meta={"annotations": migrated}, spec={"drivers": drivers})
    assert found == CSINode(
        name="x",
        drivers=(
            NodeDriver(name="d", node_id="i", topology_keys=("zone",), limit=0),
            NodeDriver(name="e"),
        ),
        migrated=("kubernetes.io/gce-pd", "b"),
    )
    spec = {"storageCapacity": True, "attachRequired": False, "preventPodSchedulingIfMissing": True}
    assert made("CSIDriver", spec=spec) == CSIDriver(name="x", capacity=True)
    assert made("CSIDriver") == CSIDriver(name="x")


def test_room_and_attachments() -> None:
    found = made(
        "CSIStorageCapacity",
        storageClassName="fast",
        capacity="1Ti",
        maximumVolumeSize=5,
        nodeTopology=SELECTOR,
    )
    assert found == CSIStorageCapacity(
        name="x",
        namespace="default",
        storage_class="fast",
        capacity=2**40,
        largest=5,
        topology=(APP,),
    )
    assert made("CSIStorageCapacity") == CSIStorageCapacity(name="x", namespace="default")
    spec = {"attacher": "d", "nodeName": "n1", "source": {"persistentVolumeName": "v1"}}
    assert made("VolumeAttachment", spec=spec) == VolumeAttachment(
        name="x", attacher="d", node="n1", volume="v1"
    )


def test_budgets() -> None:
    status = {"disruptionsAllowed": 2, "disruptedPods": {"b": "t", "a": "t"}}
    found = made("PodDisruptionBudget", spec={"selector": SELECTOR}, status=status)
    assert found == PodDisruptionBudget(
        name="x", namespace="default", selector=(APP,), allowed=2, disrupted=("a", "b")
    )


@pytest.mark.parametrize(
    ("kind", "rest", "path", "problem"),
    [
        ("Service", {"metadata": {}}, "metadata.name", "is missing"),
        ("Service", {"spec": {"selector": ["a"]}}, "spec.selector", "is not a mapping"),
        ("Namespace", {"metadata": {"name": 5}}, "metadata.name", "is not a string (5)"),
        ("ReplicaSet", {"spec": {"selector": "app"}}, "spec.selector", "is not a mapping"),
        (
            "PersistentVolumeClaim",
            {"spec": {"resources": {"requests": {"storage": "much"}}}},
            "spec.resources.requests.storage",
            "is not a Kubernetes quantity",
        ),
        (
            "PersistentVolume",
            {"spec": {"capacity": {"storage": "-1"}}},
            "spec.capacity.storage",
            "is negative",
        ),
        (
            "PersistentVolume",
            {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": {}}}}},
            "spec.nodeAffinity.required.nodeSelectorTerms",
            "is not a list",
        ),
        ("StorageClass", {"volumeBindingMode": 1}, "volumeBindingMode", "is not a string"),
        (
            "CSINode",
            {"spec": {"drivers": [{"allocatable": {"count": "4"}}]}},
            "spec.drivers[0].allocatable.count",
            "is not a whole number",
        ),
        ("CSIStorageCapacity", {"capacity": []}, "capacity", "is not a quantity"),
        (
            "PodDisruptionBudget",
            {"status": {"disruptionsAllowed": 1.5}},
            "status.disruptionsAllowed",
            "is not a whole number",
        ),
        (
            "PodDisruptionBudget",
            {"status": {"disruptedPods": ["a"]}},
            "status.disruptedPods",
            "is not a mapping",
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_named(
    kind: str, rest: dict[str, Any], path: str, problem: str
) -> None:
    with pytest.raises(InputError) as caught:
        manifest.cluster_object({"kind": kind, "metadata": {"name": "x"}} | rest, WHERE)
    assert caught.value.where == f"{WHERE}: {path}"
    assert problem in caught.value.problem
    assert caught.value.remedy


def test_malformed_selectors_are_left_to_the_plugins() -> None:
    expressions = [{"key": "-", "operator": "Near"}]
    found = made("PodDisruptionBudget", spec={"selector": {"matchExpressions": expressions}})
    assert isinstance(found, PodDisruptionBudget)
    assert found.selector == (Requirement(key="-", operator="Near"),)
