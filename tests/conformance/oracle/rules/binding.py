"""VolumeBinding and VolumeZone: which claims can be had on which nodes."""

import random
from typing import Any

from tests.conformance.oracle.clusters import HOSTNAME, ZONE, Obj, requires, storage_class
from tests.conformance.oracle.profiles import only
from tests.conformance.oracle.rules.claims import (
    EBS,
    bound,
    claim,
    csi_node,
    ephemeral,
    holds,
    made_for,
    mounting,
    mounts,
    storage,
    volume,
)
from tests.conformance.oracle.rules.vocabulary import Kind, matching, node, pod, where

REGION = "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
CSI_ZONES = (
    "topology.ebs.csi.aws.com/zone",
    "topology.gke.io/zone",
    "topology.cinder.csi.openstack.org/zone",
)
# What became a CSI driver's volume, where the node says that the plugin's volumes are the driver's.
IN_TREE: dict[str, Obj] = {
    "ebs": {"awsElasticBlockStore": {"volumeID": "aws://zone-a/vol-1"}},
    "gce": {"gcePersistentDisk": {"pdName": "disk"}},
    "cinder": {"cinder": {"volumeID": "c"}},
    "azure-disk": {"azureDisk": {"diskName": "d", "diskURI": "/subscriptions/s/disks/d"}},
    "azure-file": {"azureFile": {"secretName": "s", "shareName": "f"}},
    "portworx": {"portworxVolume": {"volumeID": "p"}},
}
LATE, NOW = "WaitForFirstConsumer", "Immediate"


def _nodes() -> list[Obj]:
    return [
        node("n0", {REGION: "r1", **dict.fromkeys(CSI_ZONES, "zone-a")}),
        node("n1", {REGION: "r1", ZONE: "zone-b", **dict.fromkeys(CSI_ZONES, "zone-b")}),
        node("n2", {ZONE: "zone-c"}),
        node("beta", {ZONE: None, BETA_ZONE: "zone-a", BETA_REGION: "r1"}),
        node("nowhere", {ZONE: None}),
    ]


def _capacity(name: str, class_name: str, more: Obj) -> Obj:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": name, "namespace": "default"},
        "storageClassName": class_name,
        **more,
    }


