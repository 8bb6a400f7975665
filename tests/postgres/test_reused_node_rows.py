"""The log of a cluster whose nodes are replaced: a row has another node at another position."""

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.cluster.sources import generated
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.history.explain.evidence import ScannedEvidence
from eventsched.history.explain.stored_evidence import StoredEvidence
from eventsched.history.replay import stream_replay
from eventsched.runtime.assembly import assemble
from eventsched.runtime.simulation.simulation import Simulation
from tests.databases import Server, migrate

LOAD = "nodes=3,pods=40,shape=mixed,seed=1,rate=0.01,runtime=900,node-life=1500"
STREAM = "simulation"


@pytest.fixture(scope="module")
def address(one_server: Server) -> Iterator[str]:
    """A database with a run in which every node was replaced at least twice."""
    found = generated.parse(LOAD)
    with one_server.fresh(migrate) as url:
        with closing(PostgresEventLog(url, STREAM, holder="test")) as log:
            cluster = InMemoryCluster(found.nodes(), found.pods(), churn=found.node_churn())
            Simulation(assemble(), cluster, log).run()
        yield url


def test_rows_are_reused(address: str) -> None:
    with psycopg.connect(address) as connection:
        [(nodes, rows)] = connection.execute(
            "SELECT count(*), count(DISTINCT ordinal) FROM eventsched_log.node"
        ).fetchall()
    assert nodes > 9
    assert rows < nodes / 2


def test_every_decision_names_the_nodes_of_its_time(address: str) -> None:
    """By SQL, by both kinds of evidence, and by the state when it was made."""
    reader, engine = Reader(address, STREAM), assemble().engine()
    stored, scanned = StoredEvidence(reader), ScannedEvidence(reader, STREAM)
    with psycopg.connect(address) as connection:
        for record in reader.read():
            if record.kind == "PodDecided" and not record.position % 3:
                nodes = engine.state.nodes
                expected = dict(nodes.rows)
                found = connection.execute(
                    "SELECT node FROM eventsched.verdicts(%s, %s)", (STREAM, record.position)
                )
                assert {name for (name,) in found} == set(expected)
                for evidence in (stored, scanned):
                    names = evidence.nodes(record.position)
                    assert names == nodes.names
                    assert all(names[row] == name for name, row in expected.items())
                scores = connection.execute(
                    "SELECT node FROM eventsched.scores(%s, %s) WHERE rank = 1 LIMIT 1",
                    (STREAM, record.position),
                ).fetchall()
                assert scores[0][0] in expected
            engine.apply(record.logged)


def test_it_verifies_and_replays(address: str) -> None:
    done = stream_replay.verify(assemble().engine, Reader(address, STREAM))
    assert done.divergence is None
