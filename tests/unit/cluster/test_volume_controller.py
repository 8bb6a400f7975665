"""Volumes of a simulated cluster: answers to writes, reactions of the controllers, and a run with
both."""

from pathlib import Path
from typing import Any

import pytest

from eventsched.cluster.in_memory.cluster import BIND_DELAY, InMemoryCluster
from eventsched.cluster.in_memory.volume_controller import (
    CLAIM_BINDING_DELAY,
    PROVISIONING_DELAY,
    Reaction,
    VolumeController,
)
from eventsched.cluster.sources import load
from eventsched.cluster.sources.arrivals import TracePod
from eventsched.domain import records
from eventsched.domain.objects import NodeSelectorTerm, PodVolume, Requirement
from eventsched.domain.objects.registry import CSINode, NodeDriver, PersistentVolume, StorageClass
from eventsched.domain.records import Prepare
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.history.replay import stream_replay
from eventsched.plugins import IN_TREE
from eventsched.runtime.assembly import assemble_loaded
from eventsched.runtime.simulation.simulation import Simulation
from eventsched.scheduling.config import configuration
from tests import volumes
from tests.builders import SECOND, make_pod
from tests.volumes import LOCAL, NOW, WAIT, claim, node, on, promise, selection, shown, volume

NOTES = {"pv.kubernetes.io/bound-by-controller": "yes"}
SELECTED = {"volume.kubernetes.io/selected-node": "n1"}
COMPLETED = {"pv.kubernetes.io/bind-completed": "yes"}
OURS = ("default", "c", "uid-c")
CONFLICT = (
    'Operation cannot be fulfilled on {}: the object has been modified; please apply your changes '
    "to the latest version and try again"
)  # fmt: skip


def controller(*objects: Any) -> VolumeController:
    volume_controller = VolumeController([LOCAL, WAIT, NOW, *objects], [node("n1"), node("n2")])
    volume_controller.begin()
    return volume_controller


def made_volume(**fields: Any) -> PersistentVolume:
    """The volume that is provisioned for claim c."""
    values = {
        "storage_class": "wait", "capacity": 5, "phase": "Bound", "claim": OURS,
        "driver": "csi.example.com", "handle": "pvc-uid-c", **fields,
    }  # fmt: skip
    return PersistentVolume(name="pvc-uid-c", **values)


def test_a_volume_is_pre_bound_and_then_bound() -> None:
    it = controller(claim(), volume())
    assert it.write(promise()) == Reaction(
        [volume(claim=OURS, annotations=NOTES)],
        "",
        CLAIM_BINDING_DELAY,
        [
            volume(claim=OURS, annotations=NOTES, phase="Bound"),
            claim(volume="v", bound=True, phase="Bound", annotations=COMPLETED),
        ],
    )
    assert it.write(promise()) == Reaction()


def test_a_volume_that_was_pre_bound_by_name_only_gets_the_uid() -> None:
    it = controller(claim(), volume(claim=("default", "c", ""), phase="Available"))
    assert it.write(promise()) == Reaction()  # the controller had done so by itself
    late = VolumeController([volume(claim=("default", "c", ""))], [])
    assert late.write(promise()).now == [volume(claim=OURS)]


@pytest.mark.parametrize(
    ("things", "write", "problem"),
    [
        ([claim()], promise(), 'persistentvolumes "v" not found'),
        (
            [claim(), volume(claim=("default", "d", "uid-d"))],
            promise(),
            CONFLICT.format('persistentvolumes "v"'),
        ),
        ([], selection(), 'persistentvolumeclaims "c" not found'),
        ([claim(uid="new")], selection(), 'persistentvolumeclaims "c" not found'),
        (
            [claim(storage_class="wait", selected_node="n2")],
            selection(),
            CONFLICT.format('persistentvolumeclaims "c"'),
        ),
    ],
)
def test_writes_that_are_refused(things: list[Any], write: Any, problem: str) -> None:
    assert controller(*things).write(write) == Reaction(problem=problem)


