"""A world whose API server is restored to earlier states, as from backups of etcd.

A restore stops the API server: requests in flight are lost, and watches start again. That takes
longer than a replaced leader goes without asking the database, so only the newest one is left, and
what was answered before has arrived. The state of leaders is that of a cluster that no longer
exists.
"""

from dataclasses import dataclass, replace

from eventsched.cluster.messages import (
    NodeSeen,
    ObjectSeen,
    PatchStatus,
    PodAbsent,
    PodSeen,
    PodShown,
    Reported,
    Unknown,
)
from eventsched.runtime.leader.leader_messages import Acquire, Append, Renew, StoreSnapshot
from eventsched.runtime.leader.leader_term import LeaderTerm

from .apiserver import ApiServer, Placed
from .processes import Flight, Process
from .world import World

_DATABASE = (Acquire, Append, StoreSnapshot, Renew)
_RAISED = 1000
"""How much resourceVersions are raised by a restore with ``raised``."""


@dataclass(frozen=True)
class Backup:
    """A server's objects at a resourceVersion."""

    version: int
    pods: dict[str, PodSeen]
    nodes: dict[str, NodeSeen]
    namespaces: dict[str, ObjectSeen]
    placed: dict[str, Placed]
    conditions: dict[str, tuple[str, str]]


class RestorableServer(ApiServer):
    """An API server whose storage can be restored."""

    def __init__(self) -> None:
        super().__init__()
        self._ever: set[tuple[str, str]] = set()
        self._written: dict[str, tuple[str, str]] = {}
        """The condition of each pod that was written last, also if the pod was placed since."""

    def place(self, uid: str, node: str, decision: str = "") -> None:
        """See ApiServer."""
        super().place(uid, node, decision)
        self._ever.add((uid, node))

    def patch_status(self, request: PatchStatus) -> PodShown | PodAbsent | Reported:
        """See ApiServer."""
        answer = super().patch_status(request)
        if request.uid in self.conditions:
            self._written[request.uid] = self.conditions[request.uid]
        return answer

    def was_placed(self, uid: str, node: str) -> bool:
        """Whether a pod was ever placed on a node, including before restores."""
        return (uid, node) in self._ever

    def backup(self) -> Backup:
        """All objects at present."""
        return Backup(
            self.version, {**self.pods}, {**self.nodes}, {**self.namespaces}, {**self.placed},
            {**self.conditions},
        )  # fmt: skip

    def restore(self, backup: Backup, *, raised: bool) -> None:
        """Restores all objects. With ``raised``, versions continue above the present ones
        (etcdctl's ``--bump-revision``), else they continue from the backup's. No watch reports
        what happened before, because an API server that starts has no such events. Pods that were
        deleted since the backup count as placed by others, because no leader could know them.
        Conditions written since are kept, because leaders do not write them again."""
        revived = {uid for uid in backup.pods if uid not in self.pods}
        self.version = self.version + _RAISED if raised else backup.version
        self.watchable_from = {name: len(history) for name, history in self.histories.items()}
        self.pods, self.nodes = {**backup.pods}, {**backup.nodes}
        self.namespaces = {**backup.namespaces}
        self.placed = {
            uid: replace(placed, decision="", version=self.version) if uid in revived else placed
            for uid, placed in backup.placed.items()
        }
        conditions = {**backup.conditions, **self._written}
        self.conditions = {
            uid: condition for uid, condition in conditions.items() if uid not in self.placed
        }


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

    def _is_done(self, process: Process) -> bool:
        """Not while the leader waits for a list that shows whether there was a restore."""
        term = _term_of(process)
        doubts = term is not None and (term.is_listing or term._restore_detector.doubts)
        return super()._is_done(process) and not doubts

    def restore(self, backup: Backup, *, raised: bool) -> None:
        """Restores the API server from a backup."""
        self._stop_server()
        self.api.restore(backup, raised=raised)
        # A leader that listed before the restore knows no revived pod, which has this version.
        newest = self.api.version - 1
        for process in self.processes.values():
            process.gaps = dict.fromkeys(self.api.resources)
            process.barrier = min(process.barrier, newest)
        for flight in self.flights:
            flight.barrier = min(flight.barrier, newest)

    def _stop_server(self) -> None:
        """Ends replaced leaders. Answers arrive unless the process is paused. Requests are lost."""
        for process in list(self.processes.values()):
            term = _term_of(process)
            if term is not None and not self.database.is_current(term.term):
                self.crash(process)
        for flight in self._flights_to_server():
            if flight.answer is None or isinstance(flight.answer, Unknown):
                continue
            if flight.process.paused_until > self.now:
                flight.answer = Unknown(flight.request)
            else:
                self._answer(flight)
        for flight in self._flights_to_server():
            if flight.answer is None:
                self.flights.remove(flight)
                self._time_out(flight)

    def _flights_to_server(self) -> list[Flight]:
        return [flight for flight in self.flights if not isinstance(flight.request, _DATABASE)]


def _term_of(process: Process) -> LeaderTerm | None:
    return getattr(process.leader._phase, "leader_term", None)
