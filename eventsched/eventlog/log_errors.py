"""Errors of a log, other than bad input."""

from eventsched.domain.errors import UnavailableError


class DatabaseRefusedError(UnavailableError):
    """The database answers, but refuses the request: the password is wrong, a privilege is missing,
    or the schema has another version. Trying again does not help; an operator has to fix the
    cause."""


class LoginRefusedError(DatabaseRefusedError):
    """The database does not let this user in, or there is no such database."""


class ConflictError(Exception):
    """The batch does not begin at the log's head, so the writer's state does not match the log. The
    writer has to drop its state and read the log again."""

    def __init__(self, expected: int, head: int) -> None:
        self.expected = expected
        self.head = head
        super().__init__(f"a batch for position {expected} was offered, but the head is at {head}")


class FencedError(Exception):
    """Another writer has taken over the stream with a newer epoch. The database accepts no further
    batch from this writer."""

    def __init__(self, stream: str, epoch: int, now: int) -> None:
        self.stream, self.epoch, self.now = stream, epoch, now
        super().__init__(
            f"stream {stream}: we write in epoch {epoch}, but another writer has begun epoch {now}"
        )


class HistoryChangedError(Exception):
    """The database continues another history, after a failover or from a restored backup. Committed
    batches may be missing in it. The writer's term ends."""


class RecordsDroppedError(Exception):
    """The records that follow a position were dropped because of their age. Nothing is lost: the
    log is read from a later snapshot on."""


class UnknownOutcomeError(Exception):
    """The connection broke before the answer arrived, so the batch may or may not be committed.
    Send the identical batch again: if it was committed, the database recognises it. Do not send a
    changed batch: it could be stored in addition to the first one."""


class NotDurableError(UnknownOutcomeError):
    """The batch is in the log, but a synchronous standby has not confirmed it, so a failover could
    lose it. Sending it again waits for the standby again."""


class CorruptLogError(Exception):
    """The data stored at a position is not a record of this log: it was damaged or edited."""

    def __init__(self, position: int, problem: str) -> None:
        self.position, self.problem = position, problem
        super().__init__(f"position {position}: {problem}")

    def __reduce__(self) -> tuple[type["CorruptLogError"], tuple[int, str]]:
        """For pickle: an error may come from another process."""
        return CorruptLogError, (self.position, self.problem)
