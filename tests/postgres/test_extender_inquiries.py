"""What SQL and the story of a pod say about schedulers that asked us as their extender."""

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from psycopg.rows import dict_row

from eventsched.domain import records
from eventsched.domain.records.extender_records import BIND, FILTER, PRIORITIZE
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.port import Batch, StoredRecord
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.history.explain.explanation import explain
from eventsched.history.explain.stored_evidence import StoredEvidence
from eventsched.history.replay import stream_replay
from eventsched.history.verify.verification import verify_database
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.scheduling.engine import Engine
from tests.builders import PROFILE, added, engine_of, make_node, make_pod
from tests.databases import Server, migrate
from tests.unit.process.test_extender_server_requests import asked

STREAM = "extender"


def engine() -> Engine:
    return engine_of(NodeResourcesFit())


def history() -> list[LogEntry]:
    """A pod from its first question to its node, and one that was sent."""
    opening = records.StreamStarted(
        format=records.FORMAT, engine="test", seed="s", inputs={"serves": PROFILE}
    )
    cluster = added(make_node("n0"), make_node("n1", cpu=500), make_pod(cpu=1000))
    stimuli: list[records.Stimulus] = [
        opening,
        *cluster,
        asked(FILTER, nodes="0-1", strange=("n9",)),
        asked(PRIORITIZE, nodes="0"),
        asked(BIND, node="n0"),
        records.BindSucceeded(uid="p1", node="n0"),
        asked(BIND, node="n1"),
        asked(FILTER, "p9", sent=make_pod("p9", cpu=1), nodes="0-1"),
    ]
    made = engine()
    return [each for stimulus in stimuli for each in made.observe(stimulus, 0)]


@pytest.fixture(scope="module")
def address(one_server: Server) -> Iterator[str]:
    with one_server.fresh(migrate) as url:
        with closing(PostgresEventLog(url, STREAM, holder="test")) as log:
            log.begin(Batch([StoredRecord.of(each) for each in history()], {}))
            log.finish()
        yield url


def test_every_inquiry_has_a_row(address: str) -> None:
    with psycopg.connect(address, row_factory=dict_row) as connection:
        found = connection.execute(
            "SELECT pod, verb, nodes, node, refused, reasons, attempt, problem "
            "FROM eventsched.extender_inquiries ORDER BY seq"
        ).fetchall()
    assert [tuple(row.values()) for row in found] == [
        ("p1", "filter", 3, None, 2, ["Insufficient cpu"], None, None),
        ("p1", "prioritize", 1, None, 0, [], None, None),
        ("p1", "bind", 0, "n0", 0, [], 1, None),
        ("p1", "bind", 0, "n1", 0, [], None, "the pod is on n0 already"),
        ("p9", "filter", 2, None, 0, [], None, None),
    ]


def test_the_log_is_what_it_says(address: str) -> None:
    replayed = stream_replay.verify(engine, Reader(address, STREAM))
    assert replayed.divergence is None
    assert (replayed.records, replayed.placed) == (len(history()), 1)
    with psycopg.connect(address) as connection:
        [result] = verify_database(connection)
    assert result.problems == []


def test_the_story_tells_it(address: str) -> None:
    told = [step.text for step in explain(StoredEvidence(Reader(address, STREAM)), "p1").steps]
    assert told == [
        "arrived",
        "another scheduler asks to filter 3 nodes, 1 of them unknown",
        "answer: refused 1 node: 1 Insufficient cpu",
        "another scheduler asks to prioritize 1 node",
        told[4],
        "another scheduler asks to bind it to n0",
        "answer: it is on its way to n0",
        "is to be bound to n0 (attempt 1)",
        "is on n0: the cluster accepted the bind",
        "bound to n0",
        "another scheduler asks to bind it to n1",
        "answer: no bind: the pod is on n0 already",
    ]
