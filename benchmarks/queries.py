"""``python -m benchmarks.queries``: how long the questions of docs/sql.md take, as the log grows.

Makes a log by a simulation and a longer one of copies of it (copies.py), in an embedded Postgres
with fsync off, and asks both. Each question is compared with how release 0.1 asked it: its text
there, its functions and views (schema 0004), its session's settings. Wall times, the best of some
runs; a question is given up after a while.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from benchmarks.copies import multiply
from eventsched.cli.main import main as eventsched
from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from eventsched.eventlog.schema import migrations
from eventsched.output.terminal.tables import table

RESULTS = Path(__file__).parent / "results"
FORMER = "0004"
"""The schema of release 0.1."""
_LOAD = "nodes=1000,pods={},shape=mixed,rate=20,runtime=300,seed=2"


class Question(NamedTuple):
    """A question as it is asked now, and as it was if that differs. ``{pod}``, ``{node}``,
    ``{seq}`` and ``{at}`` stand for something in the middle of the log."""

    name: str
    now: str
    before: str = ""


QUESTIONS = (
    Question(
        "what is in the log",
        "SELECT kind, records FROM kinds",
        "SELECT kind, count(*) FROM events GROUP BY kind",
    ),
    Question(
        "who waited at a time",
        """SELECT q.pod, q.queue, r.record ->> 'message' FROM queue_stays q
        LEFT JOIN LATERAL (SELECT stream, seq FROM decisions WHERE stream = q.stream
            AND pod_uid = q.pod_uid AND at <= '{at}' ORDER BY seq DESC LIMIT 1) d ON true
        LEFT JOIN LATERAL events_between(d.stream, d.seq, d.seq) r ON true
        WHERE q.since <= '{at}' AND (q.until IS NULL OR q.until > '{at}')""",
        """SELECT pod, d.record ->> 'message' FROM (
            SELECT DISTINCT ON (pod_uid) * FROM events
            WHERE kind IN ('PodQueued', 'PodDecided', 'PodDeleted') AND at <= '{at}'
            ORDER BY pod_uid, seq DESC) e
        LEFT JOIN LATERAL (SELECT record FROM events WHERE pod_uid = e.pod_uid
            AND kind = 'PodDecided' AND seq < e.seq ORDER BY seq DESC LIMIT 1) d ON true
        WHERE kind = 'PodQueued'""",
    ),
    Question(
        "why was this pod refused",
        """SELECT attempt, plugin, reason, sum(nodes) FROM decisions d, refusals(d.stream, d.seq)
        WHERE pod = '{pod}' GROUP BY 1, 2, 3""",
        "SELECT attempt, plugin, reason, sum(nodes) FROM refusals WHERE pod = '{pod}'"
        " GROUP BY 1, 2, 3",
    ),
    Question(
        "what woke it",
        """SELECT m.at, e.kind, b.node FROM queue_moves m
        JOIN LATERAL events_between(m.stream, m.caused_by, m.caused_by) e ON true
        JOIN LATERAL (SELECT node FROM decisions WHERE stream = e.stream
            AND pod_uid = e.pod_uid AND node IS NOT NULL ORDER BY seq DESC LIMIT 1) b ON true
        WHERE m.pod = '{pod}'""",
        """SELECT m.at, e.kind, b.node FROM queue_moves m
        JOIN events e ON e.stream = m.stream AND e.seq = m.caused_by
        JOIN bindings b ON b.stream = e.stream AND b.pod_uid = e.pod_uid WHERE m.pod = '{pod}'""",
    ),
    Question(
        "which pods were tried often",
        """SELECT pod, count(*), max(at) - min(at) FROM decisions WHERE (stream, pod_uid) IN
            (SELECT stream, pod_uid FROM decisions WHERE attempt > 1) GROUP BY pod""",
    ),
    Question(
        "which plugin refuses most",
        "SELECT plugin, code, reason, sum(nodes), count(*) FROM refusals GROUP BY 1, 2, 3",
    ),
    Question(
        "how long in which queue",
        "SELECT queue, count(*), max(until - since), sum(until - since) FROM queue_stays"
        " WHERE until IS NOT NULL GROUP BY queue",
        """SELECT queue, count(*), max(until_at - at) FROM (
            SELECT kind, record ->> 'queue' AS queue, at,
                   lead(at) OVER (PARTITION BY pod_uid ORDER BY seq) AS until_at
            FROM events WHERE kind IN ('PodQueued', 'PodDecided', 'PodDeleted')) moves
        WHERE kind = 'PodQueued' GROUP BY queue""",
    ),
    Question(
        "decision to bind",
        "SELECT count(*), min(bound_at - decided_at), max(bound_at - decided_at) FROM bindings",
    ),
    Question(
        "pods on a node at a time",
        "SELECT pod, bound_at, gone_at FROM bindings WHERE node = '{node}' AND bound_at <= '{at}'"
        " AND (gone_at IS NULL OR gone_at > '{at}')",
        """SELECT b.pod, e.at FROM bindings b LEFT JOIN events e ON e.stream = b.stream
            AND e.pod_uid = b.pod_uid AND e.kind = 'PodDeleted'
        WHERE b.node = '{node}' AND b.bound_at <= '{at}' AND (e.at IS NULL OR e.at > '{at}')""",
    ),
    Question("nodes with most pods", "SELECT node, count(*) FROM bindings GROUP BY 1"),
    Question(
        "nodes that came second",
        "SELECT runner_up, count(*), avg(score - runner_up_score) FROM decisions"
        " WHERE outcome = 'scheduled' GROUP BY 1",
    ),
    Question(
        "scores of a decision",
        """SELECT plugin, s.node, s.raw, s.rank FROM decisions d, scores(d.stream, d.seq) s
        WHERE d.pod = '{pod}' AND s.node IN (d.node, d.runner_up)""",
    ),
    Question(
        "verdicts of a decision",
        """SELECT v.code, v.plugin, v.reason, count(*) FROM decisions d, verdicts(d.stream, d.seq) v
        WHERE d.pod = '{pod}' GROUP BY 1, 2, 3""",
    ),
    Question(
        "records of a pod",
        "SELECT e.kind FROM decisions d, events_of_pod(d.stream, d.pod_uid::text) e"
        " WHERE d.pod = '{pod}'",
        "SELECT kind FROM events WHERE pod = '{pod}'",
    ),
    Question(
        "pods that wait now",
        "SELECT owner_name, plugin, reason, count(*) FROM pods_now"
        " WHERE waiting_since IS NOT NULL GROUP BY 1, 2, 3",
        "SELECT 1",
    ),
    Question("evictions", "SELECT outcome, count(*) FROM evictions GROUP BY 1"),
    Question(
        "what followed",
        "SELECT seq, kind FROM events_between('simulation', {seq}, {seq} + 4) ORDER BY seq",
        "SELECT seq, kind FROM events WHERE cause BETWEEN {seq} AND {seq} + 4 ORDER BY seq",
    ),
    Question("busiest hour", "SELECT date_trunc('hour', at), count(*) FROM decisions GROUP BY 1"),
    Question("how reservations ended", "SELECT ended_by, count(*) FROM reservations GROUP BY 1"),
    Question("a standby's snapshot", "{snapshot}", "{former_snapshot}"),
)
_FORMER_SNAPSHOT = """
SELECT s.seq FROM eventsched_log.snapshot s WHERE EXISTS (
    SELECT FROM eventsched_log.batch b
    WHERE b.stream = s.stream AND b.first + b.count = s.seq AND b.hash = s.hash)
