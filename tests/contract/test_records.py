"""The bytes of records: what is written once can be read forever.

records-golden.jsonl holds the canonical bytes of one example of each kind. They change only with
the kind's version (and then the old line stays readable through an upcaster): a test that fails
here says that stored logs would no longer be what they were.
"""

import typing
from pathlib import Path

import msgspec
import pytest

from eventsched.domain import records
from eventsched.domain.objects import (
    AffinityTerm,
    Container,
    HostPort,
    Image,
    Node,
    NodeSelectorTerm,
    Owner,
    Pod,
    PodSpec,
    PodVolume,
    PreferredTerm,
    Requirement,
    SpreadConstraint,
    Taint,
    Toleration,
    WeightedAffinityTerm,
    registry,
)
from eventsched.domain.records import AnyRecord, Outcome, Queue, Victims
from eventsched.domain.records.object_writes import BindVolume, SelectNode
from eventsched.domain.records.verdicts import Code, Normalization, ScoreColumn, Verdict

NODE = Node(
    name="n1",
    uid="u1",
    labels={"b": "2", "a": "1"},
    annotations={"note": "grün"},
    taints=(Taint(key="k", value="v", effect="NoSchedule"),),
    unschedulable=True,
    allocatable={"pods": 110, "cpu": 4000},
    images=(Image(names=("a:1", "a@sha256:0"), size=5),),
    declared_features=("RestartAllContainersOnContainerExits",),
)
TERM = NodeSelectorTerm(
    expressions=(Requirement(key="zone", operator="In", values=("a", "b")),),
    fields=(Requirement(key="metadata.name", operator="In", values=("n1",)),),
)
APP = Requirement(key="app", operator="In", values=("web",))
NEAR = AffinityTerm(
    topology_key="zone",
    selector=(APP,),
    namespaces=("shop",),
    namespace_selector=(),
)
POD = Pod(
    uid="p1",
    name="web-0",
    namespace="shop",
    labels={"app": "web"},
    annotations={"note": "x"},
    owner=Owner(kind="ReplicaSet", name="web", uid="rs1"),
    priority=-5,
    scheduler_name="mine",
    node_name="n1",
    gates=("wait",),
    deleting=True,
    created_at=1_700_000_000_000_000,
    spec=PodSpec(
        containers=(
            Container(
                image="a:1",
                requests={"memory": 2**40, "cpu": 100},
                ports=(HostPort(port=80, protocol="UDP", ip="10.0.0.1"),),
            ),
        ),
        init_containers=(Container(image="i", restarts=True),),
        overhead={"cpu": 5},
        requests={},
        node_selector={"disk": "ssd"},
        required_node_terms=(TERM,),
        preferred_node_terms=(PreferredTerm(weight=7, term=TERM),),
        tolerations=(Toleration(key="k", operator="Exists", value="", effect="NoExecute"),),
        image_volumes=("vol:1",),
        required_affinity=(NEAR,),
        preferred_affinity=(WeightedAffinityTerm(weight=3, term=NEAR),),
        required_anti_affinity=(AffinityTerm(topology_key="host"),),
        preferred_anti_affinity=(WeightedAffinityTerm(weight=1, term=NEAR),),
        spread=(
            SpreadConstraint(
                max_skew=2,
                topology_key="zone",
                when_unsatisfiable="ScheduleAnyway",
                selector=(APP,),
                min_domains=3,
                node_affinity_policy="Ignore",
                node_taints_policy="Honor",
                match_label_keys=("pod-template-hash",),
            ),
        ),
        needed_features=("RestartAllContainersOnContainerExits",),
        guaranteed=True,
    ),
    volumes=(
        PodVolume(name="data", claim="web-0-data", ephemeral=True),
        PodVolume(name="token", driver="csi.example.com"),
        PodVolume(name="disk", read_only=True, source="gcePersistentDisk", identity=("d",)),
    ),
    resource_claims=("gpu",),
    preemption_policy="Never",
    nominated_node="n2",
    started_at=1_700_000_001_000_000,
    displaced=True,
)
OBJECTS: list[registry.AnyObject] = [
    registry.Namespace(name="shop", labels={"team": "red"}),
    registry.Service(name="web", namespace="shop", selector={"app": "web"}),
    registry.ReplicaSet(name="web", namespace="shop", uid="rs1", selector=(APP,)),
    registry.StatefulSet(name="db", namespace="shop", uid="ss1", selector=()),
    registry.ReplicationController(name="old", namespace="shop", uid="rc1", selector=(APP,)),
    registry.PersistentVolumeClaim(
        name="web-0-data",
        namespace="shop",
        uid="c1",
        storage_class="",
        volume="v1",
        access_modes=("ReadWriteOncePod",),
        volume_mode="Block",
        requested=2**40,
        selector=(APP,),
        phase="Bound",
        bound=True,
        deleting=True,
        selected_node="n1",
        owner_uid="p1",
        annotations={"pv.kubernetes.io/bind-completed": "yes"},
        attributes_class="gold",
    ),
    registry.PersistentVolume(
        name="v1",
        uid="v1",
        storage_class="fast",
        capacity=2**41,
        access_modes=("ReadWriteOnce",),
        volume_mode="Block",
        phase="Bound",
        claim=("shop", "web-0-data", "c1"),
        labels={"zone": "a"},
        annotations={"note": "x"},
        node_terms=(TERM,),
        driver="csi.example.com",
        handle="h1",
        source="rbd",
        identity=("pool", "image", "10.0.0.1:6789"),
        deleting=True,
        attributes_class="gold",
    ),
    registry.StorageClass(
        name="fast",
        provisioner="csi.example.com",
        binding_mode="WaitForFirstConsumer",
        topologies=((Requirement(key="zone", operator="In", values=("a", "b")),),),
        default=True,
        created_at=1_700_000_000_000_000,
    ),
    registry.CSINode(
        name="n1",
        drivers=(
            registry.NodeDriver(
                name="csi.example.com", node_id="i-1", topology_keys=("zone",), limit=0
            ),
        ),
        migrated=("kubernetes.io/gce-pd",),
    ),
    registry.CSIDriver(name="csi.example.com", capacity=True),
    registry.CSIStorageCapacity(
        name="room",
        namespace="kube-system",
        storage_class="fast",
        capacity=2**50,
        largest=0,
        topology=(TERM.expressions[0],),
    ),
    registry.VolumeAttachment(name="a1", attacher="csi.example.com", node="n1", volume="v1"),
    registry.PodDisruptionBudget(
        name="web", namespace="shop", selector=(APP,), allowed=-1, disrupted=("web-1",)
    ),
    registry.ElasticQuota(
        name="team", namespace="shop", min={"cpu": 4000}, max={"cpu": 8000, "example.com/gpu": 2}
    ),
    registry.NodeResourceTopology(
        name="n1",
        policy="single-numa-node",
        scope="pod",
        most_zones=4,
        zones=(registry.NumaZone(number=0, available={"cpu": 4000}, costs=((0, 10), (1, 21))),),
        fingerprint="pfp0v001b92008c14168b3a6",
        only_exclusive=True,
    ),
]
PROMISE = BindVolume(volume="v1", namespace="shop", claim="web-0-data", claim_uid="c1")
SELECTION = SelectNode(namespace="shop", claim="web-0-logs", node="n1", claim_uid="c2")
EXAMPLES: list[AnyRecord] = [
    records.StreamStarted(
        format=1,
        engine="0.1.0",
        seed="s",
        inputs={"nodes": "d1"},
        configuration="kind: KubeSchedulerConfiguration",
        flags=(1, 2),
        plugins={"A": "d"},
        timeline="7301/1",
    ),
    records.TermBegan(
        epoch=7,
        token="0badcafe",
        engine="0.2.0",
        inputs={"configuration": "0d"},
        configuration="apiVersion: v1",
        flags=(1, 3),
        plugins={"First": "0e"},
        timeline="7301/1/5.40",
    ),
    records.HistoryLost(timeline="7301/2"),
    records.WatchRelisted(resource="Pod", since=4711, upto=4720),
    records.NodeAdded(node=NODE, row=3),
    records.NodeUpdated(node=Node(name="n1")),
    records.NodeDeleted(name="n1"),
    records.PodAdded(pod=POD),
    records.PodUpdated(pod=Pod(uid="p1", name="web-0")),
    records.PodDeleted(uid="p1"),
    *(records.ObjectChanged(object=each) for each in OBJECTS),
    records.ObjectDeleted(type="PersistentVolumeClaim", name="web-0-data", namespace="shop"),
    records.BindSucceeded(uid="p1", node="n1"),
    records.BindFailed(uid="p1", node="n1", message='409 "conflict"'),
    records.EvictionSucceeded(uid="p2"),
    records.EvictionFailed(uid="p2", message="429"),
    records.BindRetried(uid="p1", node="n1", attempt=3, resource_version=4711),
    records.BindVoided(
        uid="p1", node="n1", attempt=3, reason="the node is gone", resource_version=4712
    ),
    records.WriteSucceeded(uid="p1", attempt=3, write=SELECTION),
    records.WriteFailed(uid="p1", attempt=3, write=PROMISE, message='409 "conflict"'),
    records.ExtenderAnswered(
        uid="p1",
        attempt=3,
        extender=1,
        verb="filter",
        name="http://extender",
        failed={"busy": "0-2,5"},
        unresolvable={"": "7"},
        scores=((3, "3"), (10, "4")),
        victims={"n1": Victims(uids=("p2", "p3"), violations=1)},
        problem="code 404",
        remark="it names nodes that it was not asked about: n9",
        duration=1_200,
    ),
    records.ExtenderInquired(
        number=5,
        uid="p1",
        verb="preempt",
        sent=Pod(uid="p1", name="web-0"),
        nodes="0-2,5",
        strange=("n9",),
        node="n1",
        candidates={"n1": Victims(uids=("p2",), violations=1)},
    ),
    records.MemoryForgotten(plugin="First", key="shop/web-0", by="ada", request=7),
    records.PluginOverran(plugin="Slow", point="filter", limit=5_000_000, uid="p1", attempt=3),
    records.SamplesTaken(
        source="NetworkTraffic",
        values={"n1": 12541068340.0, "n2": 0.5},
        taken=1_000_000,
        until=61_000_000,
        problem="1 series have no label nodename",
    ),
    records.PartitionSealed(
        partition=4,
        first=5,
        next=9,
        before="5c" * 32,
        after="77" * 32,
        checkpoint=12,
        digest="1f" * 32,
        opening=records.StreamStarted(format=1, engine="0.2.0", seed="eventsched"),
        archived={"1970-01-01.batches.parquet": "aa" * 32},
    ),
    records.TimePassed(),
    records.VerdictDefined(
        number=1,
        verdict=Verdict(
            plugin="Fit", code=Code.UNRESOLVABLE, reasons=("Insufficient cpu", "Too many pods")
        ),
    ),
    records.ScoringDefined(
        number=1,
        columns=(
            ScoreColumn(plugin="Fit", weight=1),
            ScoreColumn(plugin="Taints", weight=3, normalization=Normalization.REVERSED),
        ),
    ),
    records.PodQueued(
        uid="p1",
        queue=Queue.BACKOFF,
        cause="AttemptFailed",
        plugin="Fit",
        rejectors=("Fit", "Other"),
        pending=("Other",),
        until=5_000_000,
        failures=2,
        errors=1,
        message="why",
    ),
    records.PodDecided(
        uid="p1",
        attempt=3,
        outcome=Outcome.WAITING,
        profile="mine",
        node="n1",
        row=4,
        score=250,
        runner_up="n2",
        runner_up_score=249,
        feasible=2,
        evaluated=5,
        ties=2,
        draw=2**64 - 1,
        counts=((1, 3), (65_533, 1)),
        scoring=1,
        parameters=((), (2,)),
        digest="00ff",
        plugin="P",
        message="m",
        carry={"volume": {"parts": [1, 2.5, None, True]}},
        deadlines={"Gang": 10_000_000},
        start=17,
        nominated=True,
        binder="http://binder",
    ),
    records.PermitGranted(uid="p1", plugin="Gang", by="p2"),
    records.PreparationIntended(
        uid="p1",
        node="n1",
        attempt=3,
        deadlines={"VolumeBinding": 600_000_000},
        writes={"VolumeBinding": (PROMISE, SELECTION)},
    ),
    records.BindIntended(uid="p1", node="n1", attempt=3),
    records.PodUnreserved(uid="p1", node="n1", plugin="Gang", message="timeout"),
    records.PodSkipped(uid="p1", message="skip schedule deleting pod: default/p1"),
    records.PodBound(uid="p1", node="n1", attempt=3, message="m"),
    records.PreemptionDecided(
        uid="p1",
        attempt=3,
        node="n2",
        row=5,
        criterion="violations",
        victims=("p2", "p3", "p4"),
        leaving=("p3",),
        sent_back=("p4",),
        nodes=9,
        looked=8,
        candidates=7,
        first=4,
        last=2,
        draw=2**64 - 1,
        violations=1,
        highest=-2,
        total=2**40,
        start=1_700_000_002_000_000,
        digest="00ff",
        plugin="CapacityScheduling",
    ),
    records.NominationCleared(uid="p2", node="n2", cause="Preempted", by="p1"),
    records.NodeOvercommitted(node="n1", by="p2", resources={"cpu": (4500, 4000)}),
    records.MemoryChanged(plugin="First", key="shop/web-0", value="n1", used_by="p1"),
    records.ExtenderAsked(
        uid="p1",
        attempt=3,
        extender=1,
        name="http://extender",
        verb="preempt",
        nodes="0-7",
        number=8,
        candidates={"n1": Victims(uids=("p2",), violations=1)},
    ),
    records.ExtenderReplied(
        number=5,
        uid="p1",
        verb="filter",
        failed={"busy": "0-2,5"},
        unresolvable={"never": "7"},
        scores=((3, "3"), (10, "4")),
        victims={"n1": Victims(uids=("p2", "p3"), violations=1)},
        node="n1",
        attempt=3,
        waits=True,
        problem="the pod is gone",
    ),
    records.PlacementCompared(
        uid="p1",
        outcome=records.PlacementMatch.DIFFERENT,
        node="n2",
        chosen="n1",
        attempt=3,
        feasible=True,
        plugin="NodeResourcesFit",
        reasons=("Insufficient cpu",),
        score=249,
        chosen_score=250,
    ),
]
GOLDEN = Path(__file__).with_name("records-golden.jsonl").read_bytes().splitlines()