def _classes() -> list[Obj]:
    zones = [{"key": ZONE, "values": ["zone-a", "zone-b"]}]
    tracked = "tracked.example.com"
    default = storage_class("usual", "csi.example.com", LATE)
    default["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
    return [
        default,
        storage_class("wait", "csi.example.com", LATE),
        storage_class("now", "csi.example.com", NOW),
        storage_class("local", "kubernetes.io/no-provisioner", LATE),
        storage_class("zonal", "csi.example.com", LATE, allowedTopologies=[
            {"matchLabelExpressions": zones}
        ]),
        storage_class("two-topologies", "csi.example.com", LATE, allowedTopologies=[
            {"matchLabelExpressions": [*zones, {"key": REGION, "values": ["r1"]}]},
            {"matchLabelExpressions": [{"key": HOSTNAME, "values": ["n2"]}]},
        ]),
        storage_class("tracked", tracked, LATE),
        storage_class("untracked", "untracked.example.com", LATE),
        storage("CSIDriver", tracked, {"storageCapacity": True}),
        storage("CSIDriver", "untracked.example.com", {"storageCapacity": False}),
        _capacity("a", "tracked", {
            "capacity": "5Gi", "nodeTopology": matching(**{ZONE: "zone-a"}),
        }),
        _capacity("b", "tracked", {
            "capacity": "50Gi", "maximumVolumeSize": "2Gi",
            "nodeTopology": where(ZONE, "In", "zone-b"),
        }),
        _capacity("c", "other", {"capacity": "90Gi", "nodeTopology": {}}),
        _capacity("d", "tracked", {"capacity": "90Gi"}),
        _capacity("e", "tracked", {"nodeTopology": {}}),
    ]  # fmt: skip


def _volumes(r: random.Random) -> list[Obj]:
    on = [r.choice(["n0", "n1", "n2"]) for _ in range(4)]
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/hold"]}
    return [
        _local("local-small", "1Gi", on[:1]),
        _local("local-middle", "5Gi", on[:2]),
        _local("local-large", "20Gi", on[2:]),
        _local("local-labelled", "50Gi", on[1:3], metadata={"labels": {"tier": "gold"}}),
        _local("local-failed", "50Gi", [], phase="Failed"),
        _local("local-deleted", "50Gi", [], metadata=deleted),
        _local("local-block", "50Gi", on[3:], volumeMode="Block"),
        _local("local-many", "70Gi", on[:1], modes=["ReadWriteMany"]),
        _local("local-reserved", "9Gi", on[:1], of="prebound-volume"),
        volume("old", "", "9Gi", source={"local": {"path": "/d"}}),
    ]


def _migrated() -> list[Obj]:
    made = []
    for name, source in IN_TREE.items():
        made += bound(f"migrated-{name}", source=source)
        made += bound(
            f"beta-{name}",
            source=source,
            metadata={"labels": {BETA_ZONE: "zone-a"}},
            nodeAffinity=requires(BETA_ZONE, ["zone-a"]),
        )
        made += bound(
            f"zonal-{name}",
            source=source,
            metadata={"labels": {ZONE: "zone-b"}},
            nodeAffinity=requires(ZONE, ["zone-b"]),
        )
    return made  # fmt: skip


def _local(name: str, size: str, on: list[str], **more: Any) -> Obj:
    if on:
        more["nodeAffinity"] = requires(HOSTNAME, on)
    return volume(name, "local", size, source={"local": {"path": "/d"}}, **more)


def _claims() -> list[Obj]:
    selected = "volume.kubernetes.io/selected-node"
    beta_class = "volume.beta.kubernetes.io/storage-class"
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/hold"]}
    return [
        *bound("bound"),
        *bound("bound-zonal", nodeAffinity=requires(ZONE, ["zone-a"])),
        *bound("bound-empty-affinity", nodeAffinity={"required": {"nodeSelectorTerms": []}}),
        claim("bound-to-nothing", "now", volume="no-such-volume"),
        claim("half-bound", "now", volume="pv-bound", annotations={}),
        claim("waits", "wait"),
        claim("waits-usual", None),
        claim("waits-no-class", ""),
        claim("waits-beta-class", None, annotations={beta_class: "wait"}),
        claim("waits-unknown-class", "no-such-class"),
        claim("immediate", "now"),
        claim("prebound", "local", volume="local-large", annotations={}),
        claim("prebound-volume", "local", "8Gi"),
        claim("zonal", "zonal"),
        claim("two-topologies", "two-topologies"),
        claim("selected", "wait", annotations={selected: "n1"}),
        claim("selected-zonal", "zonal", annotations={selected: "n2"}),
        claim("selected-elsewhere", "local", annotations={selected: "gone"}),
        claim("lost", "now", volume="gone", phase="Lost"),
        claim("deleted", "wait", metadata=deleted),
        claim("local-1", "local", "1Gi"),
        claim("local-2", "local", "1Gi"),
        claim("local-6", "local", "6Gi"),
        claim("local-99", "local", "99Gi"),
        claim("local-no-size", "local", None),
        claim("local-gold", "local", selector=matching(tier="gold")),
        claim("local-block", "local", volumeMode="Block"),
        claim("local-many", "local", modes=["ReadWriteMany"]),
        claim("local-attributes", "local", volumeAttributesClassName="fast"),
        claim("tracked-1", "tracked", "1Gi"),
        claim("tracked-3", "tracked", "3Gi"),
        claim("tracked-9", "tracked", "9Gi"),
        claim("tracked-no-size", "tracked", None),
        claim("untracked", "untracked", "900Gi"),
        claim("not-mine-0-v0", "wait", metadata=made_for("somebody")),
        claim("mine-1-v0", "zonal", metadata=made_for("mine-1")),
    ]


_ALL_MIGRATED = ",".join(
    f"kubernetes.io/{each}"
    for each in ("aws-ebs", "gce-pd", "cinder", "azure-disk", "azure-file", "portworx-volume")
)


def _cluster(r: random.Random) -> list[Obj]:
    drivers = [
        csi_node("n0", (EBS, None), migrated="kubernetes.io/aws-ebs,kubernetes.io/cinder"),
        csi_node("n1", (EBS, None), migrated="kubernetes.io/gce-pd"),
        csi_node("n2"),
        csi_node("beta", migrated=_ALL_MIGRATED),
    ]
    return [*_nodes(), *drivers, *_classes(), *_volumes(r), *_claims(), *_migrated()]


_NAMES = [
    each["metadata"]["name"]
    for each in _claims()
    if each["kind"] == "PersistentVolumeClaim" and not each["metadata"]["name"].endswith("-v0")
]
_BINDING = {
    # The first two pods of the first scenario have claims by their names, later ones have none.
    "not-mine": lambda r: holds(ephemeral()),
    "mine": lambda r: holds(ephemeral()),
    **{name: mounting(name) for name in _NAMES},
    **{
        f"{kind}-{plugin}": mounting(f"{kind}-{plugin}")
        for plugin in IN_TREE
        for kind in ("migrated", "beta", "zonal")
    },
    "no-such-claim": lambda r: mounts("no-such-claim"),
    "claim-of-another-namespace": lambda r: mounts("bound", namespace="other"),
    "no-claim": lambda r: holds({"emptyDir": {}}),
    "bound-and-waiting": lambda r: mounts("bound-zonal", "waits"),
    "bound-conflict-and-local": lambda r: mounts("bound-zonal", "local-6"),
    "bound-and-immediate": lambda r: mounts("bound", "immediate"),
    "local-both": lambda r: mounts("local-1", "local-2"),
    "local-three": lambda r: mounts("local-6", "local-2", "local-1"),
    "local-and-zonal": lambda r: mounts("local-1", "zonal"),
    "local-and-tracked": lambda r: mounts("local-1", "tracked-9"),
    "one-claim-twice": lambda r: mounts("local-1", "local-1"),
    "selected-and-not": lambda r: mounts("selected", "zonal"),
    "ephemeral-not-made-yet": lambda r: holds(ephemeral()),
    "zonal-and-selector": lambda r: mounts("zonal", nodeSelector={ZONE: "zone-b"}),
    "no-volumes": lambda r: pod(),
}


def _zone_cluster(r: random.Random) -> list[Obj]:
    labels = {
        "zone": {ZONE: r.choice(["zone-a", "zone-b"])},
        "zones": {ZONE: "zone-a__zone-b"},
        "region": {REGION: "r1"},
        "zone-and-region": {ZONE: "zone-a", REGION: "r2"},
        "beta": {BETA_ZONE: "zone-a"},
        "beta-region": {BETA_REGION: "r1"},
        "both": {BETA_ZONE: "zone-a", ZONE: "zone-b"},
        "malformed": {ZONE: "zone-a____zone-b"},
        "empty": {ZONE: ""},
        "unlabelled": {"tier": "gold"},
    }
    made = [*_nodes(), *_classes()]
    for name, each in labels.items():
        made += bound(name, metadata={"labels": each})
    made += [
        claim("waits", "wait"),
        claim("immediate", "now"),
        claim("no-class", ""),
        claim("unknown-class", "no-such-class"),
        claim("bound-to-nothing", "now", volume="no-such-volume"),
    ]
    return made


_ZONES = {
    name: mounting(name)
    for name in ("zone", "zones", "region", "zone-and-region", "beta", "beta-region", "both",
                 "malformed", "empty", "unlabelled", "waits", "immediate", "no-class",
                 "unknown-class", "bound-to-nothing", "no-such-claim")
} | {
    "two-volumes": lambda r: mounts("zone", "region"),
    "two-zones": lambda r: mounts("zones", "both"),
    "ephemeral": lambda r: holds(ephemeral()),
    "waits-and-zone": lambda r: mounts("waits", "zone"),
    "no-volumes": lambda r: pod(),
}  # fmt: skip


KINDS = [
    Kind("volume-binding", _cluster, _BINDING, ("", only("VolumeBinding"))),
    Kind("volume-zones", _zone_cluster, _ZONES, (only("VolumeZone"), "")),
]
