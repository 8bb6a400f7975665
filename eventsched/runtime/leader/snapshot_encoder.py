"""Encodes a snapshot of a stream's state some parts at a time, while the state goes on changing.

For 60,000 pods the encoding and the digest take hundreds of milliseconds, and no pod should wait
for them. Only the copy of the state is made at once.
"""

from collections.abc import Iterator

import msgspec

from eventsched.domain.state import snapshot
from eventsched.domain.state.digest import StateDigest
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.domain.state.state_snapshot import copied
from eventsched.eventlog.chain import Head
from eventsched.eventlog.port import StoredSnapshot
from eventsched.runtime.effects.decision_names import OpenDecisionsSnapshot
from eventsched.runtime.effects.event_drafts import Draft, EventDrafterSnapshot
from eventsched.runtime.snapshot_policy import label

PARTS_AT_ONCE = 256
"""Parts, at most, that ``advance`` encodes; each is one node, some pods, or another object."""
BYTES_AT_ONCE = 64 * 1024
"""Bytes after which ``advance`` stops: hundreds of pods, or one node, which can have a megabyte."""


class StreamStateSnapshot(msgspec.Struct):
    """A snapshot's body."""

    engine: msgspec.Raw
    decisions: OpenDecisionsSnapshot
    drafter: EventDrafterSnapshot
    drafts: list[Draft]


class SnapshotEncoder:
    """Encodes one snapshot: the state as it is when this is made."""

    def __init__(
        self,
        head: Head,
        state: SchedulerState,
        decisions: OpenDecisionsSnapshot,
        drafter: EventDrafterSnapshot,
        drafts: list[Draft],
    ) -> None:
        """``head`` is the stream's head once all records that the state has are committed. The
        last three must not change any more."""
        self.complete: StoredSnapshot | None = None
        """The snapshot, once everything is encoded."""
        self._head = head
        self._copy = copied(state)
        self._decisions, self._drafter, self._drafts = decisions, drafter, drafts
        self._digest = StateDigest(self._copy)
        self._encoded: list[bytes] = []
        self._sizes = self._parts()

    def _parts(self) -> Iterator[int]:
        """Encodes part after part, and yields their sizes."""
        for part in snapshot.parts(self._copy):
            self._encoded.append(part)
            yield len(part)
        yield from self._digest.parts()

    def advance(self) -> StoredSnapshot | None:
        """Encodes some parts. Returns the snapshot once it is complete."""
        if self.complete is None:
            size = 0
            for count, part in enumerate(self._sizes, 1):
                size += part
                if count == PARTS_AT_ONCE or size >= BYTES_AT_ONCE:
                    return None
            self.complete = self._stored()
        return self.complete

    def finish(self) -> StoredSnapshot:
        """Encodes everything that is left, and returns the snapshot."""
        while (complete := self.advance()) is None:
            pass
        return complete

    def _stored(self) -> StoredSnapshot:
        body = StreamStateSnapshot(
            engine=msgspec.Raw(b"".join(self._encoded)),
            decisions=self._decisions,
            drafter=self._drafter,
            drafts=self._drafts,
        )
        return StoredSnapshot(
            position=self._head.next,
            hash=self._head.hash,
            digest=self._digest.value,
            version=label(),
            body=msgspec.json.encode(body),
        )
