"""A million pods that exist, for answers about them: the log of big_log.py has none, because copies
of decisions are all of it.

Each decision's pod gets a row of pod_now, one in ten on a node; the others wait, with one of the
log's refusals as the one of most nodes, which seldom is the one to name first. The rows are removed
afterwards.
"""

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

import psycopg

from benchmarks.api import answers_to

OWNERS, NAMESPACES = 20_000, 50
_UNTOLERATED = "node(s) had untolerated taint(s)"
QUESTIONS = (
    "/pods/groups?by=owner", "/pods/groups?by=reason", "/pods/groups?by=owner&namespace=ns-7",
    "/pods/groups?by=reason&namespace=ns-7", "/pods", "/pods?sort=waiting",
    f"/pods?sort=waiting&group=reason%3ATaintToleration%2F{quote(_UNTOLERATED)}",
)  # fmt: skip
_FILL = f"""
INSERT INTO eventsched_log.pod_now (
    uid, seq, since, waiting_since, decided_seq, stream, attempts, priority, verdict, deleting,
    state, namespace, name, scheduler, owner_kind, owner_name)
SELECT d.pod, d.seq, 1000000, CASE WHEN d.n % 10 > 0 THEN 1000000 + d.n END, d.seq, d.stream, 1, 0,
       CASE WHEN d.n % 10 > 0 THEN v.number END, false,
       CASE WHEN d.n % 10 > 0 THEN 'unschedulable' ELSE 'bound' END, 'ns-' || d.n % {NAMESPACES},
       'web-' || d.n, 'default-scheduler', 'ReplicaSet', 'web-' || d.n % {OWNERS}
FROM (SELECT stream, pod, seq, row_number() OVER () AS n FROM eventsched_log.decision) AS d
JOIN (SELECT stream, number, row_number() OVER () - 1 AS place, count(*) OVER () AS all
      FROM eventsched_log.verdict) AS v ON v.stream = d.stream AND v.place = d.n % v.all
"""
_TABLE = "eventsched_log.pod_now"


def existing_pod_answers(url: str, runs: int = 5) -> dict[str, float]:
    """Seconds of wall time of each question, the median, while the pods are there."""
    with _existing(url):
        return {name: statistics.median(taken) for name, taken in answers_to(url, QUESTIONS, runs)}


@contextmanager
def _existing(url: str) -> Iterator[None]:
    """Fills the table, which has to be empty, for as long as it lasts."""
    with psycopg.connect(url, autocommit=True) as connection:
        assert connection.execute(f"SELECT FROM {_TABLE} LIMIT 1").fetchone() is None
        try:
            connection.execute(_FILL)
            connection.execute(f"ANALYZE {_TABLE}")
            yield
        finally:
            connection.execute(f"TRUNCATE {_TABLE}")
            connection.execute(f"ANALYZE {_TABLE}")
