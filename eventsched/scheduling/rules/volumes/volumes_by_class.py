"""Volumes by storage class: which one a claim would get on each node.

Upstream: component-helpers storage/volume/pv_helpers.go FindMatchingVolume, for all nodes at once.
The volumes of a class are in the order (capacity, name), so the first that fits is the smallest.
Among equals upstream takes any; here the first by name is taken. Derived, follows the registry.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.journal import Rows
from eventsched.domain.objects.registry import PersistentVolume, PersistentVolumeClaim, Registry
from eventsched.domain.objects.selectors import selects
from eventsched.scheduling.rules.volumes.claims import belongs_to, class_of
from eventsched.scheduling.rules.volumes.volume_topology import Terms, VolumeTopology

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]
ClaimKey = tuple[str, str, str]
"""Namespace, name and uid of a claim."""

NONE = -1
"""No volume, in a column of choices."""


def _static(volume: PersistentVolume) -> tuple[object, ...]:
    """The fields behind the columns, except those that binding changes."""
    return (
        volume.capacity, volume.volume_mode, volume.attributes_class, volume.access_modes,
        volume.node_terms,
    )  # fmt: skip


class VolumesByClass:
    """The volumes of one storage class as columns."""

    def __init__(self, volumes: Iterable[PersistentVolume]) -> None:
        self.volumes = sorted(volumes, key=lambda volume: (volume.capacity, volume.name))
        self.index = {volume.name: number for number, volume in enumerate(self.volumes)}
        size = len(self.volumes)
        self._capacity = np.array([volume.capacity for volume in self.volumes], dtype=np.int64)
        self._kinds: dict[tuple[str, str], int] = {}
        self._kind = np.array([self._kind_of(volume) for volume in self.volumes], dtype=np.int64)
        self._bits: dict[str, int] = {}
        self._modes = np.array([self._bits_of(v.access_modes) for v in self.volumes], np.int64)
        self._available: Bools = np.zeros(size, dtype=bool)
        self._stays: Bools = np.zeros(size, dtype=bool)
        self._promised: dict[tuple[str, str], dict[int, None]] = {}
        for number, volume in enumerate(self.volumes):
            self._put(number, volume)
        places: dict[Terms, int] = {}
        self._place = np.array(
            [places.setdefault(volume.node_terms, len(places)) for volume in self.volumes], np.intp
        )
        self._places = list(places)
        self._pairs: tuple[int, Rows, Rows] | None = None

    def update(self, volume: PersistentVolume) -> bool:
        """Applies a change of one of the volumes. False if the columns must be built again."""
        number = self.index[volume.name]
        if _static(volume) != _static(self.volumes[number]):
            return False
        old = self.volumes[number].claim
        if old is not None:
            self._promised[old[:2]].pop(number, None)
        self.volumes[number] = volume
        self._put(number, volume)
        return True

    def choose(
        self,
        claim: PersistentVolumeClaim,
        assumed: Mapping[str, ClaimKey],
        taken: Sequence[Int64s],
        reach: VolumeTopology,
    ) -> Int64s:
        """int64[size]: on each row the number of the volume that the claim would get, NONE if
        there is none. ``assumed`` are volumes that pods in flight have reserved for claims;
        ``taken`` the choices for the pod's earlier claims."""
        fits = (
            (self._capacity >= claim.requested)
            & (self._kind == self._kinds.get((claim.volume_mode, claim.attributes_class), NONE))
            & self._stays
        )
        fit = fits & self._available & self._grants(claim.access_modes)
        key = (claim.namespace, claim.name, claim.uid)
        own = dict.fromkeys(self._promised.get(key[:2], ()))
        for name, holder in assumed.items():
            number = self.index.get(name, NONE)
            if number >= 0:
                fit[number] = False
                if holder == key:
                    own[number] = None
        for number in np.flatnonzero(fit).tolist() if claim.selector else ():
            fit[number] = selects(claim.selector, self.volumes[number].labels)
        promised = [n for n in own if fits[n] and self._is_for(n, claim, key, assumed)]
        if not promised:
            return self._smallest(fit, taken, reach)
        return self._promised_choice(sorted(promised), fit, taken, reach)

    def _is_for(
        self, number: int, claim: PersistentVolumeClaim, key: ClaimKey,
        assumed: Mapping[str, ClaimKey],
    ) -> bool:  # fmt: skip
        volume = self.volumes[number]
        return belongs_to(volume, claim) or assumed.get(volume.name) == key

    def _promised_choice(
        self, numbers: Sequence[int], fit: Bools, taken: Sequence[Int64s], reach: VolumeTopology
    ) -> Int64s:
        """Chooses the first volume promised to the claim. On rows where an earlier volume of the
        pod uses the same claim and has taken it: the next one promised, or else any other."""
        choices = np.full(reach.table.size, NONE, dtype=np.int64)
        undecided = np.ones(reach.table.size, dtype=bool)
        for number in numbers:
            free = undecided.copy()
            for earlier in taken:
                free &= earlier != number
            here = reach.mask(self._places[self._place[number]])
            choices[free & here] = number
            undecided &= ~free
        if undecided.any():
            choices[undecided] = self._smallest(fit, taken, reach)[undecided]
        return choices

    def _smallest(self, fit: Bools, taken: Sequence[Int64s], reach: VolumeTopology) -> Int64s:
        size, nothing = reach.table.size, len(self.volumes)
        rows, places = self._reached(reach)
        fitting = np.flatnonzero(fit)
        best = np.full(len(self._places) + 1, nothing, dtype=np.int64)
        best[self._place[fitting[::-1]]] = fitting[::-1]  # the last one written is the smallest
        smallest = best[places]
        if taken and len(fitting):
            self._pass_over(smallest, rows, fitting, taken)
        chosen = np.full(size, nothing, dtype=np.int64)
        np.minimum.at(chosen, rows, smallest)
        chosen[chosen == nothing] = NONE
        return chosen

    def _pass_over(
        self, choices: Int64s, rows: Rows, fitting: Rows, taken: Sequence[Int64s]
    ) -> None:
        """Replaces, in place, volumes taken on a row by the next one at the same place."""
        following = np.full(len(self.volumes) + 1, len(self.volumes), dtype=np.int64)
        order = fitting[np.lexsort((fitting, self._place[fitting]))]
        same = self._place[order[:-1]] == self._place[order[1:]]
        following[order[:-1][same]] = order[1:][same]
        for _ in taken:
            for earlier in taken:
                hit = choices == earlier[rows]
                choices[hit] = following[choices[hit]]

    def _reached(self, reach: VolumeTopology) -> tuple[Rows, Rows]:
        """Pairs (row, place): the rows that can reach the volumes of each place."""
        if self._pairs is None or self._pairs[0] != reach.version:
            parts = [reach.rows(terms) for terms in self._places]
            rows = np.concatenate(parts) if parts else np.zeros(0, dtype=np.intp)
            lengths = [len(part) for part in parts]
            places = np.repeat(np.arange(len(parts), dtype=np.intp), lengths)
            self._pairs = (reach.version, rows, places)
        return self._pairs[1], self._pairs[2]

    def _put(self, number: int, volume: PersistentVolume) -> None:
        self._available[number] = volume.phase == "Available" and volume.claim is None
        self._stays[number] = not volume.deleting
        if volume.claim is not None:
            self._promised.setdefault(volume.claim[:2], {})[number] = None

    def _kind_of(self, volume: PersistentVolume) -> int:
        kind = (volume.volume_mode, volume.attributes_class)
        return self._kinds.setdefault(kind, len(self._kinds))

    def _bits_of(self, modes: Iterable[str]) -> int:
        bits = 0
        for mode in modes:
            # An int64 has room for more modes than exist; any beyond that share a bit.
            bits |= self._bits.setdefault(mode, 1 << min(len(self._bits), 62))
        return bits

    def _grants(self, modes: Iterable[str]) -> Bools:
        """bool[m]: whether a volume has all of the access modes."""
        if not all(mode in self._bits for mode in modes):
            return np.zeros(len(self.volumes), dtype=bool)
        wanted = self._bits_of(modes)
        return np.asarray(self._modes & wanted == wanted)


