"""The volumes that pods in flight have reserved: VolumeBinding's memory.

Upstream: plugins/volumebinding/passive_assume_cache.go. There an assumption ends when the object
changes; here when the volume (for one to be provisioned, the claim) shows the binding, or when it
can no longer come true.

A key of the memory holds the whole assumption, so reading it needs no values. The values are the
uids of the pods that hold it (two may use one claim).
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from eventsched.domain.objects.registry import (
    ClusterObject,
    PersistentVolume,
    PersistentVolumeClaim,
    Registry,
)
from eventsched.scheduling.framework import Cycle
from eventsched.scheduling.rules.volumes.volume_plan import Assumed
from eventsched.scheduling.rules.volumes.volumes_by_class import ClaimKey

VOLUME, NODE = "volume", "node"
_decoder = msgspec.json.Decoder(tuple[str, str, str, str, str])
_Source = tuple[type[ClusterObject], tuple[str, str]]


class _Assumption(NamedTuple):
    """A decoded key of the memory."""

    kind: str
    name: str
    claim: ClaimKey

    @property
    def sources(self) -> list[_Source]:
        """The objects that show whether it has come true or never will."""
        namespace, name, _ = self.claim
        sources: list[_Source] = [(PersistentVolumeClaim, (namespace, name))]
        return [*sources, (PersistentVolume, ("", self.name))] if self.kind == VOLUME else sources

    def holds(self, registry: Registry) -> bool:
        """Whether the objects do not show it yet."""
        namespace, name, uid = self.claim
        claim = registry.get(PersistentVolumeClaim, name, namespace)
        if claim is None or claim.uid != uid:
            return False
        if self.kind == NODE:
            return not claim.volume and not claim.selected_node
        volume = registry.get(PersistentVolume, self.name)
        if volume is None or claim.volume not in ("", self.name):
            return False
        return volume.claim is None or not volume.claim[2]


class Assumptions:
    """The decoded memory: follows its keys and the objects that they name. Derived."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.volumes: dict[str, ClaimKey] = {}
        self.nodes: dict[ClaimKey, str] = {}
        self._stale: set[str] = set()
        self._known: dict[str, _Assumption] = {}
        self._about: dict[_Source, set[str]] = {}
        self._cursor = -1

    def now(self, cycle: Cycle) -> Assumed:
        """The assumptions that hold."""
        keys = set(cycle.memory)
        gone = self._known.keys() - keys
        for key in gone:
            self._forget(key)
        due = keys - self._known.keys()
        for key in due:
            self._learn(key)
        changes = self.registry.since(self._cursor) if self._cursor >= 0 else None
        self._cursor = self.registry.end
        if changes is None:
            due = set(self._known)
        for source in changes or ():
            due |= self._about.get(source, set())
        # Drop stale keys first: another key may be for the same claim.
        holding = [key for key in due if self._known[key].holds(self.registry)]
        for key in due.difference(holding):
            self._drop(key)
            self._stale.add(key)
        for key in holding:
            self._stale.discard(key)
            kind, name, claim = self._known[key]
            if kind == VOLUME:
                self.volumes[name] = claim
            else:
                self.nodes[claim] = name
        return Assumed(self.volumes, self.nodes)

    @property
    def stale(self) -> list[str]:
        """The keys that no longer hold, sorted to be independent of when they were seen."""
        return sorted(self._stale)

    def _learn(self, key: str) -> None:
        kind, name, *claim = _decoder.decode(key)
        assumption = self._known[key] = _Assumption(kind, name, (claim[0], claim[1], claim[2]))
        for source in assumption.sources:
            self._about.setdefault(source, set()).add(key)

    def _forget(self, key: str) -> None:
        self._drop(key)
        self._stale.discard(key)
        for source in self._known.pop(key).sources:
            self._about[source].discard(key)
            if not self._about[source]:
                del self._about[source]

    def _drop(self, key: str) -> None:
        kind, name, claim = self._known[key]
        if kind == VOLUME and self.volumes.get(name) == claim:
            del self.volumes[name]
        elif kind == NODE and self.nodes.get(claim) == name:
            del self.nodes[claim]


def assume(cycle: Cycle, key: str, uid: str) -> None:
    """Records that a pod holds an assumption."""
    holders = _holders(cycle, key)
    if uid not in holders:
        cycle.remember(key, [*holders, uid])


def give_up(cycle: Cycle, key: str, uid: str) -> None:
    """Records that a pod no longer holds an assumption; without holders it is forgotten."""
    holders = _holders(cycle, key)
    if uid in holders:
        cycle.remember(key, [holder for holder in holders if holder != uid] or None)


def sweep(cycle: Cycle, keys: Iterable[str]) -> None:
    """Forgets assumptions."""
    for key in keys:
        cycle.remember(key, None)


def _holders(cycle: Cycle, key: str) -> list[str]:
    """The uids of the pods that hold an assumption, including changes made in this step."""
    for plugin, changed, value, _ in reversed(cycle.remembered):
        if (plugin, changed) == (cycle.plugin, key):
            return list(value or [])
    return list(cycle.memory.get(key) or [])
