"""Preemptions in a database: what SQL says about them, against the records read by Python; and runs
that are killed in the middle of them."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.domain import records
from eventsched.domain.records import PodDecided, PreemptionDecided
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.eventlog.port import EventLog
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.history.replay import stream_replay
from eventsched.history.verify.verification import verify_database
from eventsched.plugins import IN_TREE
from eventsched.runtime.assembly import Assembly, assemble_loaded
from eventsched.runtime.simulation.resumption import resume
from eventsched.runtime.simulation.simulation import Simulation
from eventsched.scheduling.config import configuration
from eventsched.scheduling.preemption.preemption_recording import window_of
from tests.builders import SECOND
from tests.databases import Server, migrate
from tests.displacing import Hesitant, crowded
from tests.postgres.asked_views import Ask
from tests.postgres.truth import PLACED, Truth, time_of

STREAM, UNTIL = "crowded", 40 * SECOND
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: Hesitant}]}}}]
"""


def assembly() -> Assembly:
    loaded = configuration.load(CONFIG, "test.yaml")
    return assemble_loaded(loaded, "test.yaml", {**IN_TREE, "Hesitant": Hesitant})


def simulation(log: EventLog) -> Simulation:
    source = crowded(3, nodes=4, pods=60)
    cluster = InMemoryCluster(source.nodes, source.arrivals, source.bound, objects=source.objects)
    return Simulation(assembly(), cluster, log, batch_size=7)


@pytest.fixture(scope="module")
def address(one_server: Server) -> Iterator[str]:
    """The URL of a database with a run that was cut off three times: in the instant of a
    preemption, before the victims are gone, and at the end."""
    with one_server.fresh(migrate) as url:
        for until in (SECOND // 2, SECOND + 2_000, 3 * SECOND, UNTIL):
            with closing(PostgresEventLog(url, STREAM, holder="test")) as log:
                run = simulation(log)
                reader = Reader(url, STREAM)
                if reader.head.next > 1:
                    resume(run, reader)
                run.run(until)
        yield url


@pytest.fixture(scope="module")
def truth(address: str) -> Truth:
    return Truth(address, STREAM)


def names(truth: Truth, uids: tuple[str, ...]) -> list[str]:
    return ["/".join(truth.pods[uid]) for uid in uids]


def test_a_run_that_was_cut_off_is_the_run_that_was_not(truth: Truth) -> None:
    log = MemoryEventLog(STREAM)
    simulation(log).run(UNTIL)
    assert truth.stored == list(log.read())
    assert len(truth.all(PreemptionDecided)) > 9


def test_the_log_is_right_and_decided_again_the_same(address: str, truth: Truth) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        [result] = verify_database(connection)
    assert result.problems == []
    made = len(truth.all(PreemptionDecided))
    assert result.details == result.decisions + made
    done = stream_replay.verify(lambda: assembly().engine(with_detail=True), truth.reader)
    assert done.divergence is None
    assert done.records == len(truth.records)


def test_preemptions(ask: Ask, truth: Truth) -> None:
    expected = []
    placed = [(at, r) for at, _, _, r in truth.all(PodDecided) if r.outcome in PLACED]
    for seq, at, _, r in truth.all(PreemptionDecided):
        landed = next(((p.node, s) for s, p in placed if s > seq and p.uid == r.uid), (None, None))
        expected.append(
            (
                STREAM, seq, time_of(at), *truth.who(r.uid), r.attempt, r.node, r.criterion,
                names(truth, r.victims), r.nodes, r.looked, r.candidates, r.violations, r.highest,
                r.total, time_of(r.start) if r.start else None, *landed,
            )
        )  # fmt: skip
    assert ask("SELECT * FROM preemptions WHERE stream = %s ORDER BY seq", STREAM) == expected


def test_candidates(ask: Ask, truth: Truth) -> None:
    arrived = {at: f"{r.pod.namespace}/{r.pod.name}" for at, _, _, r in truth.all(records.PodAdded)}
    for seq, _, _, r in truth.all(PreemptionDecided):
        detail: Any = truth.reader.detail(seq)
        expected = {}
        for row in window_of(r.first, r.last, detail.size).tolist():
            number = int(detail.codes[row])
            if number:
                values = [int(column[row]) for column in detail.scores[: 4 + number]]
                *compared, start = values[:4]
                victims = [arrived[at] for at in values[4:]]
                began = time_of(start) if start else None
                expected[truth.nodes[row]] = (row == r.row, *compared, number, began, victims)
        found = ask("SELECT * FROM candidates(%s, %s)", STREAM, seq)
        assert {name: tuple(rest) for name, *rest in found} == expected
        assert len(found) == r.candidates
        assert found[0][:2] == (r.node, True)
        assert found[0][-1] == names(truth, r.victims)
    assert ask("SELECT * FROM candidates(%s, 0)", STREAM) == []


def test_evictions(ask: Ask, truth: Truth) -> None:
    query = "SELECT decided_seq, pod, outcome, gone_seq FROM evictions WHERE stream = %s"
    found = {(seq, pod): (outcome, gone) for seq, pod, outcome, gone in ask(query, STREAM)}
    ends = [(at, r) for at, _, _, r in truth.records]
    expected = {}
    for seq, _, _, r in truth.all(PreemptionDecided):
        for uid in r.victims:
            mine = [(at, e) for at, e in ends if at > seq and getattr(e, "uid", "") == uid]
            gone = next((at for at, e in mine if isinstance(e, records.PodDeleted)), None)
            done = (records.EvictionSucceeded, records.PodDeleted)
            outcome = "accepted" if any(isinstance(e, done) for _, e in mine) else "open"
            outcome = "leaving" if uid in r.leaving else outcome
            outcome = "sent back" if uid in r.sent_back else outcome
            expected[seq, truth.pods[uid][1]] = (outcome, gone)
    assert found == expected
    assert {outcome for outcome, _ in found.values()} >= {"accepted", "leaving", "sent back"}
