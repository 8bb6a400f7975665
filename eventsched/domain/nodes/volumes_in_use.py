"""Which pods on nodes use which claims and disks.

Part of a NodeTable, which reports the pods that are added to a row and removed from it. Pods
without volumes are skipped. Everything is derived from the pods on the rows.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping

from eventsched.domain.journal import Journal
from eventsched.domain.objects import Pod, PodVolume

Use = tuple[Hashable, ...]
"""Something that several pods may use: ("claim", namespace, name), or the type of a disk and the
part of its identity that must be equal (for rbd one of the monitors must be equal too)."""

_NO_USERS: Mapping[str, tuple[int, Pod]] = {}


def claim_use(namespace: str, name: str) -> Use:
    """The use of a claim that pods name, not of an ephemeral one."""
    return ("claim", namespace, name)


def use_of(pod: Pod, volume: PodVolume) -> Use | None:
    """What a pod uses through a volume; None if no other pod could use it."""
    if volume.claim:
        return None if volume.ephemeral else claim_use(pod.namespace, volume.claim)
    if volume.source:
        return (volume.source, *volume.identity[: 2 if volume.source == "rbd" else 1])
    return None


def uses_of(pod: Pod) -> Iterator[Use]:
    """The distinct uses of a pod."""
    uses = dict.fromkeys(use_of(pod, volume) for volume in pod.volumes)
    return (use for use in uses if use is not None)


class VolumeUse:
    """Pods with volumes, by row and by use."""

    def __init__(self) -> None:
        self.journal = Journal()
        """The rows that such pods were added to or removed from."""
        self._users: dict[Use, dict[str, tuple[int, Pod]]] = {}
        self._mounting: dict[int, dict[str, Pod]] = {}

    def copied(self) -> "VolumeUse":
        """The same pods, in an index of its own."""
        other = VolumeUse()
        other._users = {use: pods.copy() for use, pods in self._users.items()}
        other._mounting = {row: pods.copy() for row, pods in self._mounting.items()}
        return other

    def place(self, row: int, pod: Pod, sign: int) -> None:
        """Adds a pod with volumes to a row (``sign`` 1) or removes it (-1). Called by NodeTable
        only."""
        self.journal.note(row)
        if sign > 0:
            self._mounting.setdefault(row, {})[pod.uid] = pod
            for use in uses_of(pod):
                self._users.setdefault(use, {})[pod.uid] = (row, pod)
            return
        del self._mounting[row][pod.uid]
        if not self._mounting[row]:
            del self._mounting[row]
        for use in uses_of(pod):
            del self._users[use][pod.uid]
            if not self._users[use]:
                del self._users[use]

    def users(self, use: Use) -> Mapping[str, tuple[int, Pod]]:
        """Uid → (row, pod) of the pods of a use."""
        return self._users.get(use, _NO_USERS)

    def mounting(self, row: int) -> Iterable[Pod]:
        """The pods with volumes on a row."""
        return self._mounting.get(row, {}).values()
