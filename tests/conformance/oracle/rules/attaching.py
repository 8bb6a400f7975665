"""NodeVolumeLimits and VolumeRestrictions: how many volumes a node takes, and which."""

import random
from collections.abc import Mapping

from tests.conformance.oracle.clusters import Obj, storage_class
from tests.conformance.oracle.profiles import only
from tests.conformance.oracle.rules.claims import (
    DRIVER,
    EBS,
    GCE,
    attachment,
    bound,
    claim,
    csi_node,
    ephemeral,
    holding,
    holds,
    made_for,
    mounting,
    mounts,
    volume,
)
from tests.conformance.oracle.rules.vocabulary import Kind, node, placed, pod

_DRIVERS = (EBS, GCE, "disk.csi.azure.com", "file.csi.azure.com", "cinder.csi.openstack.org",
            "pxd.portworx.com", "csi.vsphere.vmware.com")  # fmt: skip
LATE = "WaitForFirstConsumer"
OTHER = "other.example.com"
ONCE = ["ReadWriteOncePod"]


def _disk(volume_id: str) -> Obj:
    return {"awsElasticBlockStore": {"volumeID": volume_id}}


def _pd(name: str, read_only: bool = False) -> Obj:
    return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def _owned(pod_name: str, claim_name: str, volume_name: str) -> list[Obj]:
    made = claim(claim_name, "now", volume=volume_name, metadata=made_for(pod_name))
    return [made, volume(volume_name, of=claim_name)]


def _limits(r: random.Random) -> list[Obj]:
    names = [f"n{index}" for index in range(7)]
    drivers = [
        csi_node("n0", (DRIVER, 1)),
        csi_node("n1", (DRIVER, r.choice([2, 3])), (OTHER, 1)),
        csi_node("n2", (DRIVER, None), (EBS, 1), migrated="kubernetes.io/aws-ebs"),
        csi_node("n3", (DRIVER, 0), (EBS, 0)),
        csi_node("n4", (EBS, 1), (GCE, 1), migrated="kubernetes.io/aws-ebs,kubernetes.io/gce-pd"),
        csi_node("n5", *((driver, r.choice([0, 1])) for driver in _DRIVERS)),
    ]
    classes = [
        storage_class("wait", DRIVER, LATE),
        storage_class("wait-other", OTHER, LATE),
        storage_class("wait-ebs", "kubernetes.io/aws-ebs", LATE),
        storage_class("now", DRIVER, "Immediate"),
    ]
    storage = [part for index in range(6) for part in bound(f"c{index}")]
    storage += bound("other", source={"csi": {"driver": OTHER, "volumeHandle": "o"}})
    storage += bound("ebs", source=_disk("vol-1"))
    storage += bound("ebs-in-zone", source=_disk("aws://zone-a/vol-12"))
    storage += bound("ebs-malformed", source=_disk("aws://zone-a/disk"))
    for name, zones in _REGIONS.items():
        labels = {"topology.kubernetes.io/zone": zones}
        storage += bound(name, source=_pd("disk-8"), metadata={"labels": labels})
    for plugin, source in _IN_TREE.items():
        storage += bound(plugin, source=source)
    storage += bound(
        "shared-handle", source={"csi": {"driver": DRIVER, "volumeHandle": "handle-pv-c0"}}
    )
    storage += _owned("owner", "owner-v0", "pv-owned")
    storage += _owned("ephemeral-0", "ephemeral-0-v0", "pv-mine")
    storage += [claim("waits", "wait"), claim("waits-other", "wait-other"),
                claim("waits-ebs", "wait-ebs"), claim("unknown-class", "no-such-class"),
                claim("bound-to-nothing", "wait", volume="no-such-volume"),
                claim("classless", None, volume="no-such-volume")]  # fmt: skip
    running = [
        placed(f"e{index}", r.choice(names), mounts(*r.sample(_PLACED, r.choice([1, 1, 2]))))
        for index in range(r.randint(2, 6))
    ]
    running += [
        placed("owner", r.choice(names), holds(ephemeral())),
        placed("disk", r.choice(["n2", "n4"]), holds(_disk("vol-9"))),
        placed("broken", "n1", mounts("gone")),
        placed("inline", "n1", holds({"csi": {"driver": DRIVER}}, {"emptyDir": {}})),
    ]
    attached = [
        attachment("a0", "n1", "pv-c5"),
        attachment("a1", r.choice(names), "pv-c0"),
        attachment("a2", "n0", "no-such-volume"),
        attachment("a3", "n0", None),
        attachment("a4", "n4", "pv-ebs", EBS),
        attachment("a5", "n0", "pv-c1", ""),
        attachment("a6", "n1", "pv-other", OTHER),
    ]
    return [*map(node, names), *drivers, *classes, *storage, *running, *attached]


