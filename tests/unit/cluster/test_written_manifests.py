"""Nodes, pods and other objects that are written as manifests are read back as they were: those of
every conformance scenario, drawn ones, and the volumes of the volume plugins' world."""

import json
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventsched.cluster.translate import manifest
from eventsched.cluster.translate.written_manifests import node_manifest, pod_manifest
from eventsched.cluster.translate.written_objects import object_manifest
from eventsched.domain.objects import (
    CPU,
    MEMORY,
    AffinityTerm,
    Container,
    Node,
    Owner,
    Pod,
    PodSpec,
    PodVolume,
    Requirement,
    SpreadConstraint,
    WeightedAffinityTerm,
)
from eventsched.domain.objects.registry import (
    ClusterObject,
    CSIDriver,
    CSIStorageCapacity,
    ElasticQuota,
    Namespace,
    NodeResourceTopology,
    NumaZone,
    PersistentVolume,
    PersistentVolumeClaim,
    PodDisruptionBudget,
    ReplicationController,
    Service,
    StorageClass,
    VolumeAttachment,
)
from tests.conformance.answers import FOLDER, lines
from tests.properties import strategies
from tests.properties.strategies import deterministic
from tests.properties.volume_world import World

UID = "3d8f5bfa-0000-4000-8000-000000000001"


def read_back(written: dict[str, Any], *, defaults: bool) -> Any:
    """What a file with the manifest holds."""
    obj = json.loads(json.dumps(written))
    if obj["kind"] == "Node":
        return manifest.node(obj, "test")
    if obj["kind"] == "Pod":
        return manifest.pod(obj, "test", defaults=defaults)
    return manifest.cluster_object(obj, "test", defaults=defaults)


def written(value: Any) -> dict[str, Any]:
    if isinstance(value, Node):
        return node_manifest(value)
    return pod_manifest(value) if isinstance(value, Pod) else object_manifest(value)


def check(value: Any) -> None:
    """From an API server or from a file: the same object."""
    for defaults in (False, True):
        assert read_back(written(value), defaults=defaults) == value


def test_the_objects_of_every_conformance_scenario() -> None:
    """As a scheduler saw them, whatever limits, defaults and forms their manifests had."""
    seen: Counter[str] = Counter()
    for name in ("scenarios.jsonl.gz", "scenarios-more.jsonl.gz", "scenarios-edges.jsonl.gz"):
        for line in lines(FOLDER / name):
            scenario = json.loads(line)
            for obj in (*scenario["objects"], *scenario.get("pending", ())):
                value = read_back(obj, defaults=True)
                if value is None:
                    continue
                again = read_back(written(value), defaults=True)
                assert again == value, (scenario["id"], obj)
                seen[type(value).__name__] += 1
    assert min(seen[kind] for kind in ("Node", "Pod", "PersistentVolume", "StorageClass")) > 100


selectors = st.none() | st.lists(
    st.builds(
        Requirement,
        key=st.sampled_from(["app", "tier"]),
        operator=st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Near"]),
        values=st.lists(st.sampled_from(["a", "b"]), max_size=2).map(tuple),
    ),
    max_size=2,
).map(tuple)
affinity_terms = st.builds(
    AffinityTerm,
    topology_key=st.sampled_from(["zone", "host"]),
    selector=selectors,
    namespaces=st.sampled_from([(), ("a",), ("a", "b")]),
    namespace_selector=selectors,
)
weighted_terms = st.builds(WeightedAffinityTerm, weight=st.integers(1, 100), term=affinity_terms)
spreads = st.builds(
    SpreadConstraint,
    max_skew=st.integers(1, 3),
    topology_key=st.sampled_from(["zone", "host"]),
    when_unsatisfiable=st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
    selector=selectors,
    min_domains=st.none() | st.integers(1, 3),
    node_affinity_policy=st.sampled_from(["Honor", "Ignore"]),
    node_taints_policy=st.sampled_from(["Honor", "Ignore"]),
)
MOST = 2
placed_specs = st.builds(
    lambda spec, fields: msgspec.structs.replace(spec, **fields),
    strategies.specs,
    st.fixed_dictionaries(
        {},
        optional={
            "required_affinity": st.lists(affinity_terms, max_size=MOST).map(tuple),
            "preferred_affinity": st.lists(weighted_terms, max_size=MOST).map(tuple),
            "required_anti_affinity": st.lists(affinity_terms, max_size=MOST).map(tuple),
            "preferred_anti_affinity": st.lists(weighted_terms, max_size=MOST).map(tuple),
            "spread": st.lists(spreads, max_size=MOST).map(tuple),
            "needed_features": st.sampled_from(
                [
                    (),
                    ("RestartAllContainersOnContainerExits",),
                    ("UserNamespacesHostNetworkSupport",),
                    (
                        "RestartAllContainersOnContainerExits",
                        "UserNamespacesHostNetworkSupport",
                    ),
                ]
            ),
        },
    ),
)


def has_unknown_operator(spec: PodSpec) -> bool:
    """In a node selector, where an API server and a manifest may not have it."""
    terms = [*(spec.required_node_terms or ()), *(each.term for each in spec.preferred_node_terms)]
    return any(
        requirement.operator == "Near"
        for term in terms
        for requirement in (*term.expressions, *term.fields)
    )


