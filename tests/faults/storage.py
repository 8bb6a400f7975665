"""A world with volumes: pods whose binds wait until their claims are bound, or volumes made.

Volumes and claims are watched beside the rest, each on its own. The volume controller and a
provisioner act when they like; the provisioner may refuse, and somebody else may take a volume.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import msgspec

from eventsched.cluster.messages import (
    BindPod,
    Listing,
    ObjectGone,
    ObjectSeen,
    WriteObject,
    WriteRefused,
    Written,
)
from eventsched.cluster.simulated.volume_controller import VolumeController
from eventsched.domain import records
from eventsched.domain.objects import Pod, PodVolume
from eventsched.domain.objects.registry import AnyObject, PersistentVolume, PersistentVolumeClaim
from eventsched.domain.records.logged import Logged
from eventsched.domain.records.object_writes import BindVolume, Write
from eventsched.plugins.default_binder import DefaultBinder
from eventsched.plugins.default_preemption import DefaultPreemption
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.plugins.priority_sort import PrioritySort
from eventsched.plugins.scheduling_gates import SchedulingGates
from eventsched.plugins.volume_binding import VolumeBinding
from eventsched.runtime.leader.catch_up import FollowedStream
from eventsched.runtime.leader.leader_messages import Message
from eventsched.scheduling.config.pluginargs import VolumeBindingArgs
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import POINTS, points_of
from eventsched.scheduling.framework.profile import Profile
from eventsched.scheduling.queueing.queue import Backoff
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
"""How likely something of volumes happens in a step in which faults may."""


@cache
def _profiles() -> dict[str, Profile]:
    plugins = [
        PrioritySort(), SchedulingGates(), Openings(), NodeResourcesFit(), DefaultPreemption(),
        Pairs(), VolumeBinding(VolumeBindingArgs(bind_timeout_seconds=20)), DefaultBinder(),
    ]  # fmt: skip
    points = {point: [each for each in plugins if point in points_of(each)] for point in POINTS}
    return {PROFILE: Profile(PROFILE, points, {})}


def engine() -> Engine:
    """A fresh engine."""
    return Engine(_profiles(), Backoff(1, 4))


def followed_stream() -> FollowedStream:
    """One who has not followed anything yet."""
    return FollowedStream(engine, cluster.STREAM)


class StorageServer(ApiServer):
    """An API server with claims and volumes, and the controllers behind it."""

    resources = (*KINDS, *RESOURCES)

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], ObjectSeen] = {}
        for each in (LOCAL, WAIT):
            self.put(each)
        for name in VOLUMES:
            self.put(volume(name, node_terms=None))

    def list(self, resource: str) -> Listing:
        """All objects of a resource."""
        if resource not in KINDS:
            return super().list(resource)
        found = [seen for (kind, _), seen in self.kept.items() if kind == resource]
        return Listing(resource, self.version, tuple(found))

    def objects(self) -> Sequence[ObjectSeen]:
        """All objects but nodes and pods."""
        return (*super().objects(), *self.kept.values())

    def put(self, each: AnyObject) -> ObjectSeen:
        """Creates or changes an object."""
        kind = type(each).__name__
        self.version += 1
        seen = self.kept[kind, each.name] = ObjectSeen(each, self.version)
        self.histories[kind].append(seen)
        return seen

    def remove(self, each: AnyObject) -> None:
        """Ends an object."""
        kind = type(each).__name__
        del self.kept[kind, each.name]
        self.version += 1
        self.histories[kind].append(ObjectGone(kind, each.namespace, each.name, self.version))

    def all(self, kind: type[Any]) -> Sequence[Any]:
        """All objects of a type."""
        return [seen.object for (name, _), seen in self.kept.items() if name == kind.__name__]

    def write(self, request: WriteObject) -> Written | WriteRefused:
        """Makes a change, as cluster/kube/calls/volume_calls.py does with a look and a patch."""
        write = request.write
        key = (
            ("PersistentVolume", write.volume)
            if isinstance(write, BindVolume)
            else ("PersistentVolumeClaim", write.claim)
        )
        seen = self.kept.get(key)
        if seen is None:
            return WriteRefused(request, "not found")
        reaction = VolumeController([seen.object], []).write(write)
        if reaction.problem:
            return WriteRefused(request, reaction.problem, seen)
        return Written(request, self.put(reaction.now[0]) if reaction.now else seen)

    # --- controllers ----------------------------------------------------------------------

    def due(self) -> dict[str, Callable[[], None]]:
        """What controllers have to do, by claim."""
        found: dict[str, Callable[[], None]] = {}
        volumes = self.all(PersistentVolume)
        for each in self.all(PersistentVolumeClaim):
            ours = (each.namespace, each.name, each.uid)
            mine = [one for one in volumes if one.claim == ours]
            if not each.bound and mine:
                found[each.name] = partial(self.together, each, mine[0])
            elif not each.bound and each.selected_node:
                found[each.name] = partial(self.provision, each)
        return found

    def together(self, each: PersistentVolumeClaim, one: PersistentVolume) -> None:
        """Completes a binding."""
        if not each.volume:
            self.put(msgspec.structs.replace(one, phase="Bound"))
            self.put(msgspec.structs.replace(each, volume=one.name))
        else:
            self.put(msgspec.structs.replace(each, bound=True, phase="Bound"))

    def provision(self, each: PersistentVolumeClaim) -> None:
        """Makes a volume."""
        ours = (each.namespace, each.name, each.uid)
        made = volume(f"pvc-{each.name}", storage_class="wait", node_terms=None, claim=ours)
        self.put(made)

    def refuse(self, each: PersistentVolumeClaim) -> None:
        """A volume cannot be made there."""
        self.put(msgspec.structs.replace(each, selected_node="", annotations={"note": "x"}))

    def delete_pod(self, uid: str) -> None:
        """Ends a pod; its claim and volume go as well, or are free again."""
        super().delete_pod(uid)
        for each in [one for one in self.all(PersistentVolumeClaim) if one.owner_uid == uid]:
            self.remove(each)
            for one in self.all(PersistentVolume):
                if one.claim is not None and one.claim[2] == each.uid:
                    self.remove(one)
                    if one.name in VOLUMES:
                        self.put(msgspec.structs.replace(one, claim=None, phase="Available"))


class StorageAuditor(Auditor):
    """Looks at writes as well, and at what pods are bound with."""

    make_engine = staticmethod(engine)
    _api: StorageServer

    def _begin(self) -> None:
        super()._begin()
        self._writes: set[tuple[str, int, Write]] = getattr(self, "_writes", set())
        """Whatever was asked for in some log."""

    def _take(self, logged: Logged) -> None:
        match logged.record:
            case records.PreparationIntended(uid=uid, attempt=attempt, writes=writes):
                self._writes |= {
                    (uid, attempt, each) for asked in writes.values() for each in asked
                }
        super()._take(logged)

    def written(self, request: WriteObject) -> None:
        """A write has arrived: some log has said so."""
        known = (request.uid, request.attempt, request.write) in self._writes
        ensure(known, f"{request.write} is made, but no record of it was committed")

    def bound(self, request: BindPod, barrier: int) -> None:
        """A pod whose claim is not bound is not bound either."""
        super().bound(request, barrier)
        pod = self._api.pods[request.uid].pod
        for each in pod.volumes:
            seen = self._api.kept.get(("PersistentVolumeClaim", each.claim))
            found = None if seen is None else seen.object
            done = isinstance(found, PersistentVolumeClaim) and found.bound
            ensure(done, f"{request.uid} is bound, and its claim is not")

    def _check_that_it_fits_nowhere(self, uid: str) -> None:
        """But for pods that have to wait for a volume, or can go to one node only."""
        for each in self._api.pods[uid].pod.volumes:
            seen = self._api.kept[("PersistentVolumeClaim", each.claim)].object
            assert isinstance(seen, PersistentVolumeClaim)
            free = [one for one in self._api.all(PersistentVolume) if one.claim is None]
            if seen.selected_node or (seen.storage_class == "local" and not free):
                return
            if any(one.claim and one.claim[2] == seen.uid for one in
                   self._api.all(PersistentVolume)):  # fmt: skip
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
        found = super()._able()
        due = self.api.due().values()
        return found + list(due)

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
        """A pod with a claim of its own; or half of a pair, which has to wait at Permit first."""
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
        """A volume that was asked for cannot be made."""
        asked = [
            each for each in self.api.all(PersistentVolumeClaim)
            if each.selected_node and not each.volume
        ]  # fmt: skip
        if asked:
            self.counts["refusal"] += 1
            self.api.refuse(self.rng.choice(asked))

    def _theft(self) -> None:
        """Another user takes a volume, or releases it."""
        found = self.api.kept["PersistentVolume", self.rng.choice(VOLUMES)].object
        assert isinstance(found, PersistentVolume)
        theirs = ("default", "theirs", "uid-theirs")
        if found.claim in (None, theirs):
            self.counts["theft"] += 1
            after = theirs if found.claim is None else None
            self.api.put(msgspec.structs.replace(found, claim=after))
