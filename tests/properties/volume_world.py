"""An engine with the volume plugins, and what may happen to it: nodes, pods, claims, volumes and
whatever else they depend on come, change and go by a seed."""

import json
import random
from collections.abc import Iterator
from typing import Any

import msgspec

from eventsched.domain import records
from eventsched.domain.objects import Node, NodeSelectorTerm, Pod, PodVolume, Requirement
from eventsched.domain.objects.registry import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    NodeDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from eventsched.domain.records import Stimulus
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.object_writes import BindVolume, SelectNode, Write
from eventsched.plugins.node_volume_limits import NodeVolumeLimits
from eventsched.plugins.volume_binding import VolumeBinding
from eventsched.plugins.volume_restrictions import VolumeRestrictions
from eventsched.plugins.volume_zone import VolumeZone
from eventsched.scheduling.config.pluginargs import VolumeBindingArgs
from eventsched.scheduling.engine import Engine
from tests.builders import engine_of, make_node

from . import naive_volumes as naive

NODES = [f"n{number}" for number in range(7)]
NAMESPACES = ["default", "default", "other"]
CLASSES = ["wait", "zonal", "local", "now", "pools"]
DRIVERS = ["csi.example.com", "pools.example.com"]
ZONES = ["a", "b", "c"]
MODES = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteOncePod"]
KINDS = [
    "node", "node gone", "bound pod", "bound pod", "pod", "pod", "pod", "gone", "outcome",
    "outcome", "claim", "claim", "volume", "volume", "other", "other", "forget", "controller",
    "controller", "written", "written", "bound", "bound", "time",
]  # fmt: skip
PODS = 25
"""If there are more, some go first."""


