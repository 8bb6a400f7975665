"""Errors of a log, other than bad input."""

from eventsched.domain.errors import UnavailableError as UnavailableError


class DatabaseRefusedError(UnavailableError):
    """The database answers but refuses: a wrong password, a missing privilege, a schema of another
    version. Waiting does not help; an operator has to change something."""


class ConflictError(Exception):
    """The batch does not begin at the log's head: the writer's view of the log is wrong. The writer
    drops its state and reads the log again."""

    def __init__(self, expected: int, head: int) -> None:
        self.expected = expected
        self.head = head
        super().__init__(f"a batch for position {expected} was offered, but the head is at {head}")


class FencedError(Exception):
    """Another writer with a newer epoch has taken over the stream. It will accept no further batch
    from this writer."""

    def __init__(self, stream: str, epoch: int, now: int) -> None:
        self.stream, self.epoch, self.now = stream, epoch, now
        super().__init__(
            f"stream {stream}: we write in epoch {epoch}, but another writer has begun epoch {now}"
        )


class HistoryChangedError(Exception):
    """The database is on another history (after a failover or a restored backup), which may lack
    batches that were committed. The writer's term ends."""


class UnknownOutcomeError(Exception):
    """The connection broke before the answer arrived: the batch may or may not be committed. Send
    the identical batch again: the database recognises it if it was committed. A changed batch
    could be stored after one that was already committed."""


class NotDurableError(UnknownOutcomeError):
    """The batch is in the log, but a synchronous standby has not confirmed it, so a failover could
    lose it. Sending it again waits for the standby again."""


class CorruptLogError(Exception):
    """The data stored at a position is not a record of this log: it was damaged or edited."""

    def __init__(self, position: int, problem: str) -> None:
        self.position, self.problem = position, problem
        super().__init__(f"position {position}: {problem}")
