"""The log taken in: the engine's state, and what a leader needs to know beside it.

A standby follows the log with it; a leader goes on from there with records of its own. A snapshot
of it stands for the records before a place, so that a restart need not begin at the first one.
"""

from collections.abc import Callable, Iterable

import msgspec

from eventsched.domain.records.logged import Logged
from eventsched.eventlog import chain
from eventsched.eventlog.chain import Head
from eventsched.eventlog.port import Stored, StoredSnapshot
from eventsched.runtime.effects.decision_names import KeptDecisions, OpenDecisions
from eventsched.runtime.effects.event_drafts import Draft, EventDrafter, KeptDrafting
from eventsched.runtime.snapshot_policy import (
    BYTE_SECONDS,
    FOLD_SECONDS,
    fold_seconds,
    is_readable,
    label,
)
from eventsched.scheduling.engine import Engine


class Mark(msgspec.Struct, frozen=True):
    """What a leader writes beside a batch: how far each watch had told everything (resourceVersions
    by resource) when it was closed, and the position before which all was reported."""

    seen: dict[str, int] = {}
    reported: int = 0


class KeptFold(msgspec.Struct):
    """A snapshot's body."""

    engine: msgspec.Raw
    decisions: KeptDecisions
    drafter: KeptDrafting
    drafts: list[Draft]


_mark = msgspec.json.Decoder(Mark | None)


class Standby:
    """One who follows a stream that somebody else writes. A term begins with it (leader.py); it is
    not used on its own any more then."""

    def __init__(self, make_engine: Callable[[], Engine], stream: str) -> None:
        """``make_engine`` gives a fresh one."""
        self.stream = stream
        self.rewritten = False
        """Whether the stream has lost records that were followed once."""
        self.kept_at = 0
        """The position of the newest snapshot that is known."""
        self.kept_size = 0
        """Its size in bytes."""
        self.unkept = 0.0
        """Seconds that applying what came after it takes, roughly (snapshot_policy.py)."""
        self._make_engine = make_engine
        self.fold = Fold(make_engine(), stream)

    @property
    def head(self) -> Head:
        """Up to here the stream was followed."""
        return self.fold.head

    def restore(self, snapshot: StoredSnapshot) -> bool:
        """Begins with a snapshot; whether it is of any use. Only before anything is followed."""
        fold = self.restored(snapshot)
        if fold is not None:
            self.begin(fold, len(snapshot.body))
        return fold is not None

    def restored(self, snapshot: StoredSnapshot) -> "Fold | None":
        """What a snapshot holds, for ``begin``; None where it is of no use. May be called in a
        thread of its own: of a large cluster it takes seconds."""
        fold = Fold(self._make_engine(), self.stream)
        return fold if fold.restore(snapshot) else None

    def begin(self, fold: "Fold", size: int) -> None:
        """Begins with what a snapshot of so many bytes held."""
        self.fold = fold
        self.kept(fold.head.next, size)

    def kept(self, position: int, size: int) -> None:
        """There is a snapshot of this position and size."""
        self.kept_at, self.kept_size, self.unkept = position, size, 0.0

    def weigh(self, records: int, size: int) -> None:
        """So much follows the newest snapshot, in addition."""
        self.unkept += fold_seconds(records, size)

    def due(self, head: Head, every: int) -> float:
        """How much a snapshot is due: from 1 on if nobody has to wait for it, from 2 on anyway.
        With 2 a start would apply ``2 * every`` records, or FOLD_SECONDS' worth of them, or what
        takes as long as loading the snapshot itself."""
        most = max(FOLD_SECONDS, self.kept_size * BYTE_SECONDS)
        return max((head.next - self.kept_at) / every, 2 * self.unkept / most)

    def follow(self, stored: Iterable[Stored], head: Head, mark: bytes) -> None:
        """Takes in the records that follow ``head``, up to a new one. ``mark`` is that of their
        last batch. Raises what ``Fold.follow`` raises."""
        stored = list(stored)
        self.weigh(len(stored), sum(len(each.body) for each in stored))
        self.fold.follow(stored, head, mark)

    def start_over(self) -> None:
        """What was followed is not in the stream any more: history was lost. From its first record
        on it is to be followed again."""
        self.rewritten = self.rewritten or self.fold.head.next > 0
        self.fold = Fold(self._make_engine(), self.stream)
        self.kept(0, 0)

    def snapshot(self) -> StoredSnapshot:
        """What was taken in, for ``restore``."""
        return self.fold.snapshot(self.fold.head, self.fold.drafts)


class Fold:
    """A stream's records applied, up to ``head``. ``drafts`` are what they gave to tell and was not
    known to be told."""

    def __init__(self, engine: Engine, stream: str) -> None:
        """``engine`` is a fresh one."""
        self.engine = engine
        self.head = Head(0, chain.genesis(stream))
        self.decisions = OpenDecisions(stream)
        self.drafts: list[Draft] = []
        self._drafter = EventDrafter(engine.state, self.decisions)

    def follow(self, records: Iterable[Stored], head: Head, mark: bytes) -> None:
        """Takes in the records up to a head. ``mark`` is that of their last batch. Raises
        ValueError for records that do not end there, KeyError for ones that do not fit together,
        msgspec.ValidationError for one of an unknown kind."""
        reported = _reported(mark)
        for stored in records:
            logged = stored.logged
            self.engine.apply(logged)
            found = self._next(logged)
            if logged.cause >= reported:
                self.drafts += found
        if self.engine.position != head.next:
            raise ValueError(
                f"the log has {self.engine.position} records, its head says {head.next}"
            )
        self.head = head
        self.drafts = [draft for draft in self.drafts if draft.position >= reported]

    def take(self, logged: Iterable[Logged]) -> list[Draft]:
        """Takes in the engine's own records; what they give to tell."""
        return [draft for each in logged for draft in self._next(each)]

    def _next(self, logged: Logged) -> list[Draft]:
        found = self._drafter.follow(logged)
        self.decisions.follow(logged)
        return found

    def snapshot(self, head: Head, drafts: Iterable[Draft]) -> StoredSnapshot:
        """All of it as it is now. ``head`` is the stream's, once all records are committed, and
        ``drafts`` what is not told by then."""
        kept = KeptFold(
            engine=msgspec.Raw(self.engine.snapshot()),
            decisions=self.decisions.snapshot(),
            drafter=self._drafter.snapshot(),
            drafts=list(drafts),
        )
        return StoredSnapshot(
            position=head.next,
            hash=head.hash,
            digest=self.engine.state.digest(),
            version=label(),
            body=msgspec.json.encode(kept),
        )

    def restore(self, snapshot: StoredSnapshot) -> bool:
        """Goes on from a snapshot; whether it is one of this format, and is what it says. If it is
        not, this fold is spoilt. Only for a new one."""
        if not is_readable(snapshot.version):
            return False
        try:
            kept = msgspec.json.decode(snapshot.body, type=KeptFold)
            self.engine.restore(bytes(kept.engine), snapshot.position)
        except (msgspec.MsgspecError, KeyError):
            return False
        self.head = Head(snapshot.position, snapshot.hash)
        self.decisions.restore(kept.decisions)
        self._drafter.restore(kept.drafter)
        self.drafts = kept.drafts
        return self.engine.state.digest() == snapshot.digest


def _reported(mark: bytes) -> int:
    """The position before which all is told, as a batch's mark says. 0 where it says nothing."""
    try:
        found = _mark.decode(mark)
    except msgspec.MsgspecError:  # of an older writer: what it told is told again
        return 0
    return found.reported if found is not None else 0
