"""Logs of real runs in Postgres, and a superuser's connection that changes them past all guards."""

import json
from collections.abc import Callable
from typing import Any

import psycopg

from eventsched.cli.main import main
from eventsched.history.verify.verification import Result, verify_database
from eventsched.history.verify.verified_chain import batch_hash
from eventsched.history.verify.verified_log import BatchRow
from tests.databases import migrate
from tests.postgres.simulations import small_batches

TYPED = ("queue_move", "queue_stay", "reservation", "pod_end", "refusal", "mention", "victim",
         "comparison")  # fmt: skip
NAMES = ("node", "pod", "decision", "verdict", "scoring")
TABLES = ("stream", "head", "epoch", "batch", "detail", "snapshot", *NAMES, "pod_now",
          "record_count", *TYPED)  # fmt: skip
GUARDED = ("stream", "epoch", "batch", *NAMES, *TYPED)
STREAM = "simulation"
ACQUIRE = "SELECT eventsched_log.acquire('simulation', gen_random_uuid(), 'somebody', '0')"


def simulate(url: str, load: str, *more: str) -> None:
    """Runs a generated load into a database."""
    with small_batches():
        assert main(["simulate", "--generate", load, "--database", url, *more]) == 0


def tight(url: str) -> None:
    """A migrated database with a log in many batches: retries, refusals, ends of pods."""
    migrate(url)
    simulate(url, "nodes=8,pods=60,shape=tight,seed=1")


def two_streams(url: str) -> None:
    """A migrated database with two streams, one of them written by two writers in turn."""
    migrate(url)
    load = "nodes=30,pods=120,shape=mixed,seed=1,rate=20"
    simulate(url, load, "--stream", "mixed", "--until", "3")
    simulate(url, load, "--stream", "mixed")
    simulate(url, "nodes=3,pods=5", "--stream", "plain")


def derive_again(log: "TamperedLog") -> None:
    """Computes the derived rows again from the batches that are there."""
    for table in (*NAMES, "pod_now", "record_count", *TYPED):
        log.run(f"DELETE FROM {table}")
    log.rows("SELECT derive(stream, first, body)::text FROM (SELECT * FROM batch ORDER BY first) b")


class TamperedLog:
    """A database with a log that a superuser changes."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.connection = psycopg.connect(url, autocommit=True)

    def run(self, statement: str, *values: Any) -> None:
        """Runs a statement with all triggers disabled, and enables them again."""
        self._set_triggers("DISABLE TRIGGER ALL")
        self._execute(f"SET search_path = eventsched_log; {statement}" if not values else statement,
                      *values)  # fmt: skip
        self._set_triggers("ENABLE TRIGGER ALL")
        for table in GUARDED:
            for trigger in ("append_only", "append_only_all"):
                self._execute(f"ALTER TABLE eventsched_log.{table} ENABLE ALWAYS TRIGGER {trigger}")

    def _set_triggers(self, action: str) -> None:
        for table in TABLES:
            self._execute(f"ALTER TABLE eventsched_log.{table} {action}")

    def rows(self, query: str, *values: Any) -> list[Any]:
        """The rows of a query."""
        self._execute("SET search_path = eventsched_log")
        return self.connection.execute(query.encode(), values or None).fetchall()

    def batch(self, at_least: int = 0) -> BatchRow:
        """The first batch that begins at a position or later."""
        query = """SELECT first, count, epoch, (extract(epoch FROM written_at) * 1000000)::bigint,
                          convert_to(mark::text, 'UTF8'), hash, convert_to(body::text, 'UTF8')
                   FROM batch WHERE first >= %s ORDER BY first LIMIT 1"""
        return BatchRow(*self.rows(query, at_least)[0])

    def decision(self, where: str = "true", skip: int = 0) -> int:
        """The position of one of the decisions for which a condition holds."""
        query = f"SELECT seq FROM decision d WHERE {where} ORDER BY seq OFFSET {skip} LIMIT 1"
        return int(self.rows(query)[0][0])

    def verify(self, **options: Any) -> Result:
        """The result of verifying the only stream."""
        with psycopg.connect(self.url) as connection:
            (result,) = verify_database(connection, **options)
        return result

    def rehash(self, first: int, last: int | None = None) -> None:
        """Recomputes the hashes of the batches from ``first`` to ``last``."""
        previous = self.rows(
            "SELECT hash FROM batch WHERE first < %s ORDER BY first DESC LIMIT 1", first
        )[0][0]
        token = self.rows("SELECT token FROM epoch")[0][0].bytes
        while first < self.rows("SELECT next FROM head")[0][0]:
            batch = self.batch(first)
            if last is not None and first > last:
                return
            previous = batch_hash(batch, token, previous)
            self.run("UPDATE eventsched_log.batch SET hash = %s WHERE first = %s", previous, first)
            first = batch.end
        self.run("UPDATE eventsched_log.head SET hash = %s", previous)

    def close(self) -> None:
        """Closes the connection."""
        self.connection.close()

    def _execute(self, statement: str, *values: Any) -> None:
        self.connection.execute(statement.encode(), values or None)


def first_of_kind(log: TamperedLog, kind: str) -> int:
    """The position of the first record of a kind."""
    query = "SELECT seq FROM eventsched.events WHERE kind = %s ORDER BY seq LIMIT 1"
    return int(log.rows(query, kind)[0][0])


def edit_decision(log: TamperedLog, seq: int, edit: Callable[[dict[str, Any]], None]) -> None:
    """Edits a record, and recomputes the hashes of its batch and of all later ones."""
    first = log.rows("SELECT max(first) FROM batch WHERE first <= %s", seq)[0][0]
    items = json.loads(log.batch(first).body)
    edit(items[seq - first][3])
    log.run("UPDATE eventsched_log.batch SET body = %s WHERE first = %s", json.dumps(items), first)
    log.rehash(first)
