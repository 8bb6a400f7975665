"""A world with volumes: binds of pods wait until their claims are bound or volumes provisioned.

Volumes and claims have watches of their own. The volume controller and a provisioner act at random
times; the provisioner may refuse, and another user may take a volume.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import msgspec

from eventsched.cluster.in_memory.volume_controller import VolumeController
from eventsched.cluster.messages import (
    BindPod,
    Listing,
    ObjectGone,
    ObjectSeen,
    WriteObject,
    WriteRefused,
    Written,
)
from eventsched.domain import records
from eventsched.domain.objects import Pod, PodVolume
from eventsched.domain.objects.registry import AnyObject, PersistentVolume, PersistentVolumeClaim
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.object_writes import BindVolume, Write
from eventsched.plugins.default_binder import DefaultBinder
from eventsched.plugins.default_preemption import DefaultPreemption
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.plugins.priority_sort import PrioritySort
from eventsched.plugins.scheduling_gates import SchedulingGates
from eventsched.plugins.volume_binding import VolumeBinding
from eventsched.runtime.leader.followed_stream import FollowedStream
from eventsched.runtime.leader.leader_messages import Message
from eventsched.scheduling.config.pluginargs import VolumeBindingArgs
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import POINTS, points_of
from eventsched.scheduling.framework.profile import Profile
from eventsched.scheduling.queueing.queue_index import Backoff
from tests.builders import PROFILE, make_pod
from tests.volumes import LOCAL, WAIT, claim, volume

from . import cluster
from .apiserver import RESOURCES, ApiServer
from .cluster import Openings, Pairs
from .happenings import MOST_PODS
from .invariants import Auditor, ensure
from .processes import Flight, MakeLeader, ordinary_leader
from .world import World

KINDS = ("StorageClass", "PersistentVolume", "PersistentVolumeClaim")
VOLUMES = ("v0", "v1", "v2")
OFTEN = 0.1
"""Probability that something happens to volumes in a step, while faults are on."""


@cache
def _profiles() -> dict[str, Profile]:
    plugins = [
        PrioritySort(), SchedulingGates(), Openings(), NodeResourcesFit(), DefaultPreemption(),
        Pairs(), VolumeBinding(VolumeBindingArgs(bind_timeout_seconds=20)), DefaultBinder(),
    ]  # fmt: skip
    points = {
        point: [plugin for plugin in plugins if point in points_of(plugin)] for point in POINTS
    }
    return {PROFILE: Profile(PROFILE, points, {})}


def engine() -> Engine:
    """A fresh engine."""
    return Engine(_profiles(), Backoff(1, 4))


def followed_stream() -> FollowedStream:
    """A FollowedStream that has read nothing yet."""
    return FollowedStream(engine, cluster.STREAM)


class StorageServer(ApiServer):
    """An API server with claims and volumes, and the controllers behind it."""

    resources = (*KINDS, *RESOURCES)

    def __init__(self) -> None:
        super().__init__()
        self.stored: dict[tuple[str, str], ObjectSeen] = {}
        for storage_class in (LOCAL, WAIT):
            self.put(storage_class)
        for name in VOLUMES:
            self.put(volume(name, node_terms=None))

    def list(self, resource: str) -> Listing:
        """All objects of a resource."""
        if resource not in KINDS:
            return super().list(resource)
        objects = [seen for (kind, _), seen in self.stored.items() if kind == resource]
        return Listing(resource, self.version, tuple(objects))

    def objects(self) -> Sequence[ObjectSeen]:
        """All objects except nodes and pods."""
        return (*super().objects(), *self.stored.values())

    def put(self, obj: AnyObject) -> ObjectSeen:
        """Creates or changes an object."""
        kind = type(obj).__name__
        self.version += 1
        seen = self.stored[kind, obj.name] = ObjectSeen(obj, self.version)
        self.histories[kind].append(seen)
        return seen

    def remove(self, obj: AnyObject) -> None:
        """Deletes an object."""
        kind = type(obj).__name__
        del self.stored[kind, obj.name]
        self.version += 1
        self.histories[kind].append(ObjectGone(kind, obj.namespace, obj.name, self.version))

    def all(self, kind: type[Any]) -> Sequence[Any]:
        """All objects of a type."""
        return [seen.object for (name, _), seen in self.stored.items() if name == kind.__name__]

    def write(self, request: WriteObject) -> Written | WriteRefused:
        """Executes a write, as cluster/kube/calls/volume_calls.py does with a GET and a PATCH."""
        write = request.write
        key = (
            ("PersistentVolume", write.volume)
            if isinstance(write, BindVolume)
            else ("PersistentVolumeClaim", write.claim)
        )
        seen = self.stored.get(key)
        if seen is None:
            return WriteRefused(request, "not found")
        reaction = VolumeController([seen.object], []).write(write)
        if reaction.problem:
            return WriteRefused(request, reaction.problem, seen)
        return Written(request, self.put(reaction.now[0]) if reaction.now else seen)

    # --- controllers ----------------------------------------------------------------------

    def due(self) -> dict[str, Callable[[], None]]:
        """The next actions of the controllers, by claim."""
        actions: dict[str, Callable[[], None]] = {}
        volumes = self.all(PersistentVolume)
        for pvc in self.all(PersistentVolumeClaim):
            claim_ref = (pvc.namespace, pvc.name, pvc.uid)
            prebound = [pv for pv in volumes if pv.claim == claim_ref]
            if not pvc.bound and prebound:
                actions[pvc.name] = partial(self.bind_claim, pvc, prebound[0])
            elif not pvc.bound and pvc.selected_node:
                actions[pvc.name] = partial(self.provision, pvc)
        return actions

    def bind_claim(self, pvc: PersistentVolumeClaim, pv: PersistentVolume) -> None:
        """Does the next step of a binding: first the volume's name, then the phase."""
        if not pvc.volume:
            self.put(msgspec.structs.replace(pv, phase="Bound"))
            self.put(msgspec.structs.replace(pvc, volume=pv.name))
        else:
            self.put(msgspec.structs.replace(pvc, bound=True, phase="Bound"))

    def provision(self, pvc: PersistentVolumeClaim) -> None:
        """Creates a volume for a claim."""
        claim_ref = (pvc.namespace, pvc.name, pvc.uid)
        self.put(volume(f"pvc-{pvc.name}", storage_class="wait", node_terms=None, claim=claim_ref))

    def refuse(self, pvc: PersistentVolumeClaim) -> None:
        """No volume can be provisioned for the selected node."""
        self.put(msgspec.structs.replace(pvc, selected_node="", annotations={"note": "x"}))

    def delete_pod(self, uid: str) -> None:
        """Deletes a pod and its claim. A provisioned volume is deleted too; others become free."""
        super().delete_pod(uid)
        for pvc in [pvc for pvc in self.all(PersistentVolumeClaim) if pvc.owner_uid == uid]:
            self.remove(pvc)
            for pv in self.all(PersistentVolume):
                if pv.claim is not None and pv.claim[2] == pvc.uid:
                    self.remove(pv)
                    if pv.name in VOLUMES:
                        self.put(msgspec.structs.replace(pv, claim=None, phase="Available"))


