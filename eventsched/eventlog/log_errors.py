"""What can go wrong with a log, apart from bad input."""

from eventsched.domain.errors import UnavailableError as UnavailableError


class DatabaseRefusedError(UnavailableError):
    """It is there and answers, but refuses us: a wrong password, a right that is missing, a schema
    of another version. Waiting does not mend that, somebody has to."""


class ConflictError(Exception):
    """The log's head is not where the batch begins: history is not what the writer takes it to be.
    Whoever meets it drops its state and folds the log anew."""

    def __init__(self, expected: int, head: int) -> None:
        self.expected = expected
        self.head = head
        super().__init__(f"a batch for position {expected} was offered, but the head is at {head}")


class FencedError(Exception):
    """Another writer has taken the stream over: its epoch is newer than ours. Nothing that we
    offer will ever be accepted again."""

    def __init__(self, stream: str, epoch: int, now: int) -> None:
        self.stream, self.epoch, self.now = stream, epoch, now
        super().__init__(
            f"stream {stream}: we write in epoch {epoch}, but another writer has begun epoch {now}"
        )


class HistoryChangedError(Exception):
    """The database has gone over to another history (a failover, a restored backup): batches that
    were committed may be missing in it. A term does not outlive that."""


class UnknownOutcomeError(Exception):
    """The connection broke before the answer came: the batch may have been committed or not.
    Offer the identical batch again: if the first attempt has committed, the database says so. A
    changed batch could come on top of one that is committed already."""


class NotDurableError(UnknownOutcomeError):
    """The batch is in the log, but a synchronous standby has not confirmed it: a failover could
    lose it. Offered again, it waits for the standby anew."""


class CorruptLogError(Exception):
    """What is stored at a position is no record of this log: damaged, or edited."""

    def __init__(self, position: int, problem: str) -> None:
        self.position, self.problem = position, problem
        super().__init__(f"position {position}: {problem}")
