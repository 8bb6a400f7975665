"""A world whose API server is put back to earlier states, as from backups of etcd.

That stops the API server: requests that are on their way are lost, and watches start again. What
leaders have in mind is of a cluster that is no more.
"""

from dataclasses import dataclass, replace

from eventsched.cluster.messages import Listed, NodeSeen, ObjectSeen, PodSeen, Unknown
from eventsched.runtime.leader.leader_messages import Acquire, Append, Keep, Renew

from .apiserver import ApiServer, Placed
from .world import World

_DATABASE = (Acquire, Append, Keep, Renew)
_RAISED = 1000
"""By so much versions are raised after a restore."""


@dataclass(frozen=True)
class Backup:
    """A server's objects at a version."""

    version: int
    pods: dict[str, PodSeen]
    nodes: dict[str, NodeSeen]
    namespaces: dict[str, ObjectSeen]
    placed: dict[str, Placed]
    conditions: dict[str, tuple[str, str]]


class RestorableServer(ApiServer):
    """An API server whose storage can be put back."""

    def __init__(self) -> None:
        super().__init__()
        self._ever: set[tuple[str, str]] = set()

    def place(self, uid: str, node: str, decision: str = "") -> None:
        """See ApiServer."""
        super().place(uid, node, decision)
        self._ever.add((uid, node))

    def was_placed(self, uid: str, node: str) -> bool:
        """Whether a pod ever came to a node."""
        return (uid, node) in self._ever

    def backup(self) -> Backup:
        """All objects as they are."""
        return Backup(
            self.version, {**self.pods}, {**self.nodes}, {**self.namespaces}, {**self.placed},
            {**self.conditions},
        )  # fmt: skip

    def restore(self, backup: Backup, *, raised: bool) -> None:
        """Puts all objects back. With ``raised`` versions go on above the present ones (etcdctl's
        ``--bump-revision``), else they begin again at the backup's. Pods that had ended since count
        as placed by somebody else: nobody could know of them. Of what people were told nothing is
        taken back: nobody tells it again."""
        back = {uid for uid in backup.pods if uid not in self.pods}
        self.version = self.version + _RAISED if raised else backup.version
        self.pods, self.nodes = {**backup.pods}, {**backup.nodes}
        self.namespaces = {**backup.namespaces}
        self.placed = {
            uid: replace(placed, decision="", version=self.version) if uid in back else placed
            for uid, placed in backup.placed.items()
        }
        told = {**backup.conditions, **self.conditions}
        self.conditions = {uid: why for uid, why in told.items() if uid not in self.placed}


class RestoredWorld(World):
    """One run, with backups and restores."""

    server = RestorableServer
    api: RestorableServer
    backup: Backup | None = None

    def _fault(self) -> bool:
        drawn = self.rng.random()
        if drawn < 0.02:
            self.backup = self.api.backup()
        elif drawn < 0.026 and self.backup is not None:
            self.counts["restore"] += 1
            self.restore(self.backup, raised=self.rng.random() < 0.5)
        else:
            return super()._fault()
        return True

    def restore(self, backup: Backup, *, raised: bool) -> None:
        """Puts the API server back to a backup."""
        self.api.restore(backup, raised=raised)
        for process in self.processes.values():
            process.gaps = dict.fromkeys(self.api.resources)
        for flight in list(self.flights):
            if isinstance(flight.request, _DATABASE):
                continue
            if flight.answer is None:
                self.flights.remove(flight)
                self._time_out(flight)
            elif isinstance(flight.answer, Listed):
                flight.answer = Unknown(flight.request)