class StorageAuditor(Auditor):
    """Also checks writes, and the claims of bound pods."""

    make_engine = staticmethod(engine)
    _api: StorageServer

    def _begin(self) -> None:
        super()._begin()
        self._writes: set[tuple[str, int, Write]] = getattr(self, "_writes", set())
        """All writes that were ever committed: uid, attempt and write."""

    def _take(self, logged: LogEntry) -> None:
        match logged.record:
            case records.PreparationIntended(uid=uid, attempt=attempt, writes=writes):
                self._writes |= {
                    (uid, attempt, write) for group in writes.values() for write in group
                }
        super()._take(logged)

    def written(self, request: WriteObject) -> None:
        """A write has arrived: it must have been committed."""
        known = (request.uid, request.attempt, request.write) in self._writes
        ensure(known, f"{request.write} is made, but no record of it was committed")

    def bound(self, request: BindPod, barrier: int) -> None:
        """A pod may be bound only if its claims are bound."""
        super().bound(request, barrier)
        pod = self._api.pods[request.uid].pod
        for pod_volume in pod.volumes:
            seen = self._api.stored.get(("PersistentVolumeClaim", pod_volume.claim))
            pvc = None if seen is None else seen.object
            is_bound = isinstance(pvc, PersistentVolumeClaim) and pvc.bound
            ensure(is_bound, f"{request.uid} is bound, but its claim is not")

    def _check_that_it_fits_nowhere(self, uid: str) -> None:
        """Skips pods that have to wait for a volume or can run on one node only."""
        for pod_volume in self._api.pods[uid].pod.volumes:
            pvc = self._api.stored[("PersistentVolumeClaim", pod_volume.claim)].object
            assert isinstance(pvc, PersistentVolumeClaim)
            volumes = self._api.all(PersistentVolume)
            free = [pv for pv in volumes if pv.claim is None]
            if pvc.selected_node or (pvc.storage_class == "local" and not free):
                return
            if any(pv.claim and pv.claim[2] == pvc.uid for pv in volumes):
                return
        super()._check_that_it_fits_nowhere(uid)


