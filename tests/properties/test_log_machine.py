"""The log in Postgres against a plain list, with any writers and any losses: acknowledged
batches are there, fenced ones are not, positions have no gaps, and batches are chained."""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import psycopg
import pytest
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from eventsched.domain import records
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.verdicts import Detail
from eventsched.eventlog import chain
from eventsched.eventlog.chain import Head, SealedBatch, Term
from eventsched.eventlog.log_errors import FencedError, UnknownOutcomeError
from eventsched.eventlog.port import Batch, StoredRecord, StoredSnapshot
from eventsched.eventlog.postgres.writer import PostgresEventLog
from tests.databases import Server, migrate, one_server
from tests.properties.strategies import deterministic

__all__ = ["one_server"]

_numbers = count()


@dataclass
class Model:
    """What has to be in the log."""

    records: list[StoredRecord] = field(default_factory=list)
    details: dict[int, list[int]] = field(default_factory=dict)
    heads: list[Head] = field(default_factory=list)
    epochs: int = 0
    snapshot: StoredSnapshot | None = None

    def take(self, batch: Batch, head: Head) -> None:
        """A batch that is known to be in the log."""
        self.records += batch.records
        for at, detail in batch.details.items():
            assert detail.codes is not None
            self.details[at] = detail.codes.tolist()
        self.heads.append(head)


