"""What the database reads for the pods of a reason: the refusals of their last attempts, and none
of the history before, which only grows."""

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from eventsched.output.queues.group_keys import reason_group
from eventsched.questions.pods.pod_rows import PodRowFilter, source_of
from eventsched.questions.streams import DatabaseStreams, LoggedStream
from tests.databases import Server, make_partitions_small, migrate
from tests.postgres.tampered_logs import simulate

RECORDS = 128
"""Of a partition."""
_COMMON = """
SELECT v.plugin, array_to_string(v.reasons, ', ') AS reason
FROM eventsched_log.pod_now n
JOIN eventsched_log.verdict v ON v.stream = n.stream AND v.number = n.verdict
WHERE n.stream = :s GROUP BY 1, 2 ORDER BY count(*) DESC LIMIT 1
"""
_OLDEST = """
SELECT min(n.decided_seq) AS seq FROM eventsched_log.pod_now n
WHERE n.stream = :s AND n.verdict IS NOT NULL
"""
_SCAN = re.compile(r"Scan on refusal_\d+_(\d+) (.*)")
"""A line of a plan: the first position of a partition, and how it was read."""


@pytest.fixture
def stream(one_server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoggedStream]:
    """A log in many partitions, whose pods are tried again and again."""
    with one_server.fresh(migrate) as url:
        make_partitions_small(url, RECORDS, monkeypatch)
        simulate(url, "nodes=8,pods=300,shape=tight,seed=1", "--until", "3m")
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute("ANALYZE")
        with closing(DatabaseStreams(url)) as streams:
            yield streams.open(None)


def test_refusals_of_former_attempts_are_not_read(stream: LoggedStream) -> None:
    refusal = stream.rows.one(_COMMON)
    oldest = stream.rows.one(_OLDEST)
    assert refusal is not None
    assert oldest is not None
    values: dict[str, Any] = {}
    wanted = PodRowFilter(group=reason_group(refusal["plugin"], refusal["reason"]).key)
    source = source_of(stream, wanted, values)
    plan = stream.rows.all(f"EXPLAIN (ANALYZE) SELECT * FROM {source} n", **values)
    scans = [found for row in plan if (found := _SCAN.search(row["QUERY PLAN"])) is not None]
    skipped = [int(scan[1]) for scan in scans if "never executed" in scan[2]]
    read = [int(scan[1]) for scan in scans if "never executed" not in scan[2]]
    assert min(read) > oldest["seq"] - RECORDS > min(skipped)