def test_there_is_an_example_of_every_kind() -> None:
    """And a line for each of them, in the catalogue's order."""
    assert list(dict.fromkeys(map(type, EXAMPLES))) == list(typing.get_args(AnyRecord))
    assert [type(each) for each in OBJECTS] == list(registry.TYPES.values())
    assert len(GOLDEN) == len(EXAMPLES)


def test_the_examples_leave_out_no_field() -> None:
    """A field at its default would not show in the bytes. (Two objects are written in full
    once.)"""
    bare = (records.NodeUpdated, records.PodUpdated)
    for each in EXAMPLES:
        if not isinstance(each, bare):
            fields = {field.encode_name for field in msgspec.structs.fields(each)}
            assert set(msgspec.json.decode(records.encode(each))) == fields | {"kind"}
    assert set(msgspec.to_builtins(NODE)) == set(Node.__struct_fields__)
    assert set(msgspec.to_builtins(POD)) == set(Pod.__struct_fields__)
    assert set(msgspec.to_builtins(POD.spec)) == set(PodSpec.__struct_fields__)
    assert set(msgspec.to_builtins(NEAR)) == set(AffinityTerm.__struct_fields__)
    (spread,) = POD.spec.spread
    assert set(msgspec.to_builtins(spread)) == set(SpreadConstraint.__struct_fields__)
    volumes = [msgspec.to_builtins(each) for each in POD.volumes]
    assert {name for each in volumes for name in each} == set(PodVolume.__struct_fields__)
    cluster_wide = {registry.Namespace, registry.PersistentVolume, registry.StorageClass}
    cluster_wide |= {registry.CSINode, registry.CSIDriver, registry.VolumeAttachment}
    cluster_wide.add(registry.NodeResourceTopology)
    for thing in OBJECTS:
        without = {"namespace"} if type(thing) in cluster_wide else set()
        fields = set(type(thing).__struct_fields__) | {"type"}
        assert set(msgspec.to_builtins(thing)) == fields - without


