"""docs/how-to/archive-the-log.md: its commands, and that DuckDB's answers are those of the log."""

import json
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from eventsched.domain.records import PodAdded
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.port import Batch, StoredRecord
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.writer import PostgresEventLog
from tests.builders import make_pod
from tests.databases import ROOT
from tests.pages import Page
from tests.postgres.archives import OWN, STREAM, spread
from tests.postgres.histories import TIGHT, simulated

PAGE = "how-to/archive-the-log.md"
DUCKDB = """
import os, sys
import duckdb
duckdb.sql(f"COPY ({sys.argv[-1]}) TO '/dev/stdout' (HEADER, FORMAT csv)")
sys.stdout.flush()
os._exit(0)  # at a regular end, its binding reports leaks
"""
"""What the client ``duckdb -csv -c`` does, by the package for Python."""
ROWS = """
import json, os, sys
import duckdb
connection = duckdb.connect()
connection.execute("SET TimeZone = 'UTC'")
print(json.dumps(connection.execute(sys.argv[1]).fetchall(), default=str), flush=True)
os._exit(0)
"""
"""Prints the rows of a query."""


def test_the_commands(database: str, tmp_path: Path) -> None:
    """On a log of four days whose fifth, today, is not over."""
    simulated(database)
    spread(database, TIGHT, "eventsched")
    with closing(PostgresEventLog(database, "eventsched", "today")) as log:
        added = LogEntry(log.head, 10**15, log.head, PodAdded(pod=make_pod("new")))
        log.begin(Batch([StoredRecord.of(added)], {}))
        log.finish()
    (tmp_path / "client.py").write_text(DUCKDB)
    page = Page(
        PAGE,
        tmp_path,
        {"DATABASE_URL": database, "ARCHIVE": str(tmp_path / "archive")},
        programs={"duckdb": f'exec python {tmp_path}/client.py "$@"'},
    )
    assert page.run() == 12


QUESTIONS = re.findall(
    r'\$ duckdb -csv -c "(.*?)"\n', (ROOT / "docs" / PAGE).read_text(), re.DOTALL
)
ATTEMPTS = "FROM eventsched.decisions d WHERE d.stream = :name"
EXPECTED = (
    f"SELECT at::date, outcome, count(*) {ATTEMPTS} GROUP BY 1, 2 ORDER BY 1, 2",
    """
    SELECT r.plugin, r.reason, sum(r.nodes)::int, count(*)
    FROM eventsched.refusals r JOIN eventsched.decisions d USING (stream, seq)
    WHERE stream = :name AND outcome = 'unschedulable' GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT 10
    """,
    f"""
    SELECT namespace, pod, count(*), max(at) - min(at) {ATTEMPTS}
    GROUP BY namespace, pod, pod_uid ORDER BY 3 DESC, 1, 2, 4 LIMIT 10
    """,
    f"""
    SELECT count(*), count(*) FILTER (WHERE ties > 1),
           avg(score - runner_up_score) FILTER (WHERE runner_up IS NOT NULL)::float8
    {ATTEMPTS} AND outcome = 'scheduled'
    """,
    "SELECT kind, count(*) FROM eventsched.events WHERE stream = :name GROUP BY 1 ORDER BY 1",
)


def test_there_is_an_answer_for_each_question() -> None:
    assert len(QUESTIONS) == len(EXPECTED)


@pytest.mark.parametrize(("question", "query"), [*zip(QUESTIONS, EXPECTED, strict=False)])
def test_the_answer_is_that_of_the_database(
    four_days: str, whole_archive: Path, question: str, query: str
) -> None:
    asked = question.replace("\\\n", "").replace("$ARCHIVE/eventsched", f"{whole_archive}/{OWN}")
    command = [sys.executable, "-c", ROWS, asked]
    found = json.loads(
        subprocess.run(command, check=True, timeout=60, stdout=subprocess.PIPE).stdout
    )
    with closing(Reader(four_days, STREAM)) as reader:
        rows = [tuple(row.values()) for row in reader.rows(query, name=STREAM)]
    assert found == json.loads(json.dumps(rows, default=str))
    assert found