class LogMachine(RuleBasedStateMachine):
    """One stream. ``log`` is the present writer, ``old`` those that were replaced."""

    url: str
    admin: psycopg.Connection

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.old: list[PostgresEventLog] = []
        self.refused: list[PostgresEventLog] = []
        """Those of ``old`` whose last batch was refused."""
        self.made = 0

    @initialize()
    def begin(self) -> None:
        self.stream = f"machine {next(_numbers)}"
        self.log = self.opened()
        self.model.heads.append(Head(0, chain.genesis(self.stream)))

    def opened(self) -> PostgresEventLog:
        """The next writer."""
        self.model.epochs += 1
        return PostgresEventLog(self.url, self.stream, self.stream, patience=60)

    def batch(self, number: int, decisions: set[int]) -> Batch:
        """``number`` records that no other batch holds, some of them with vectors."""
        made: list[StoredRecord] = []
        details = {}
        first = self.log.head
        for at in range(first, first + number):
            self.made += 1
            record = records.PodDeleted(uid=f"p{self.made}")
            made.append(StoredRecord.of(LogEntry(at, 0, first, record)))
            if at - first in decisions:
                codes = np.array([self.made % 65_536, at % 65_536, 7], dtype=np.uint16)
                details[at] = Detail(3, None, codes, ())
        return Batch(made, details, b"%d" % self.made)

    def settle(self, begun: Batch, mine: Head) -> bool:
        """Whether a batch of unknown fate is in the log, by the head that its successor found."""
        found = Head(self.log.head, self.log.head_hash)
        if found == mine:
            self.model.take(begun, found)
            return True
        assert found == self.model.heads[-1]
        return False

    batches = st.tuples(st.integers(1, 5), st.sets(st.integers(0, 4), max_size=3))

    @rule(made=batches)
    def append(self, made: tuple[int, set[int]]) -> None:
        """An everyday batch."""
        batch = self.batch(*made)
        self.log.begin(batch)
        self.log.finish()
        self.model.take(batch, Head(self.log.head, self.log.head_hash))

    @rule(made=batches, when=st.sampled_from(["before", "meanwhile", "afterwards"]))
    def append_while_the_connection_is_lost(self, made: tuple[int, set[int]], when: str) -> None:
        """Before the batch is sent, at some moment, or when only the answer was still to come: in
        the end it is there once."""
        batch = self.batch(*made)
        if when == "before":
            self.kill()
        self.log.begin(batch)
        if when == "meanwhile":
            self.kill()
        elif when == "afterwards":
            for _ in range(300):  # where an earlier kill took the connection it never comes
                if self.stored_head() == self.log.head:
                    break
                time.sleep(0.001)
            self.log._connection.close()
        self.log.finish()
        self.model.take(batch, Head(self.log.head, self.log.head_hash))

    @rule(made=batches)
    def crash(self, made: tuple[int, set[int]]) -> None:
        """Only the next writer learns whether the last batch was committed."""
        batch = self.batch(*made)
        self.log.begin(batch)
        mine = Head(self.log.head, self.log.head_hash)
        self.log.close()
        self.log = self.opened()
        self.settle(batch, mine)

    @rule(made=batches)
    def take_over_from_one_that_writes(self, made: tuple[int, set[int]]) -> None:
        """Its batch is committed or not, and the writer learns which."""
        batch = self.batch(*made)
        old = self.log
        old.begin(batch)
        mine = Head(old.head, old.head_hash)
        self.log = self.opened()
        if self.settle(batch, mine):
            old.finish()
        else:
            with pytest.raises(FencedError) as fenced:
                old.finish()
            assert fenced.value.now == self.log.epoch
            self.refused.append(old)
        self.old.append(old)

    @rule(ended=st.booleans())
    def follow_one_that_does_not_write(self, ended: bool) -> None:
        """It has ended, or still believes that it owns the log."""
        if ended:
            self.log.close()
        else:
            self.old.append(self.log)
        self.log = self.opened()
        assert Head(self.log.head, self.log.head_hash) == self.model.heads[-1]

    @precondition(lambda self: self.old)
    @rule(which=st.integers(0, 9))
    def somebody_replaced_writes(self, which: int) -> None:
        """It is refused, whichever head it expects."""
        old = self.old.pop(which % len(self.old))
        with pytest.raises((FencedError, UnknownOutcomeError)):  # unknown: we cut its connection
            old.renew()
        if old not in self.refused:  # else the takeover came before its batch, which is refused
            record = records.PodDeleted(uid="fenced")
            old.begin(Batch([StoredRecord.of(LogEntry(old.head, 0, old.head, record))], {}))
            with pytest.raises(FencedError):
                old.finish()
        old.close()

    @rule()
    def renew(self) -> None:
        """The present one has not been replaced."""
        with suppress(UnknownOutcomeError):  # we cut its connection
            self.log.renew()

    @rule(body=st.binary(max_size=8))
    def keep_a_snapshot(self, body: bytes) -> None:
        """It replaces the previous one, or fails if the connection had been cut."""
        snapshot = StoredSnapshot(self.log.head, self.log.head_hash, "d", "v", body)
        self.log.store_snapshot(snapshot)
        found = self.log.reader.snapshot()
        assert found in (snapshot, self.model.snapshot)
        self.model.snapshot = found

    # Draws do not depend on what happened to a batch: what Hypothesis repeats is the same then.
    @rule(where=st.integers(0, 99))
    def read(self, where: int) -> None:
        """From any position on; vectors are those that were written."""
        first = where % (len(self.model.records) + 2)
        assert list(self.log.read(first)) == self.model.records[first:]

    @rule(where=st.integers(0, 99), what=st.integers(0, 2))
    def look(self, where: int, what: int) -> None:
        """At one thing that is stored: they cost a connection each."""
        first = where % (len(self.model.records) + 2)
        if what == 0:
            detail = self.log.detail(first)
            found = None if detail is None or detail.codes is None else detail.codes.tolist()
            assert found == self.model.details.get(first)
        elif what == 1:
            before = next((head for head in self.model.heads[1:] if head.next == first), None)
            hashed = self.log.reader.hash_before(first)
            assert hashed == (None if before is None else before.hash)
        else:
            assert self.log.reader.head == self.model.heads[-1]

    @invariant()
    def the_writer_knows_the_head(self) -> None:
        if hasattr(self, "log"):
            assert Head(self.log.head, self.log.head_hash) == self.model.heads[-1]
            assert self.log.epoch == self.model.epochs

    def stored_head(self) -> int:
        """What the database says."""
        row = self.admin.execute(
            "SELECT h.next FROM eventsched_log.head h"
            " JOIN eventsched_log.stream s ON s.id = h.stream WHERE s.name = %s",
            [self.stream],
        ).fetchone()
        assert row is not None
        return int(row[0])

    def kill(self) -> None:
        """Ends the backends of this stream's writers."""
        self.admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = %s",
            [f"eventsched {self.stream}"],
        )

    def teardown(self) -> None:
        """The whole chain, from the beginning."""
        if not hasattr(self, "log"):
            return
        for each in (self.log, *self.old):
            each.close()
        reader = self.log.reader
        tokens = {
            row["epoch"]: row["token"].bytes
            for row in reader.rows(
                "SELECT epoch, token FROM eventsched_log.epoch WHERE stream = :s"
            )
        }
        assert set(tokens) == set(range(1, self.model.epochs + 1))
        last, heads, found = 0, self.model.heads[:1], []
        for batch in reader.batches():
            assert batch.first == heads[-1].next
            assert batch.count == len(batch.records)
            assert batch.epoch >= last
            last = batch.epoch
            sealed = SealedBatch(
                Term(self.stream, batch.epoch, tokens[batch.epoch]), batch.first, batch.count,
                batch.written_at, batch.mark.encode(), heads[-1].hash, batch.hash,
                batch.body.encode(), {},
            )  # fmt: skip
            assert chain.batch_hash(sealed) == batch.hash
            heads.append(sealed.head)
            found += batch.records
        assert heads == self.model.heads
        assert found == self.model.records
        query = "SELECT seq FROM eventsched_log.detail WHERE stream = :s ORDER BY seq"
        assert [row["seq"] for row in reader.rows(query)] == sorted(self.model.details)


@pytest.fixture(scope="module")
def machine(one_server: Server) -> Iterator[type[LogMachine]]:
    """The machine, on a database of its own."""
    with one_server.fresh(migrate) as url, psycopg.connect(url, autocommit=True) as admin:
        yield type("OnPostgres", (LogMachine,), {"url": url, "admin": admin})


def test_the_log_is_a_list_that_only_grows(machine: type[LogMachine]) -> None:
    """40 lives of a stream, up to 20 steps each. A failure is not made smaller: it would take
    minutes, and what a lost connection leads to differs from time to time."""
    few = deterministic(40, stateful_step_count=20, phases=(Phase.generate,))
    run_state_machine_as_test(machine, settings=few)