volumes = st.sampled_from(
    [
        PodVolume(name="a", claim="data"),
        PodVolume(name="b", claim="pod-b", ephemeral=True),
        PodVolume(name="c", driver="csi.example.com"),
        PodVolume(name="d", source="persistentVolumeClaim"),
        PodVolume(name="e", source="gcePersistentDisk", identity=("disk",), read_only=True),
        PodVolume(name="f", source="rbd", identity=("", "image", "m1", "m2")),
        PodVolume(name="g", source="azureFile"),
    ]
)
amounts = st.one_of(st.integers(0, 2**40), st.sampled_from([-1, -(2**63), 2**63 - 1]))
pods = st.builds(
    Pod,
    uid=st.just(UID),
    name=st.just("pod"),
    namespace=st.sampled_from(["default", "other"]),
    labels=strategies.labels,
    annotations=st.sampled_from([{}, {"example.com/team": "a"}]),
    owner=st.sampled_from(
        [
            None,
            Owner(kind="ReplicaSet", name="rs", uid="u"),
            Owner(kind="StatefulSet", name="s", foreign=True),
            Owner(kind="Job", name="j"),
        ]
    ),
    priority=st.sampled_from([0, -5, 2_000_000_000]),
    scheduler_name=st.sampled_from(["default-scheduler", "other"]),
    node_name=st.sampled_from(["", "n1"]),
    gates=st.sampled_from([(), ("a", "b")]),
    deleting=st.booleans(),
    created_at=st.sampled_from([0, 1_700_000_000_000_000, 1_700_000_000_000_001]),
    spec=placed_specs.filter(lambda spec: spec.requests != {} and not has_unknown_operator(spec)),
    volumes=st.lists(volumes, max_size=3, unique=True).map(tuple),
    resource_claims=st.sampled_from([(), ("gpu",)]),
    preemption_policy=st.sampled_from(["", "Never"]),
    nominated_node=st.sampled_from(["", "n2"]),
    started_at=st.sampled_from([0, 1_700_000_001_000_000]),
    displaced=st.booleans(),
)


@deterministic(200)
@given(pods)
def test_a_drawn_pod(pod: Pod) -> None:
    check(pod)


@deterministic(100)
@given(strategies.nodes("n1"), st.dictionaries(st.sampled_from([CPU, MEMORY, "x/y"]), amounts))
def test_a_drawn_node(node: Node, allocatable: dict[str, int]) -> None:
    check(node)
    features = ("A", "B")
    check(
        msgspec.structs.replace(node, allocatable=allocatable, uid="u", declared_features=features)
    )


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_guaranteed_pod_stays_guaranteed(is_whole: bool) -> None:
    requests = {CPU: 500, MEMORY: 2**20, "example.com/gpu": 1}
    spec = PodSpec(
        containers=(Container(requests=requests),),
        init_containers=(Container(requests=requests, restarts=True),),
        requests={CPU: 2000, MEMORY: 2**22} if is_whole else None,
        guaranteed=True,
    )
    check(Pod(uid=UID, name="a", spec=spec))
    check(Pod(uid=UID, name="a", spec=msgspec.structs.replace(spec, guaranteed=False)))


@pytest.mark.parametrize("seed", range(6))
def test_the_objects_of_the_volume_plugins(seed: int) -> None:
    world = World(seed)
    for _ in range(60):
        world.step()
    kinds = {
        (type(obj).__name__, obj.name): obj for obj in world.engine.state.registry.everything()
    }
    assert len({kind for kind, _ in kinds}) > 3
    for obj in kinds.values():
        if isinstance(obj, PersistentVolumeClaim) and obj.owner_uid:
            obj = msgspec.structs.replace(obj, owner_uid=UID)  # a manifest needs a UUID
        if isinstance(obj, PersistentVolumeClaim):
            obj = msgspec.structs.replace(obj, uid=obj.uid or UID)
        if isinstance(obj, CSIStorageCapacity):
            obj = msgspec.structs.replace(obj, namespace="default")
        check_as_stored(obj)


def check_as_stored(obj: ClusterObject) -> None:
    """Annotations say what a real API server would have them say as well."""
    again = read_back(object_manifest(obj), defaults=True)
    if isinstance(obj, PersistentVolumeClaim):
        assert obj.annotations.items() <= again.annotations.items()
        again = msgspec.structs.replace(again, annotations=obj.annotations)
    assert again == obj


@pytest.mark.parametrize(
    "obj",
    [
        Namespace(name="a", labels={"kubernetes.io/metadata.name": "a", "team": "x"}),
        Service(name="a", namespace="b", selector={"app": "a"}),
        Service(name="a", namespace="b"),
        ReplicationController(
            name="a",
            namespace="b",
            selector=(Requirement(key="app", operator="In", values=("a",)),),
        ),
        PersistentVolume(name="a", claim=("b", "c", "d"), source="local", node_terms=()),
        StorageClass(
            name="a", provisioner="p", default=True, created_at=1_700_000_000_000_000,
            topologies=((Requirement(key="zone", operator="In", values=("a", "b")),),),
        ),
        CSIDriver(name="a", capacity=True),
        CSIStorageCapacity(name="a", namespace="b", storage_class="s", capacity=0, topology=()),
        VolumeAttachment(name="a", attacher="x", node="n", volume="v"),
        PodDisruptionBudget(name="a", namespace="b", selector=(), allowed=-1, disrupted=("x", "y")),
        ElasticQuota(name="a", namespace="b", min={CPU: 100}, max={}),
        ElasticQuota(name="a", namespace="b"),
        NodeResourceTopology(
            name="n1", policy="single-numa-node", scope="pod", most_zones=16,
            zones=(
                NumaZone(number=0, available={CPU: 1500, MEMORY: 5}, costs=((0, 10), (1, 20))),
                NumaZone(number=1),
            ),
            fingerprint="pfp0v001", only_exclusive=True,
        ),
    ],
    ids=lambda obj: obj.title,
)  # fmt: skip
def test_an_object(obj: ClusterObject) -> None:
    check(obj)