# Volumes of plugins that are in the tree, or were: some count as volumes of the driver they became.
_IN_TREE: dict[str, Obj] = {
    "nfs": {"nfs": {"server": "s", "path": "/"}},
    "gce": {"gcePersistentDisk": {"pdName": "disk-7"}},
    "azure-disk": {"azureDisk": {"diskName": "d", "diskURI": "/subscriptions/s/disks/d",
                                 "kind": "Managed"}},
    "azure-file": {"azureFile": {"secretName": "s", "shareName": "f"}},
    "cinder": {"cinder": {"volumeID": "c"}},
    "portworx": {"portworxVolume": {"volumeID": "p"}},
    "vsphere": {"vsphereVolume": {"volumePath": "[ds] v.vmdk"}},
}  # fmt: skip
_REGIONS = {
    "gce-zone": "europe-west1-b",
    "gce-region": "europe-west1-b__europe-west1-c",
    "gce-two-regions": "europe-west1-b__us-central1-a",
    "gce-no-region": "zone-a__zone-b",
}
_MALFORMED = ["ebs-malformed", "gce-two-regions", "gce-no-region"]
_PLACED = [*_MALFORMED, "c0", "c1", "c2", "other", "ebs", "waits", "nfs"]
_LIMITS = {
    "ephemeral": lambda r: holds(ephemeral()),  # the first pod of the first scenario has its claim
    **{
        name: mounting(name)
        for name in ("c0", "c3", "c5", "other", "ebs", "ebs-in-zone",
                     "gce-zone", "gce-region", *_IN_TREE, "shared-handle", "waits",
                     "waits-other", "waits-ebs", "unknown-class", "bound-to-nothing", "classless",
                     "gone")
    },
    "two": lambda r: mounts("c3", "c4"),
    "three": lambda r: mounts("c3", "c4", "c1"),
    "two-drivers": lambda r: mounts("c3", "other"),
    "two-the-same": lambda r: mounts("c3", "c3"),
    "ebs-inline": lambda r: holds(_disk("vol-2")),
    "ebs-inline-there": lambda r: holds(_disk("vol-9")),
    "ebs-inline-and-claim": lambda r: holds(
        _disk("vol-2"), {"persistentVolumeClaim": {"claimName": "ebs"}}
    ),
    **{
        f"{name}-inline": holding(source)
        for name, source in _IN_TREE.items()
        if name != "portworx"
    },
    "csi-inline-and-claim": lambda r: holds(
        {"csi": {"driver": DRIVER}}, {"persistentVolumeClaim": {"claimName": "c3"}}
    ),
    "csi-inline": lambda r: holds({"csi": {"driver": DRIVER}}),
    "ephemeral-of-another": lambda r: holds(ephemeral(), namespace="other"),
    "no-volumes": lambda r: pod(),
}  # fmt: skip


def _iscsi(name: str, read_only: bool = False) -> Obj:
    return {"iscsi": {"targetPortal": "p", "iqn": name, "lun": 0, "readOnly": read_only}}


def _rbd(monitors: list[str], image: str = "i", pool: str = "rbd", read_only: bool = False) -> Obj:
    made = {"monitors": monitors, "image": image, "pool": pool, "readOnly": read_only}
    return {"rbd": made}


