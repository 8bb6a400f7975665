"""What ``explain --why-not`` finds for pods with volumes and devices."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from eventsched.domain.objects import Node, NodeSelectorTerm, Pod, PodVolume, Requirement
from eventsched.domain.objects.registry import (
    AnyObject,
    CSINode,
    NodeDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from eventsched.domain.records import ObjectChanged
from eventsched.history.why_not.hypothesis import Hypothesis
from eventsched.history.why_not.search import Remedy, remedies
from eventsched.scheduling.engine import Engine
from eventsched.testing import added, engine_with, make_node, make_pod, observed

_HERE = "kubernetes.io/hostname"
_IN_ZONE = "topology.kubernetes.io/zone"
_LOCAL = StorageClass(
    name="local", provisioner="kubernetes.io/no-provisioner", binding_mode="WaitForFirstConsumer"
)
_CLAIM = PersistentVolumeClaim(
    name="data", namespace="default", uid="c", storage_class="local", requested=2**30,
    access_modes=("ReadWriteOnce",),
)  # fmt: skip
_BOUND = replace(_CLAIM, volume="pv", bound=True, phase="Bound")
_PV = PersistentVolume(
    name="pv", storage_class="local", capacity=2**30, access_modes=("ReadWriteOnce",),
    phase="Bound", claim=("default", "data", "c"),
)  # fmt: skip
_OF_CSI = replace(_PV, driver="csi.example.com", handle="h")
_FULL = CSINode(name="n1", drivers=(NodeDriver("csi.example.com", limit=1),))
_NO_VOLUME = ["remove the volume data (claim data)"]


def _required(key: str, value: str) -> tuple[NodeSelectorTerm, ...]:
    here = Requirement(key=key, operator="In", values=(value,))
    return (NodeSelectorTerm(expressions=(here,)),)


def _found(
    pod: Pod, node: Node, objects: tuple[AnyObject, ...] = (), present: tuple[Pod, ...] = (),
    others: tuple[Node, ...] = (),
) -> list[Remedy]:  # fmt: skip
    def make_engine(weights: Mapping[str, int]) -> Engine:
        engine = engine_with(weights=weights)
        observed(engine, *added(node, *others), *(ObjectChanged(object=each) for each in objects))
        observed(engine, *added(*present))
        return engine

    return remedies(Hypothesis(make_engine, pod, node.name))


def _user(name: str, priority: int, *volumes: PodVolume) -> Pod:
    return replace(make_pod(name), node_name="n1", priority=priority, volumes=volumes)


@pytest.mark.parametrize(
    ("objects", "volumes", "present", "texts"),
    [
        ((), (PodVolume(name="data", claim="data"),), (), [_NO_VOLUME]),
        (
            (_LOCAL, _CLAIM), (PodVolume(name="data", claim="data"),), (),
            [_NO_VOLUME,
             ["create a PersistentVolume of 1024Mi, storage class local, for the claim "
              "default/data"]],
        ),
        (
            (_LOCAL, _BOUND), (PodVolume(name="data", claim="data"),), (),
            [_NO_VOLUME,
             ["create the PersistentVolume pv of 1024Mi, storage class local, for the claim "
              "default/data"]],
        ),
        (
            (StorageClass(name="now"), replace(_CLAIM, storage_class="now")),
            (PodVolume(name="data", claim="data"),), (),
            [_NO_VOLUME,
             ["have the claim default/data bound, to a PersistentVolume of 1024Mi, storage class "
              "now"]],
        ),
        (
            (_BOUND, replace(_PV, node_terms=_required(_HERE, "n2"))),
            (PodVolume(name="data", claim="data"),), (),
            [_NO_VOLUME,
             ["create the PersistentVolume pv again, without its node affinity"]],
        ),
        (
            (_BOUND, replace(_PV, node_terms=_required("rack", "r2"))),
            (PodVolume(name="data", claim="data"),), (),
            [_NO_VOLUME, ["label the node rack=r2"]],
        ),
        (
            (_BOUND, replace(_PV, labels={_IN_ZONE: "b__c"})),
            (PodVolume(name="data", claim="data"),), (),
            [_NO_VOLUME, [f"label the node {_IN_ZONE}=b"]],
        ),
        (
            (replace(_BOUND, access_modes=("ReadWriteOncePod",)), _PV),
            (PodVolume(name="data", claim="data"),),
            (_user("a", 0), _user("b", 5, PodVolume(name="d", claim="data"))),
            [_NO_VOLUME, ["remove the pod default/b (priority 5)"]],
        ),
        (
            (), (PodVolume(name="disk", source="gcePersistentDisk", identity=("x",)),),
            (_user("a", 0, PodVolume(source="gcePersistentDisk", identity=("y",))),
             _user("b", 5, PodVolume(source="gcePersistentDisk", identity=("x",)))),
            [["remove the volume disk"], ["remove the pod default/b (priority 5)"]],
        ),
        (
            (_BOUND, _OF_CSI, _FULL,
             replace(_BOUND, name="other", uid="o", volume="pv2"),
             replace(_OF_CSI, name="pv2", handle="h2", claim=("default", "other", "o"))),
            (PodVolume(name="data", claim="data"),),
            (_user("a", 0), _user("b", 5, PodVolume(name="d", claim="other"))),
            [_NO_VOLUME, ["remove the pod default/b (priority 5)"]],
        ),
    ],
)  # fmt: skip
def test_the_change_for_a_volume(
    objects: tuple[AnyObject, ...],
    volumes: tuple[PodVolume, ...],
    present: tuple[Pod, ...],
    texts: list[list[str]],
) -> None:
    node = make_node("n1", labels={_HERE: "n1", _IN_ZONE: "a"})
    found = _found(replace(make_pod(), volumes=volumes), node, objects, present)
    assert [[change.text for change in remedy.changes] for remedy in found] == texts


def test_a_pod_with_devices_lands_without_all_of_its_claims() -> None:
    """What the devices of claims are is not in the log: nothing else can be proved."""
    pod = replace(make_pod(), resource_claims=("gpu", "nic"))
    [remedy] = _found(pod, make_node("n1"))
    assert remedy.landing.plugins == ("DynamicResources",)
    assert [change.text for change in remedy.changes] == [
        "remove the resource claim gpu, and with it the devices",
        "remove the resource claim nic, and with it the devices",
    ]


@pytest.mark.parametrize(
    ("objects", "volumes", "innocent", "guilty"),
    [
        (
            (replace(_BOUND, access_modes=("ReadWriteOncePod",)), _PV,
             replace(_BOUND, name="shared", uid="s", access_modes=("ReadWriteMany",))),
            (PodVolume(name="data", claim="data"), PodVolume(name="shared", claim="shared")),
            PodVolume(name="s", claim="shared"), PodVolume(name="d", claim="data"),
        ),
        (
            (), (PodVolume(name="disk", source="gcePersistentDisk", identity=("x",)),),
            PodVolume(name="d", source="gcePersistentDisk", identity=("y",)),
            PodVolume(name="d", source="gcePersistentDisk", identity=("x",)),
        ),
        (
            (_BOUND, _OF_CSI, _FULL,
             replace(_BOUND, name="other", uid="o", volume="pv2"),
             replace(_OF_CSI, name="pv2", handle="h2", claim=("default", "other", "o"))),
            (PodVolume(name="data", claim="data"),),
            PodVolume(name="d", source="gcePersistentDisk", identity=("y",)),
            PodVolume(name="d", claim="other"),
        ),
    ],
)  # fmt: skip
def test_pods_with_volumes_that_are_not_in_the_way_stay(
    objects: tuple[AnyObject, ...],
    volumes: tuple[PodVolume, ...],
    innocent: PodVolume,
    guilty: PodVolume,
) -> None:
    """Without the large ones the node would score more than the empty one: a change that cannot be
    left out then, but not what refuses the pod."""
    large = [replace(_user(f"i{n}", 0, innocent), spec=make_pod(cpu=1500).spec) for n in range(2)]
    small = replace(_user("g", 5, guilty), spec=make_pod(cpu=10).spec)
    labels = {_HERE: "n1", _IN_ZONE: "a"}
    node, other = make_node("n1", cpu=8000, labels=labels), make_node("n2", cpu=4000, labels=labels)
    pod = replace(make_pod(), volumes=volumes)
    found = _found(pod, node, objects, (*large, small), (other,))
    removed = {
        c.text for remedy in found for c in remedy.changes if c.text.startswith("remove the pod")
    }
    assert removed == {"remove the pod default/g (priority 5)"}
