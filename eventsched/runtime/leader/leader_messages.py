"""The messages that a leader takes, and the requests that it makes (runtime/leader/leader.py).

This module defines those of the database; cluster/messages.py defines those of the API server. The
driver of a leader carries out each request and answers it exactly once, except ``StoreSnapshot``:
with its answer, or with ``Unknown`` if none came in time. After ``Unknown`` the request may have
been carried out, or may still be.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from eventsched.cluster.messages import ClusterAnswer, ClusterRequest, WatchEvent
from eventsched.domain.records import Stimulus
from eventsched.eventlog.chain import Head, SealedBatch, Term
from eventsched.eventlog.port import StoredRecord, StoredSnapshot

# --- requests -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Acquire:
    """Begin a new epoch with its own token, and read the log after ``known``, the head up to which
    this replica has followed it. If the log does not have that head (another hash, or it ends
    before), history was lost: read the whole log. Answer: ``Acquired``."""

    known: Head


@dataclass(frozen=True, slots=True)
class Append:
    """Commit a batch. Answer: ``Committed``, or ``Deposed``. After an unknown outcome the same
    batch is sent again, byte for byte. If the first one did arrive, the answer is ``Committed``."""

    batch: SealedBatch


@dataclass(frozen=True, slots=True)
class Renew:
    """Ask whether the term is still the newest, and report that its holder is alive. Answer:
    ``Renewed``, or ``Deposed``."""

    term: Term


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """Store a snapshot in place of older ones; all its records are committed. There is no answer,
    because losing it does no harm."""

    term: Term
    snapshot: StoredSnapshot


DatabaseRequest = Acquire | Append | Renew | StoreSnapshot
Request = DatabaseRequest | ClusterRequest


# --- answers ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Acquired:
    """A term has begun. ``records`` are the log from ``since`` up to ``head``; ``since`` is the
    head that was asked for, or position 0 for the whole log. ``timeline`` names the database's
    history. It does not continue the one in the log (``port.continues``) if committed batches may
    have been lost (a failover to a replica, a restored backup). ``mark`` is that of the last
    batch."""

    term: Term
    since: Head
    head: Head
    records: Iterable[StoredRecord]
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
    """The term is over: another one has begun, the database has changed to another history (even if
    the log's end looks the same there), or the stored head is not the leader's. The database will
    accept no batch of this leader. ``reason`` is for people."""

    reason: str


@dataclass(frozen=True, slots=True)
class Tick:
    """``Leader.wake_at`` is reached. Sent by the driver."""


DatabaseAnswer = Acquired | Committed | Renewed | Deposed
Message = DatabaseAnswer | WatchEvent | ClusterAnswer | Tick | Stimulus
"""A stimulus of its own comes from outside cluster and log, such as an operator's request. It is
ignored before the leader leads."""