def _residents(r: random.Random) -> Mapping[str, Obj]:
    def low(*sources: Obj) -> Obj:
        return holds(*sources, priority=r.choice([0, 5, 200]))

    return {
        "pd": low(_pd("disk-1")),
        "pd-read-only": low(_pd("disk-2", True)),
        "ebs": low(_disk("vol-1")),
        "iscsi": low(_iscsi("iqn-1")),
        "iscsi-read-only": low(_iscsi("iqn-2", True)),
        "rbd": low(_rbd(["m1", "m2"])),
        "rbd-read-only": low(_rbd(["m1", "m2", "m3"], "j", read_only=True)),
        "once": low({"persistentVolumeClaim": {"claimName": "once"}}),
        "once-dear": holds({"persistentVolumeClaim": {"claimName": "once-dear"}}, priority=500),
        "many": low(_pd("disk-3"), _disk("vol-3"), {"persistentVolumeClaim": {"claimName": "rw"}}),
    }


def _restrictions(r: random.Random) -> list[Obj]:
    names = [f"n{index}" for index in range(4)]
    made = [node(name) for name in names]
    made += [*bound("once", modes=ONCE), *bound("once-free", modes=ONCE), *bound("rw")]
    made += bound("once-dear", modes=ONCE)
    made += bound("both-modes", modes=["ReadWriteOnce", *ONCE])
    for name, each in _residents(r).items():
        each["status"] = {"startTime": f"2026-01-01T00:00:{r.randint(10, 59)}Z"}
        made.append(placed(f"has-{name}", r.choice(names[:3]), each))
    namesake = placed("namesake", "n3", mounts("once-free", namespace="other"))
    namesake["metadata"]["namespace"] = "other"
    return [*made, namesake]


def _asks(*sources: Obj) -> Obj:
    return holds(*sources, priority=100)


def _asks_for(name: str) -> Obj:
    return _asks({"persistentVolumeClaim": {"claimName": name}})


_RESTRICTIONS = {
    "pd-there": lambda r: _asks(_pd("disk-1")),
    "pd-there-read-only": lambda r: _asks(_pd("disk-1", True)),
    "pd-both-read-only": lambda r: _asks(_pd("disk-2", True)),
    "pd-writes-to-read-only": lambda r: _asks(_pd("disk-2")),
    "pd-elsewhere": lambda r: _asks(_pd("disk-9")),
    "ebs-there": lambda r: _asks(_disk("vol-1")),
    "ebs-elsewhere": lambda r: _asks(_disk("vol-9")),
    "iscsi-there": lambda r: _asks(_iscsi("iqn-1")),
    "iscsi-both-read-only": lambda r: _asks(_iscsi("iqn-2", True)),
    "iscsi-writes": lambda r: _asks(_iscsi("iqn-2")),
    "rbd-there": lambda r: _asks(_rbd(["m2", "m9"])),
    "rbd-other-monitor": lambda r: _asks(_rbd(["m9"])),
    "rbd-other-pool": lambda r: _asks(_rbd(["m1"], pool="p")),
    "rbd-other-image": lambda r: _asks(_rbd(["m1"], "k")),
    "rbd-both-read-only": lambda r: _asks(_rbd(["m3"], "j", read_only=True)),
    "rbd-writes": lambda r: _asks(_rbd(["m3", "m1", "m5", "m7"], "j")),
    "once-in-use": lambda r: _asks_for("once"),
    "once-in-use-by-a-dearer-one": lambda r: _asks_for("once-dear"),
    "once-free": lambda r: _asks_for("once-free"),
    "once-among-other-modes": lambda r: _asks_for("both-modes"),
    "once-two": lambda r: _asks(
        {"persistentVolumeClaim": {"claimName": "once"}},
        {"persistentVolumeClaim": {"claimName": "once-dear"}},
    ),
    "once-and-disk": lambda r: _asks(
        {"persistentVolumeClaim": {"claimName": "once"}}, _pd("disk-1")
    ),
    "several-disks": lambda r: _asks(_pd("disk-3"), _disk("vol-1")),
    "not-once": lambda r: _asks_for("rw"),
    "no-such-claim": lambda r: _asks_for("no-such-claim"),
    "no-volumes": lambda r: pod(priority=100),
}

KINDS = [
    Kind(
        "volume-limits", _limits, _LIMITS, (only("NodeVolumeLimits"), only("NodeVolumeLimits"), "")
    ),
    Kind("volume-restrictions", _restrictions, _RESTRICTIONS, preempt=True),
]
