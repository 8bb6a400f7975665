"""What a leader is told, and what it asks for: the alphabets of ``runtime/leader/leader.py``.

Here the database's part; cluster/messages.py has the API server's. Whoever drives a leader carries
each request out and answers it exactly once (but ``Keep``): with its answer, or with ``Unknown``
when none came in time (the request may have been carried out, or still will be).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from eventsched.cluster.messages import ClusterAnswer, ClusterRequest, WatchEvent
from eventsched.domain.records import Stimulus
from eventsched.eventlog.chain import Head, SealedBatch, Term
from eventsched.eventlog.port import Stored, StoredSnapshot

# --- requests -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Acquire:
    """Begin a new epoch with a token of its own, and read what of the log follows ``known``, the
    place up to which the asker has followed it. Where the log has no such place (another hash, or
    it ends before), history was lost: read it whole. Answer: ``Acquired``."""

    known: Head


@dataclass(frozen=True, slots=True)
class Append:
    """Commit a batch. Answer: ``Committed``, or ``Deposed``. After an unknown outcome the same
    batch comes again, byte for byte; where the first one did arrive, that is ``Committed``."""

    batch: SealedBatch


@dataclass(frozen=True, slots=True)
class Renew:
    """Ask whether the term is still the newest, and say that its holder lives. Answer:
    ``Renewed``, or ``Deposed``."""

    term: Term


@dataclass(frozen=True, slots=True)
class Keep:
    """Store a snapshot in place of older ones; it is committed up to there. That it is lost is no
    harm: there is no answer."""

    term: Term
    snapshot: StoredSnapshot


DatabaseRequest = Acquire | Append | Renew | Keep
Request = DatabaseRequest | ClusterRequest


# --- answers ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Acquired:
    """A term has begun. ``records`` are the log from ``since`` up to ``head``; ``since`` is the
    place that was asked for, or position 0: the whole log. ``timeline`` names the history that the
    database is on ("" where it hides that): it differs from the one in the log when committed
    batches may have been lost (a failover to a replica, a restored backup). ``mark`` is that of the
    last batch."""

    term: Term
    since: Head
    head: Head
    records: Iterable[Stored]
    timeline: str
    mark: bytes = b"null"


@dataclass(frozen=True, slots=True)
class Committed:
    """The batch under way is durable."""


@dataclass(frozen=True, slots=True)
class Renewed:
    """The term is still the newest."""


@dataclass(frozen=True, slots=True)
class Deposed:
    """The term is over: another one has begun, the database has gone over to another history since
    (also where the log's end looks the same on it), or the stored head is not the leader's. Nothing
    that this leader offers will be accepted. ``reason`` is for people."""

    reason: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: ``Leader.wake_at`` is reached. From whoever drives the leader."""


DatabaseAnswer = Acquired | Committed | Renewed | Deposed
Message = DatabaseAnswer | WatchEvent | ClusterAnswer | Tick | Stimulus
"""A stimulus comes from outside cluster and log as it is: what people asked for, say. Before the
leader leads it is passed over."""