ORDER BY s.seq DESC LIMIT 1"""
_SNAPSHOT = """
SELECT s.seq FROM eventsched_log.snapshot s CROSS JOIN LATERAL (
    SELECT b.hash, b.first + b.count AS next FROM eventsched_log.batch b
    WHERE b.stream = s.stream AND b.first < s.seq ORDER BY b.first DESC LIMIT 1) b
WHERE b.next = s.seq AND b.hash = s.hash ORDER BY s.seq DESC LIMIT 1"""


def main() -> int:
    """Makes the logs, or takes those of given databases, and prints a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queries", description=__doc__)
    parser.add_argument("--pods", type=int, default=80_000, help="of the shorter log")
    parser.add_argument("--copies", type=int, default=16, help="that the longer log is made of")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=60, help="seconds for a question")
    parser.add_argument(
        "--logs", nargs="*", metavar="BEFORE=URL,AFTER=URL",
        help="databases that are there: URL of one with the former schema, then one with ours",
    )  # fmt: skip
    options = parser.parse_args()
    if options.logs:
        pairs = [tuple(pair.split(",", 1)) for pair in options.logs]
        found = [_measured(before, after, options) for before, after in pairs]
    else:
        with _server() as url:
            found = [_measured(*_made(url, times, options), options) for times in _times(options)]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "queries.json").write_text(json.dumps(found, indent=1) + "\n")
    names = [each.name for each in QUESTIONS]
    columns = [f"{log['decisions']:,} {when}" for log in found for when in ("0.1", "now")]
    rows = [
        [name, *(_shown(log[when].get(name)) for log in found for when in ("before", "now"))]
        for name in names
    ]
    print(table((), rows, ["seconds", *columns]))
    return 0


