"""Logs that are written record by record, for tests of anomalies: each line is what happened."""

from contextlib import closing

from eventsched.domain import records
from eventsched.domain.objects import Owner
from eventsched.domain.records import FORMAT, MoveCause, Outcome, Queue, Record
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.verdicts import Code, Verdict
from eventsched.eventlog.port import Batch, StoredRecord
from eventsched.eventlog.postgres.writer import PostgresEventLog
from tests.builders import SECOND, make_node, make_pod

MINUTE = 60 * SECOND
FULL, TOO_SMALL = 1, 2
"""Verdicts on a node: other pods would have to leave it, or that would not help either."""
_VERDICTS = {FULL: Code.UNSCHEDULABLE, TOO_SMALL: Code.UNRESOLVABLE}


class Diary:
    """A log in the making. Times are minutes."""

    def __init__(self, *nodes: str) -> None:
        self.entries: list[LogEntry] = []
        self.minute = 0.0
        self._attempts: dict[str, int] = {}
        self.note(records.StreamStarted(format=FORMAT, engine="test", seed="diary"))
        for number, code in _VERDICTS.items():
            verdict = Verdict("NodeResourcesFit", code, ("Insufficient cpu",))
            self.note(records.VerdictDefined(number=number, verdict=verdict))
        self.note(*(records.NodeAdded(node=make_node(name)) for name in nodes))

    def note(self, *happened: Record) -> None:
        """These records, now."""
        for record in happened:
            position = len(self.entries)
            self.entries.append(
                LogEntry(position, round(self.minute * MINUTE), position, record, None)
            )

    def arrives(
        self, name: str, owner: str = "", *, priority: int = 0, gated: bool = False,
        namespace: str = "default",
    ) -> str:  # fmt: skip
        """A pod comes into a queue. Returns its uid, which is its name."""
        made = Owner(kind="ReplicaSet", name=owner) if owner else None
        pod = make_pod(name, owner=made, priority=priority, namespace=namespace)
        self.note(records.PodAdded(pod=pod))
        self.queued(name, Queue.GATED if gated else Queue.ACTIVE, MoveCause.POD_ADD)
        return name

    def queued(self, uid: str, queue: Queue, cause: str) -> None:
        self.note(records.PodQueued(uid=uid, queue=queue, cause=cause))

    def is_refused(self, uid: str, *verdicts: int, by_all: bool = True, feasible: int = 0) -> None:
        """An attempt that finds no node: each of these verdicts on one (FULL by default). If not
        ``by_all``, no node was judged. A plugin refused the best of ``feasible`` nodes."""
        counts = tuple((number, 1) for number in verdicts or (FULL,)) if by_all else ()
        self._decide(uid, Outcome.UNSCHEDULABLE, "", counts, feasible)
        self.queued(uid, Queue.UNSCHEDULABLE, MoveCause.ATTEMPT_FAILED)

    def is_placed(self, uid: str, node: str) -> None:
        """An attempt that finds a node, and the bind."""
        self._decide(uid, Outcome.SCHEDULED, node)
        self.note(records.PodBound(uid=uid, node=node, attempt=self._attempts[uid]))

    def waits_at_permit(self, uid: str, node: str) -> None:
        """An attempt that finds a node, where a plugin has the pod wait."""
        self._decide(uid, Outcome.WAITING, node)

    def preempts(self, uid: str, node: str, *victims: str, leaving: tuple[str, ...] = ()) -> None:
        """An attempt that nominates the pod to a node which the victims have to leave."""
        self._decide(uid, Outcome.UNSCHEDULABLE, "", ((FULL, 1),))
        self.note(
            records.PreemptionDecided(
                uid=uid, attempt=self._attempts[uid], node=node, row=0, criterion="only",
                victims=victims, leaving=leaving,
            )
        )  # fmt: skip
        self.queued(uid, Queue.UNSCHEDULABLE, MoveCause.ATTEMPT_FAILED)

    def goes(self, *uids: str) -> None:
        """The pods are deleted."""
        self.note(*(records.PodDeleted(uid=uid) for uid in uids))

    def write(self, address: str, stream: str, batch: int = 5) -> None:
        """Writes it all."""
        with closing(PostgresEventLog(address, stream, holder="test")) as log:
            for first in range(0, len(self.entries), batch):
                part = self.entries[first : first + batch]
                log.begin(Batch([StoredRecord.of(entry) for entry in part], {}))
                log.finish()

    def _decide(
        self, uid: str, outcome: Outcome, node: str, counts: tuple[tuple[int, int], ...] = (),
        feasible: int = 0,
    ) -> None:  # fmt: skip
        attempt = self._attempts[uid] = self._attempts.get(uid, 0) + 1
        self.note(
            records.PodDecided(
                uid=uid, attempt=attempt, outcome=outcome, node=node, counts=counts,
                feasible=int(outcome is Outcome.SCHEDULED) or feasible,
            )
        )  # fmt: skip


def starving() -> Diary:
    """``huge`` waits while later pods are placed; no other pod starves."""
    diary = Diary("n1", "n2")
    diary.arrives("huge", priority=5)
    diary.is_refused("huge")
    diary.arrives("gated", gated=True)  # its gates open late
    diary.minute = 1
    for name, priority in (("small", 0), ("equal", 5), ("urgent", 6), ("short", 0)):
        diary.arrives(name, priority=priority)
        diary.is_placed(name, "n1")
    diary.goes("short")  # it has left, so it holds nothing back
    diary.minute = 2
    diary.arrives("last")  # no pod came after it
    diary.is_refused("last")
    diary.minute = 9
    diary.queued("gated", Queue.ACTIVE, "PodUpdateGates")
    diary.is_refused("gated")
    diary.minute = 9.9
    diary.arrives("latest", priority=-1)
    diary.is_refused("latest")
    return diary


def evicted_again(rounds: int, pause: float) -> Diary:
    """Pods of ``web``, one after another, are placed and have to leave for another, every
    ``pause`` minutes."""
    diary = Diary("n1")
    for number in range(rounds):
        web = diary.arrives(f"web-{number}", "web")
        diary.is_placed(web, "n1")
        diary.minute += pause
        boss = diary.arrives(f"boss-{number}", f"boss-{number}", priority=9)
        diary.preempts(boss, "n1", web)
        diary.goes(web)
        diary.is_placed(boss, "n1")
        diary.goes(boss)
    return diary


def nominated_again(times: int, pause: float) -> Diary:
    """``boss`` is nominated again and again, and then deleted."""
    diary = Diary("n1", "n2")
    for number in range(times):
        diary.is_placed(diary.arrives(f"web-{number}"), f"n{number % 2 + 1}")
    boss = diary.arrives("boss", priority=9)
    for number in range(times):
        diary.preempts(boss, f"n{number % 2 + 1}", f"web-{number}")
        diary.minute += pause
    return diary