class World:
    """An engine, and what may happen to it: ``kinds``, each as often as it is in there."""

    kinds = KINDS

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.engine = self.fresh()
        self.twin: Engine | None = None
        """Another one, which has not been restarted the last time."""
        self.log: list[LogEntry] = []
        self.now, self.born = 0, 0
        for name in NODES[:4]:
            self._observe(records.NodeAdded(node=self._node(name)))
        for name in CLASSES:
            self._observe(records.ObjectChanged(object=self._class(name)))
        self._observe(records.ObjectChanged(object=CSIDriver(name=DRIVERS[1], capacity=True)))

    def fresh(self) -> Engine:
        """An engine with new plugins."""
        self.binding = VolumeBinding(VolumeBindingArgs(bind_timeout_seconds=60))
        self.zones = VolumeZone()
        self.limits, self.restrictions = NodeVolumeLimits(), VolumeRestrictions()
        return engine_of(self.restrictions, self.limits, self.binding, self.zones)

    @property
    def state(self) -> Any:
        """The engine's."""
        return self.engine.state

    def _observe(self, stimulus: Stimulus) -> None:
        logged = self.engine.observe(stimulus, self.now)
        if self.twin is not None:
            self.same(self.twin.observe(stimulus, self.now), logged)
        self.log += logged

    def same(self, theirs: list[LogEntry], ours: list[LogEntry]) -> None:
        """Both engines say the same."""
        assert [each.record for each in theirs] == [each.record for each in ours]

    def memory(self) -> dict[str, list[str]]:
        """VolumeBinding's memory."""
        return self.state.memory.get("VolumeBinding", {})

    # --- values ---------------------------------------------------------------------------

    def some(self, chance: float) -> bool:
        """Whether something of that chance happens."""
        return self.random.random() < chance

    def _node(self, name: str) -> Node:
        keys = ["zone", naive.ZONE, naive.REGION, *naive.BETA]
        labels = {key: self.random.choice(ZONES) for key in keys if self.some(0.5)}
        return make_node(name, labels={"host": name, **labels})

    def _requirement(self) -> Requirement:
        key = self.random.choice(["zone", "host", naive.ZONE])
        values = NODES if key == "host" else ZONES
        operator = self.random.choice(["In", "In", "In", "NotIn", "Exists", "DoesNotExist"])
        few = tuple(self.random.sample(values, self.random.randint(1, 2)))
        return Requirement(key=key, operator=operator, values=few if "In" in operator else ())

    def _terms(self) -> tuple[NodeSelectorTerm, ...] | None:
        if self.some(0.3):
            return None
        number = self.random.choice([1, 1, 1, 2, 0])
        return tuple(
            NodeSelectorTerm(
                expressions=tuple(
                    self._requirement() for _ in range(self.random.choice([1, 1, 2, 0]))
                )
            )
            for _ in range(number)
        )

    def _class(self, name: str) -> StorageClass:
        driver = {"local": "kubernetes.io/no-provisioner", "pools": DRIVERS[1]}
        topologies: tuple[tuple[Requirement, ...], ...] = ()
        if name == "zonal":
            zones = [tuple(self.random.sample(ZONES, 2)) for _ in range(self.random.randint(1, 2))]
            topologies = tuple(
                (Requirement(key=naive.ZONE, operator="In", values=each),) for each in zones
            )
        return StorageClass(
            name=name,
            provisioner=driver.get(name, DRIVERS[0]),
            binding_mode="Immediate" if name == "now" else naive.WAITS,
            topologies=topologies,
        )

    def _claim(self, name: str, namespace: str, **fields: Any) -> PersistentVolumeClaim:
        r = self.random
        self.born += self.some(0.3)
        filled: dict[str, Any] = {
            "uid": f"{namespace}/{name}/{self.born}",
            "storage_class": r.choice([*CLASSES, "local", "unknown"]) if self.some(0.95) else None,
            "access_modes": tuple(r.sample(MODES, r.choice([0, 1, 1, 2]))),
            "volume_mode": "Block" if self.some(0.1) else "Filesystem",
            "requested": r.choice([0, 1, 5, 5, 10]),
            "selector": self._labels_of_volumes() if self.some(0.2) else (),
            "phase": "Lost" if self.some(0.03) else "Pending",
            "deleting": self.some(0.03),
            "selected_node": r.choice(NODES) if self.some(0.1) else "",
            "attributes_class": "gold" if self.some(0.1) else "",
        }
        if self.some(0.35):
            filled |= {"volume": f"v{r.randint(0, 11)}", "bound": self.some(0.9)}
        return PersistentVolumeClaim(name=name, namespace=namespace, **{**filled, **fields})

    def _labels_of_volumes(self) -> tuple[Requirement, ...]:
        operator = self.random.choice(["In", "NotIn"])
        return (Requirement(key="kind", operator=operator, values=("x",)),)

    def _volume(self, name: str) -> PersistentVolume:
        r = self.random
        keys = [naive.ZONE, naive.REGION, *naive.BETA]
        labels = {key: r.choice(["a", "b", "a__b", "c __ a", "a__"]) for key in keys}
        labels = {key: value for key, value in labels.items() if self.some(0.15)}
        claim = None
        if self.some(0.2):
            namespace, number = r.choice(NAMESPACES), r.randint(0, 7)
            known = self.state.registry.get(PersistentVolumeClaim, f"c{number}", namespace)
            uid = "" if known is None or self.some(0.4) else known.uid
            claim = (namespace, f"c{number}", uid)
        driver = r.choice(DRIVERS) if self.some(0.5) else ""
        return PersistentVolume(
            name=name,
            storage_class=r.choice(["local", "local", "local", "wait", ""]),
            capacity=r.choice([1, 5, 7, 10, 20]),
            access_modes=tuple(r.sample(MODES, r.choice([1, 2, 3, 3]))),
            volume_mode="Block" if self.some(0.1) else "Filesystem",
            phase="Available" if self.some(0.85) else "Released",
            claim=claim,
            labels={**labels, "kind": r.choice("xy")},
            node_terms=self._terms(),
            driver=driver,
            handle=r.choice("hijk") if driver else "",
            deleting=self.some(0.05),
            attributes_class="gold" if self.some(0.1) else "",
        )

    def _other(self) -> Any:
        r = self.random
        kinds = ["node", "node", "pool", "pool", "attachment", "attachment", "driver", "class"]
        kind = r.choice(kinds)
        if kind == "node":
            chosen = [name for name in (*DRIVERS, "ebs.csi.aws.com") if self.some(0.8)]
            drivers = [
                NodeDriver(name=name, limit=r.randint(0, 3) if self.some(0.7) else None)
                for name in chosen
            ]
            return CSINode(name=r.choice(NODES), drivers=tuple(drivers))
        if kind == "pool":
            return CSIStorageCapacity(
                name=f"s{r.randint(0, 5)}",
                storage_class="pools" if self.some(0.9) else "wait",
                capacity=r.choice([None, 1, 5, 10]),
                largest=r.choice([None, None, 1, 5, 10]),
                topology=r.choice([None, (), (self._requirement(),), (self._requirement(),)]),
            )
        if kind == "attachment":
            volume = f"v{r.randint(0, 11)}" if self.some(0.9) else ""
            found = self.state.registry.get(PersistentVolume, volume)
            return VolumeAttachment(
                name=f"a{r.randint(0, 5)}",
                attacher=found.driver if found and self.some(0.8) else r.choice([*DRIVERS, ""]),
                node=r.choice(NODES),
                volume=volume,
            )
        if kind == "driver":
            return CSIDriver(name=DRIVERS[1], capacity=self.some(0.8))
        return self._class(r.choice(CLASSES))

    def pod(self, **fields: Any) -> Pod:
        """A new one."""
        r = self.random
        self.born += 1
        uid = f"p{self.born}"
        volumes = []
        for number in range(r.choice([0, 1, 1, 2, 3])):
            kind = r.random()
            if kind < 0.7:
                volumes.append(PodVolume(name=f"m{number}", claim=f"c{r.randint(0, 8)}"))
            elif kind < 0.8:
                claim = f"{uid}-m{number}"
                volumes.append(PodVolume(name=f"m{number}", claim=claim, ephemeral=True))
            else:
                volumes.append(self._disk(f"m{number}"))
        filled = {"namespace": r.choice(NAMESPACES), "volumes": tuple(volumes), **fields}
        return Pod(uid=uid, name=uid, **filled)

    def _disk(self, name: str) -> PodVolume:
        r = self.random
        source = r.choice([*naive.DISKS, "nfs"])
        identity: tuple[str, ...] = (r.choice("de"),)
        if source == "rbd":
            identity = ("pool", r.choice("de"), *r.sample("lmn", r.randint(1, 2)))
        return PodVolume(name=name, source=source, identity=identity, read_only=self.some(0.5))

    # --- steps ----------------------------------------------------------------------------

    def step(self) -> None:
        """Something happens."""
        for stimulus in self._happening():
            self._observe(stimulus)

    def _happening(self) -> Iterator[Stimulus]:
        r, pods = self.random, list(self.state.pods)
        kind = "gone" if len(pods) > PODS else r.choice(self.kinds)
        if kind == "node":
            yield records.NodeUpdated(node=self._node(r.choice(NODES)))
        elif kind == "node gone" and self.some(0.3):
            yield records.NodeDeleted(name=r.choice(NODES))
        elif kind in ("bound pod", "pod"):
            yield from self._with_claims(
                self.pod(node_name=r.choice([*NODES, "nowhere"])) if kind != "pod" else self.pod()
            )
        elif kind == "gone" and pods:
            yield records.PodDeleted(uid=r.choice(pods))
        elif kind in ("outcome", "written", "bound"):
            yield from self._answered(kind)
        elif kind == "claim":
            yield records.ObjectChanged(
                object=self._claim(f"c{r.randint(0, 7)}", r.choice(NAMESPACES))
            )
        elif kind == "volume":
            yield records.ObjectChanged(object=self._volume(f"v{r.randint(0, 11)}"))
        elif kind == "other":
            yield records.ObjectChanged(object=self._other())
        elif kind == "forget":
            everything = list(self.state.registry.everything())
            if everything and self.some(0.6):
                gone = r.choice(everything)
                yield records.ObjectDeleted(
                    type=type(gone).__name__, name=gone.name, namespace=gone.namespace
                )
        elif kind == "controller":
            yield from self._shown()
        elif kind == "time":
            self.now += 12_000_000
            yield records.TimePassed()

    def _answered(self, kind: str) -> Iterator[Stimulus]:
        """Something comes of what was asked for a pod that has a node."""
        reservations, preparing = self.state.reservations, self.preparing()
        if kind == "outcome" and reservations:
            uid = self.random.choice(list(reservations))
            node = reservations[uid].node
            if self.some(0.6):
                yield records.BindSucceeded(uid=uid, node=node)
            else:
                yield records.BindFailed(uid=uid, node=node, message="no")
        elif kind == "written" and preparing:
            yield from self._written(self.random.choice(preparing))
        elif kind == "bound" and preparing:
            yield from self._bound(self.random.choice(preparing))

    def preparing(self) -> list[str]:
        """The pods whose binds wait for volumes."""
        return [uid for uid, held in self.state.reservations.items() if held.preparing]

    def _written(self, uid: str) -> Iterator[Stimulus]:
        """The cluster makes a change that a pod waits for, or refuses to; now and then its word is
        about an attempt that is over."""
        held = self.state.reservations[uid]
        writes = held.open_writes()
        if not writes:
            return
        write, attempt = self.random.choice(writes), held.attempt - self.some(0.1)
        if self.some(0.1):
            yield records.WriteFailed(uid=uid, attempt=attempt, write=write, message="no")
            return
        if self.some(0.9):
            yield from self._shown_by(write)
        yield records.WriteSucceeded(uid=uid, attempt=attempt, write=write)

    def _shown_by(self, write: Write) -> Iterator[Stimulus]:
        registry = self.state.registry
        claim = registry.get(PersistentVolumeClaim, write.claim, write.namespace)
        if isinstance(write, SelectNode) and claim is not None:
            selected = msgspec.structs.replace(claim, selected_node=write.node)
            yield records.ObjectChanged(object=selected)
        elif isinstance(write, BindVolume):
            volume = registry.get(PersistentVolume, write.volume)
            if volume is not None:
                ours = (write.namespace, write.claim, write.claim_uid)
                yield records.ObjectChanged(object=msgspec.structs.replace(volume, claim=ours))

    def _bound(self, uid: str) -> Iterator[Stimulus]:
        """A claim that a pod waits for is bound; its volume, if it is new, comes before or
        after. Now and then the provisioner gives up."""
        carried = self.state.reservations[uid].carry["VolumeBinding"]
        kind, name, claim_name, *_ = self.random.choice(carried)
        namespace = self.state.pods[uid].pod.namespace
        claim = self.state.registry.get(PersistentVolumeClaim, claim_name, namespace)
        if claim is None:
            return
        if kind == "node" and self.some(0.1):
            notes = {"note": "x"} if self.some(0.5) else {}
            given_up = msgspec.structs.replace(claim, selected_node="", annotations=notes)
            yield records.ObjectChanged(object=given_up)
            return
        volume = name if kind == "volume" else f"v{self.random.randint(12, 17)}"
        new = self._volume(volume)
        if self.some(0.7):
            new = msgspec.structs.replace(new, node_terms=None)
        done = msgspec.structs.replace(claim, volume=volume, bound=self.some(0.9))
        found = [records.ObjectChanged(object=done)]
        if kind == "node":
            found.append(records.ObjectChanged(object=new))
        self.random.shuffle(found)
        yield from found

    def _with_claims(self, pod: Pod) -> Iterator[Stimulus]:
        """A pod, and mostly the claims that are made for it."""
        for each in pod.volumes:
            if each.ephemeral and self.some(0.9):
                owner = pod.uid if self.some(0.95) else "somebody"
                claim = self._claim(each.claim, pod.namespace, owner_uid=owner)
                yield records.ObjectChanged(object=claim)
        yield records.PodAdded(pod=pod)

    def _shown(self) -> Iterator[Stimulus]:
        """The volume controller shows what some pod had reserved."""
        keys = list(self.state.memory.get("VolumeBinding", ()))
        if not keys:
            return
        kind, name, namespace, claim_name, uid = json.loads(self.random.choice(keys))
        registry = self.state.registry
        claim = registry.get(PersistentVolumeClaim, claim_name, namespace)
        if claim is None or claim.uid != uid:
            return
        if kind == "node":
            yield records.ObjectChanged(object=msgspec.structs.replace(claim, selected_node=name))
            return
        volume = registry.get(PersistentVolume, name)
        if volume is not None:
            taken = msgspec.structs.replace(volume, claim=(namespace, claim_name, uid))
            yield records.ObjectChanged(object=taken)
        if self.some(0.5):
            done = msgspec.structs.replace(claim, volume=name, bound=True)
            yield records.ObjectChanged(object=done)

    def cluster(self) -> naive.Cluster:
        """The cluster without any counts."""
        table = self.state.nodes
        places = [
            (table.nodes[row], list(table.residents[row].values())) for row in table.rows.values()
        ]
        return naive.Cluster(places, self.state.registry, self.memory())
