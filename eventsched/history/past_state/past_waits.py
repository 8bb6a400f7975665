"""How long pods waited for a node in the recent past of a log, by the plugins that refused them.

A wait begins when a pod first comes into a queue and ends with the decision that puts it on its
node. It counts for every set of plugins that refused the pod on the way, and for "no refusal yet".
Of a wait that had not ended, or whose pod was deleted, only the least length is known.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from eventsched.domain import records
from eventsched.domain.records import MoveCause, Outcome
from eventsched.eventlog.port import StoredRecord
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.explain.evidence import uid_key

WINDOW = 100_000
"""How many records before a position are looked at."""
_MOST = 1_000
"""How many waits are looked up in a database, for all sets of plugins together."""

Rejectors = tuple[str, ...]
"""Plugins that refused a pod, in the order of its record; () if none has yet."""


class PastWait(NamedTuple):
    """How long a pod waited, in µs. If the wait ``is_over`` not, that is its least length."""

    length: int
    is_over: bool


@dataclass
class PastWaits:
    """Waits by the plugins that refused the pods, and when the waits ``began`` (µs) of the pods
    that were asked about, by uid as views show it."""

    lengths: dict[Rejectors, list[PastWait]] = field(default_factory=dict)
    began: Mapping[str, int] = field(default_factory=dict)


@dataclass
class PodWait:
    """The wait of one pod, in µs: ``decided`` is when a node was chosen that it does not have yet,
    ``ended`` when the one was chosen that it has, ``gone`` when it was deleted without one.
    ``rejectors`` are those of its last move, ``refused_by`` all sets."""

    began: int
    rejectors: Rejectors = ()
    refused_by: set[Rejectors] = field(default_factory=set)
    decided: int | None = None
    ended: int | None = None
    gone: int | None = None

    def until(self, now: int) -> PastWait:
        """The wait as it is at a time."""
        if self.ended is not None:
            return PastWait(self.ended - self.began, is_over=True)
        end = now if self.gone is None else self.gone
        return PastWait(max(0, end - self.began), is_over=False)


class WaitScan:
    """Follows the waits of pods through the records of a log. Pods that came into a queue before
    the first of them are left out."""

    def __init__(self) -> None:
        self.pods: dict[str, PodWait] = {}
        """The newest wait of each pod, by uid."""

    def take(self, stored: StoredRecord) -> None:
        """Takes the next record."""
        match stored.record:
            case records.PodQueued() as moved:
                if moved.cause == MoveCause.POD_ADD:
                    self.pods[moved.uid] = PodWait(stored.at)
                if moved.uid in self.pods:
                    wait = self.pods[moved.uid]
                    wait.rejectors = moved.rejectors
                    wait.refused_by.add(moved.rejectors)
            case records.PodDecided(uid=uid, outcome=Outcome.SCHEDULED | Outcome.WAITING):
                self._note(uid, decided=stored.at)
            case records.PodUnreserved(uid=uid):
                self._note(uid, decided=None)
            case records.PodBound(uid=uid):
                self._end(uid, stored.at)
            case records.PodUpdated(pod=pod) if pod.node_name:
                self._end(pod.uid, stored.at)
            case records.PodDeleted(uid=uid) if uid in self.pods and self.pods[uid].ended is None:
                self._note(uid, gone=stored.at)

    def _note(self, uid: str, **times: int | None) -> None:
        if uid in self.pods and self.pods[uid].ended is None:
            for name, at in times.items():
                setattr(self.pods[uid], name, at)

    def _end(self, uid: str, at: int) -> None:
        wait = self.pods.get(uid)
        if wait is not None and wait.ended is None:
            wait.ended = at if wait.decided is None else wait.decided

    def waiting(self) -> dict[str, PodWait]:
        """The waits of pods that are in a queue, by uid."""
        return {
            uid: wait
            for uid, wait in self.pods.items()
            if wait.decided is wait.ended is wait.gone is None
        }

    def past_waits(self, now: int) -> PastWaits:
        """All waits as they are at a time (µs)."""
        found = PastWaits(began={uid_key(uid): wait.began for uid, wait in self.pods.items()})
        for wait in self.pods.values():
            for rejectors in wait.refused_by:
                found.lengths.setdefault(rejectors, []).append(wait.until(now))
        return found


def scanned_waits(log: Iterable[StoredRecord], position: int, now: int) -> PastWaits:
    """The waits in the records of a log up to a position."""
    scan = WaitScan()
    for stored in log:
        if stored.position >= position:
            break
        if stored.kind in _KINDS:
            scan.take(stored)
    return scan.past_waits(now)


_KINDS = frozenset(
    {"PodQueued", "PodDecided", "PodUnreserved", "PodBound", "PodUpdated", "PodDeleted"}
)

# A window finds the arrivals: if the planner expects few moves, a join compares each with each.
# Times of a log never go back.
# OFFSET: both indexes together, for each pod, take longer than all moves once.
_STORED = """
WITH arrived AS MATERIALIZED (
    SELECT pod, max(seq) AS seq, max(at) AS at FROM eventsched_log.queue_move
    WHERE stream = :s AND seq >= :begin AND seq < :position AND cause = 'PodAdd' GROUP BY pod
), waited AS (
    SELECT DISTINCT coalesce(array_to_string(m.rejectors, ','), '') AS reasons, a.pod,
           a.at AS began, a.seq
    FROM arrived a JOIN (
        SELECT pod, seq, rejectors FROM eventsched_log.queue_move
        WHERE stream = :s AND seq >= :begin AND seq < :position OFFSET 0
    ) m ON m.pod = a.pod AND m.seq >= a.seq
    WHERE coalesce(array_to_string(m.rejectors, ','), '') = ANY(:reasons)
), numbered AS (
    SELECT *, row_number() OVER (PARTITION BY reasons ORDER BY seq DESC) - 1 AS number,
           count(*) OVER (PARTITION BY reasons) AS waits
    FROM waited
)
SELECT n.reasons, n.began, r.at AS ended, e.at AS gone
FROM numbered n
LEFT JOIN LATERAL (
    SELECT coalesce(decided_at, at) AS at FROM eventsched_log.reservation
    WHERE stream = :s AND pod = n.pod AND seq > n.seq AND seq < :position
      AND ended_by IN ('PodBound', 'PodUpdated')
    ORDER BY seq LIMIT 1
) r ON true
LEFT JOIN LATERAL (
    SELECT at FROM eventsched_log.pod_end
    WHERE stream = :s AND pod = n.pod AND seq > n.seq AND seq < :position ORDER BY seq LIMIT 1
) e ON r.at IS NULL
WHERE n.number % ((n.waits + :most - 1) / :most) = 0
"""
_BEGAN = """
SELECT DISTINCT ON (pod) pod::text, at FROM eventsched_log.queue_move
WHERE stream = :s AND pod = ANY(CAST(:pods AS uuid[])) AND seq < :position AND cause = 'PodAdd'
ORDER BY pod, seq DESC
"""


def stored_waits(
    reader: Reader, position: int, now: int, asked: Collection[Rejectors], uids: Collection[str]
) -> PastWaits:
    """The waits up to a position that a database has in its typed rows, for these sets of plugins,
    and when the waits of these pods (uids as views show them) began. Of more than 1,000 waits every
    second, third, … is taken."""
    names = {",".join(rejectors): rejectors for rejectors in asked}
    if not names:
        return PastWaits()
    rows = reader.rows(
        _STORED, begin=position - WINDOW, position=position, reasons=list(names),
        most=max(1, _MOST // len(names)),
    )  # fmt: skip
    began = reader.rows(_BEGAN, pods=list(uids)[:_MOST], position=position)
    found = PastWaits(began={row["pod"]: row["at"] for row in began})
    for row in rows:
        wait = PodWait(row["began"], ended=row["ended"], gone=row["gone"])
        found.lengths.setdefault(names[row["reasons"]], []).append(wait.until(now))
    return found