def test_a_volume_is_provisioned_for_the_selected_node() -> None:
    it = controller(claim(storage_class="wait", requested=5))
    selected: dict[str, Any] = {"storage_class": "wait", "requested": 5, "selected_node": "n1"}
    bound: dict[str, Any] = {"volume": "pvc-uid-c", "bound": True, "phase": "Bound"}
    assert it.write(selection()) == Reaction(
        [claim(annotations=SELECTED, **selected)],
        "",
        PROVISIONING_DELAY,
        [made_volume(), claim(annotations={**SELECTED, **COMPLETED}, **selected, **bound)],
    )
    assert it.write(selection()) == Reaction()


def test_a_new_volume_has_the_topology_of_its_driver_or_else_of_its_class() -> None:
    drivers = (NodeDriver(name="csi.example.com", topology_keys=("host", "zone")),)
    it = controller(claim(storage_class="wait", requested=5), CSINode(name="n1", drivers=drivers))
    assert it.write(selection()).later[0] == made_volume(node_terms=on("n1"))
    zones = (Requirement(key="zone", operator="In", values=("a", "b")),)
    zonal = StorageClass(
        name="wait", provisioner="csi.example.com", binding_mode="WaitForFirstConsumer",
        topologies=(zones,),
    )  # fmt: skip
    other = controller(zonal, claim(storage_class="wait", requested=5))
    terms = (NodeSelectorTerm(expressions=zones),)
    assert other.write(selection()).later[0] == made_volume(node_terms=terms)


def test_claims_that_do_not_wait_for_a_pod_are_bound_at_the_start() -> None:
    """New volumes become available. Claims of classes that bind immediately get the smallest volume
    that fits, or one is provisioned. Claims that name a volume or are named by one are bound."""
    free = volume("free", storage_class="now", phase="", capacity=9)
    large = volume("large", storage_class="now", capacity=20)
    promised = volume("p", claim=("default", "b", ""), phase="")
    it = VolumeController(
        [
            NOW, WAIT, LOCAL, free, large, promised,
            claim("a", storage_class="now", requested=5), claim("b"), claim("c"),
            claim("d", storage_class="now", requested=50), claim("e", volume="large"),
            claim("f", storage_class=None), claim("g", volume="missing"),
        ],
        [],
    )  # fmt: skip
    reaction = it.begin()
    assert [obj.name for obj in reaction.now] == ["free"]
    assert reaction.now[0].phase == "Available"
    bound = {obj.name: obj.volume for obj in reaction.later if hasattr(obj, "volume")}
    assert bound == {"a": "free", "b": "p", "d": "pvc-uid-d", "e": "large"}


