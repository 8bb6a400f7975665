"""What SQL says about extenders, and that their answers are read again from a database."""

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from psycopg.rows import dict_row

from eventsched.domain import records
from eventsched.domain.records import FORMAT, Stimulus
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.port import Batch, StoredRecord
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.history.explain.evidence import Evidence
from eventsched.history.explain.explanation import explain
from eventsched.history.explain.stored_evidence import StoredEvidence
from eventsched.history.replay import stream_replay
from eventsched.history.verify.verification import verify_database
from eventsched.scheduling.engine import Engine
from tests.builders import added, make_node, make_pod
from tests.databases import Server, migrate
from tests.unit.scheduling.test_extenders import answer, engine_of, filtering

STREAM = "extended"


def engine(nodes: int = 0) -> Engine:
    return engine_of(filtering(0), filtering(1, ignorable=True), nodes=nodes)


def history() -> list[LogEntry]:
    """A pod that two extenders are asked about, and one that is still waiting for an answer."""
    made = engine()
    opening: Stimulus = records.StreamStarted(format=FORMAT, engine="test", seed="s")
    logged = list(made.observe(opening, 0))
    for each in added(*(make_node(f"n{i}") for i in range(3)), make_pod(), make_pod("p2")):
        logged += made.observe(each, 0)
    logged += made.schedule_next()
    given = answer(failed={"busy": "0"}, unresolvable={"": "2"}, name="http://extender/0")
    logged += made.observe(given, 5)
    logged += made.schedule_next()
    failed = answer(index=1, problem="unreachable", duration=1500, name="http://extender/1")
    logged += made.observe(failed, 9)
    logged += made.schedule_next()
    return logged + made.schedule_next()


@pytest.fixture(scope="module")
def address(one_server: Server) -> Iterator[str]:
    with one_server.fresh(migrate) as url:
        with closing(PostgresEventLog(url, STREAM, holder="test")) as log:
            logged = history()
            details = {each.position: each.detail for each in logged if each.detail is not None}
            log.begin(Batch([StoredRecord.of(each) for each in logged], details))
            log.finish()
        yield url


def test_every_question_has_a_row(address: str) -> None:
    with psycopg.connect(address, row_factory=dict_row) as connection:
        found = connection.execute(
            "SELECT pod, attempt, extender, verb, nodes, refused, reasons, problem, milliseconds "
            "FROM eventsched.extender_calls ORDER BY seq"
        ).fetchall()
    names = ("pod", "attempt", "extender", "verb", "nodes", "refused", "reasons", "problem")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("p1", 1, "http://extender/0", "filter", 3, 2, ["", "busy"], None),
        ("p1", 1, "http://extender/1", "filter", 1, 0, [], "unreachable"),
        ("p2", 1, "http://extender/0", "filter", 3, None, None, None),
    ]
    assert [row["milliseconds"] for row in found] == [0, 1.5, None]


def test_a_log_with_extender_answers_replays_without_extenders(address: str) -> None:
    reader = Reader(address, STREAM)
    replayed = stream_replay.verify(engine, reader)
    assert replayed.divergence is None
    assert replayed.decisions == 1
    assert replayed.engine.idle
    with psycopg.connect(address) as connection:
        [result] = verify_database(connection)
    assert result.problems == []


def test_the_story_names_extenders(address: str) -> None:
    evidence: Evidence = StoredEvidence(Reader(address, STREAM))
    told = [step.text for step in explain(evidence, "default/p1").steps]
    assert told[2:6] == [
        "attempt 1: extender http://extender/0 is asked to filter 3 nodes",
        "extender http://extender/0 refused 2 nodes: 1 busy, 1 without a reason",
        "attempt 1: extender http://extender/1 is asked to filter 1 node",
        "extender http://extender/1 failed to filter: unreachable",
    ]