def _times(options: argparse.Namespace) -> tuple[int, ...]:
    return (1, options.copies) if options.copies > 1 else (1,)


@contextmanager
def _server() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="evs-queries-", dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        settings = {"fsync": "off", "full_page_writes": "off", "max_wal_size": "4GB"}
        with EmbeddedPostgres(Path(folder) / "data", settings=settings).open() as server:
            yield server.superuser_url


def _made(url: str, times: int, options: argparse.Namespace) -> tuple[str, str]:
    """The addresses of a log with the former schema, and of one with ours."""
    before, after = (url.replace("/eventsched?", f"/{name}{times}?") for name in ("log", "now"))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE log{times}".encode())
        migrations.upgrade(before)
        load = _LOAD.format(options.pods)
        assert eventsched(["simulate", "--generate", load, "--database", before]) == 0
        migrations.downgrade(before, FORMER)
        multiply(before, "simulation", times)
        connection.execute(f"CREATE DATABASE now{times} TEMPLATE log{times}".encode())
    migrations.upgrade(after)
    with psycopg.connect(after, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    return before, after


def _measured(before: str, after: str, options: argparse.Namespace) -> dict[str, Any]:
    with psycopg.connect(before) as connection:
        row = connection.execute("SELECT count(*) FROM eventsched_log.decision").fetchone()
    assert row is not None
    return {
        "decisions": row[0],
        "before": dict(asked(before, options, former=True)),
        "now": dict(asked(after, options, former=False)),
    }


def asked(
    url: str, options: argparse.Namespace, *, former: bool
) -> Iterator[tuple[str, float | None]]:
    """(name, seconds) of each question; None for one that was given up. ``options`` has ``runs``
    and ``limit``."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET search_path = eventsched; SET timezone = 'UTC'")
        if former:
            connection.execute("SET enable_nestloop = off")
        connection.execute(f"SET statement_timeout = {round(1000 * options.limit)}".encode())
        values = _values(connection)
        for each in QUESTIONS:
            query = (former and each.before) or each.now
            for name, value in values.items():
                query = query.replace("{" + name + "}", value)
            yield each.name, _seconds(connection, query, options.runs)


def _values(connection: "psycopg.Connection[Any]") -> dict[str, str]:
    """Something in the middle of the log."""
    row = connection.execute(
        "SELECT d.pod, d.node, d.seq::text, d.at::text FROM decisions d"
        " WHERE d.seq >= (SELECT max(seq) / 2 FROM decisions) ORDER BY d.seq LIMIT 1"
    ).fetchone()
    assert row is not None
    values = dict(zip(("pod", "node", "seq", "at"), row, strict=True))
    return values | {"snapshot": _SNAPSHOT, "former_snapshot": _FORMER_SNAPSHOT}


def _seconds(connection: "psycopg.Connection[Any]", query: str, runs: int) -> float | None:
    """The best of some runs; None if the question was given up."""
    best = None
    for _ in range(runs):
        began = time.perf_counter()
        try:
            connection.execute(query.encode()).fetchall()
        except psycopg.errors.QueryCanceled:
            return best
        took = time.perf_counter() - began
        best = took if best is None else min(best, took)
        if took > 10:
            break
    return best


def _shown(seconds: float | None) -> str:
    if seconds is None:
        return "given up"
    return f"{seconds:.4f}" if seconds < 0.1 else f"{seconds:.1f}"


if __name__ == "__main__":
    raise SystemExit(main())