def test_the_outcome_of_a_write_follows_the_changed_object() -> None:
    it = InMemoryCluster([], [], objects=[LOCAL, claim(), volume()])
    it.due_stimuli(0)
    effect = Prepare(uid="p1", attempt=2, decision=9, write=promise())
    it.execute(effect, 5)
    assert it.next_at == 5 + BIND_DELAY
    assert it.due_stimuli(5 + BIND_DELAY) == [
        shown(volume(claim=OURS, annotations=NOTES)),
        records.WriteSucceeded(uid="p1", attempt=2, write=promise()),
    ]
    snapshot = it.snapshot()
    restored = InMemoryCluster([], [], objects=[LOCAL, claim(), volume()])
    restored.restore(snapshot)
    for cluster in (it, restored):
        assert len(cluster.due_stimuli(SECOND)) == 2
        other = Prepare(uid="p2", attempt=1, decision=19, write=promise("v", "d"))
        cluster.execute(other, SECOND)
        assert cluster.due_stimuli(2 * SECOND) == [
            records.WriteFailed(
                uid="p2", attempt=1, write=promise("v", "d"),
                message=CONFLICT.format('persistentvolumes "v"'),
            )
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("existing", "deleted"),
    [
        (False, [("PersistentVolumeClaim", "c"), ("PersistentVolume", "pvc-uid-c")]),
        (True, [("PersistentVolumeClaim", "c")]),
    ],
)
def test_the_claims_of_ephemeral_volumes_are_deleted_with_the_pod(
    existing: bool, deleted: list[tuple[str, str]]
) -> None:
    """A provisioned volume is deleted too; a volume that existed before stays, released."""
    own = claim(storage_class="local" if existing else "wait", owner_uid="p1")
    brief = TracePod(make_pod(volumes=(PodVolume(name="c", claim="c", ephemeral=True),)), 0,
                     10 * SECOND, (own,))  # fmt: skip
    it = InMemoryCluster([node("n1")], [brief], objects=[LOCAL, WAIT, *[volume()] * existing])
    assert [type(stimulus) for stimulus in it.due_stimuli(0)][-1] is records.PodAdded
    assert it.due_stimuli(BIND_DELAY) == [shown(own)]
    write = promise() if existing else selection()
    it.execute(Prepare(uid="p1", attempt=1, decision=5, write=write), SECOND)
    it.due_stimuli(5 * SECOND)
    bind = records.Bind(uid="p1", namespace="default", name="p1", node="n1", attempt=1, decision=9)
    it.execute(bind, 5 * SECOND)
    *_, end = it.due_stimuli(15 * SECOND + BIND_DELAY)
    assert end == records.PodDeleted(uid="p1")
    last = it.due_stimuli(60 * SECOND)
    deletions = [e for e in last if isinstance(e, records.ObjectDeleted)]
    assert [(deletion.type, deletion.name) for deletion in deletions] == deleted
    changed = [e.object for e in last if isinstance(e, records.ObjectChanged)]
    assert [obj.phase for obj in changed] == ["Released"] * existing


def test_a_run_with_volumes_replays() -> None:
    """All pods whose volumes exist or can be provisioned are placed."""
    assembly = assemble_loaded(configuration.default(), "default", IN_TREE)
    source, log = volumes.load(), MemoryEventLog()
    cluster = InMemoryCluster(source.nodes, source.arrivals, objects=source.objects)
    run = Simulation(assembly, cluster, log)
    counters = run.run()
    assert (counters.placed, counters.arrived) == (13, 15)
    waited = [entry.record for entry in log.read() if entry.kind == "PreparationIntended"]
    assert len(waited) == 12
    assert not run.engine.state.reservations
    checked = stream_replay.verify(assembly.engine, log)
    assert (checked.divergence, checked.records) == (None, log.head)
    assert checked.engine.state.digest() == run.engine.state.digest()


POD = """
kind: Pod
metadata: {name: scratch, namespace: shop}
spec:
  containers: [{name: c}]
  volumes:
  - name: tmp
    ephemeral:
      volumeClaimTemplate:
        metadata: {labels: {a: b}}
        spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
  - name: data
    persistentVolumeClaim: {claimName: d}
"""
CLASS = """
kind: StorageClass
metadata: {name: fast, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: csi.example.com
volumeBindingMode: WaitForFirstConsumer
"""


def test_claims_of_ephemeral_volumes_are_made_from_their_templates(tmp_path: Path) -> None:
    """With the defaults of an API server's admission."""
    path = tmp_path / "pods.yaml"
    path.write_text("kind: Node\nmetadata: {name: n1}\n---\n" + CLASS + "---" + POD)
    source = load.read(nodes=None, pods=None, objects=[path], generate=None)
    [arriving] = source.arrivals
    [made] = arriving.claims
    assert made == claim(
        "scratch-tmp", namespace="shop", uid=made.uid, storage_class="fast",
        access_modes=("ReadWriteOnce",), requested=2**30, phase="Pending",
        owner_uid=arriving.pod.uid,
    )  # fmt: skip
    assert len(made.uid) == 36
    assert source.together().arrivals[0].claims == (made,)
    there = "---\nkind: PersistentVolumeClaim\nmetadata: {name: scratch-tmp, namespace: shop}\n"
    path.write_text(path.read_text() + there)
    [arriving] = load.read(nodes=None, pods=None, objects=[path], generate=None).arrivals
    assert arriving.claims == ()