class StorageWorld(World):
    """A world with volumes."""

    server = StorageServer
    audited_by = StorageAuditor
    api: StorageServer
    auditor: StorageAuditor

    def __init__(
        self, seed: int, *, lossy: bool = False, make_leader: MakeLeader = ordinary_leader
    ) -> None:
        super().__init__(
            seed, lossy=lossy, make_leader=make_leader, make_followed_stream=followed_stream
        )
        self._often = OFTEN * self.rng.choice([0.5, 1, 2])

    def _able(self) -> list[Callable[[], None]]:
        return super()._able() + list(self.api.due().values())

    def _carry_out(self, flight: Flight) -> Message | None:
        request = flight.request
        if not isinstance(request, WriteObject):
            return super()._carry_out(flight)
        self.auditor.written(request)
        answer = self.api.write(request)
        self.counts[type(answer).__name__] += 1
        return answer

    def _fault(self) -> bool:
        if self.rng.random() >= self._often:
            return super()._fault()
        happening = self.rng.choice([*[self._new_pod] * 4, *[self._refusal] * 2, self._theft])
        happening()
        return True

    def _new_pod(self) -> None:
        """A pod with a claim, or a pair of such pods, which first have to wait at Permit."""
        if len(self.api.pods) >= MOST_PODS:
            return
        self.born += 1
        alone = self.rng.random() < 0.7
        for name in [f"disk-{self.born}"] if alone else [f"pair-{self.born}-{h}" for h in "ab"]:
            self.api.put_pod(self._stored(name, {} if alone else {"pair": str(self.born)}))

    def _stored(self, name: str, labels: dict[str, str]) -> Pod:
        kind = self.rng.choice(["local", "wait"])
        self.api.put(claim(f"data-{name}", storage_class=kind, owner_uid=name))
        mount = PodVolume(name="data", claim=f"data-{name}")
        return make_pod(
            name, cpu=500, memory=0, labels=labels, volumes=(mount,),
            priority=self.rng.randint(0, 2),
        )  # fmt: skip

    def _refusal(self) -> None:
        """The provisioner refuses to create a volume."""
        unprovisioned = [
            pvc for pvc in self.api.all(PersistentVolumeClaim)
            if pvc.selected_node and not pvc.volume
        ]  # fmt: skip
        if unprovisioned:
            self.counts["refusal"] += 1
            self.api.refuse(self.rng.choice(unprovisioned))

    def _theft(self) -> None:
        """Another user takes a volume, or releases it."""
        pv = self.api.stored["PersistentVolume", self.rng.choice(VOLUMES)].object
        assert isinstance(pv, PersistentVolume)
        theirs = ("default", "theirs", "uid-theirs")
        if pv.claim in (None, theirs):
            self.counts["theft"] += 1
            claim_ref = theirs if pv.claim is None else None
            self.api.put(msgspec.structs.replace(pv, claim=claim_ref))