class Shelves:
    """The volumes of all classes of a registry; built on first use, follows changes."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._cursor = -1
        self._names: dict[str, dict[str, PersistentVolume]] = {}
        self._known: dict[str, str] = {}
        self._shelves: dict[str, VolumesByClass] = {}

    def shelf(self, storage_class: str) -> VolumesByClass:
        """The volumes of a class as they are now."""
        self._refresh()
        shelf = self._shelves.get(storage_class)
        if shelf is None:
            volumes = self._names.get(storage_class, {})
            shelf = self._shelves[storage_class] = VolumesByClass(volumes.values())
        return shelf

    def _refresh(self) -> None:
        if self._cursor == self.registry.end:
            return
        changes = self.registry.since(self._cursor) if self._cursor >= 0 else None
        self._cursor = self.registry.end
        if changes is None:
            self._names, self._known, self._shelves = {}, {}, {}
            for volume in self.registry.all(PersistentVolume).values():
                self._update_volume(volume.name, volume)
            return
        for name in dict.fromkeys(key[1] for kind, key in changes if kind is PersistentVolume):
            self._update_volume(name, self.registry.get(PersistentVolume, name))

    def _update_volume(self, name: str, volume: PersistentVolume | None) -> None:
        old = self._known.pop(name, None)
        new = None if volume is None else class_of(volume)
        if old is not None and old != new:
            del self._names[old][name]
            self._shelves.pop(old, None)
        if volume is None or new is None:
            return
        self._known[name] = new
        self._names.setdefault(new, {})[name] = volume
        shelf = self._shelves.get(new)
        if shelf is not None and (name not in shelf.index or not shelf.update(volume)):
            del self._shelves[new]