@pytest.mark.parametrize("record", EXAMPLES, ids=lambda record: type(record).__name__)
def test_bytes_round_trip(record: AnyRecord) -> None:
    """decode(encode(x)) == x, of the same kind."""
    found = records.decode(records.encode(record))
    assert (type(found), found) == (type(record), record)


@pytest.mark.parametrize(
    ("record", "line"),
    list(zip(EXAMPLES, GOLDEN, strict=True)),
    ids=[type(each).__name__ for each in EXAMPLES],
)
def test_the_bytes_are_what_they_always_were(record: AnyRecord, line: bytes) -> None:
    """Canonical: declared order, sorted keys, no defaults, no white space."""
    assert records.encode(record) == line
    assert records.decode(line) == record


def test_equal_records_have_equal_bytes_whatever_the_order_of_their_maps() -> None:
    """Labels come in any order."""
    one = records.NodeAdded(node=Node(name="n", labels={"a": "1", "b": "2"}))
    other = records.NodeAdded(node=Node(name="n", labels={"b": "2", "a": "1"}))
    assert records.encode(one) == records.encode(other)


@pytest.mark.row(22)
@pytest.mark.parametrize(
    "body", [b'{"kind":"Nonsense"}', b'{"kind":"PodDeleted"}', b'{"kind":"PodDeleted","uid":5}']
)
def test_unknown_kinds_and_shapes_are_refused(body: bytes) -> None:
    """Not guessed at."""
    with pytest.raises(msgspec.ValidationError):
        records.decode(body)
