"""What happens now, compared with the views of a log that has waiting pods; and the answers' common
rules: tags, methods, the Host, unreachable databases."""

import json
from collections.abc import Iterator
from contextlib import closing
from threading import Event

import psycopg
import pytest

from eventsched.api.application import OPENAPI, ROOT, application
from eventsched.api.desk.asked import Desk
from eventsched.api.gates.gate import OpenGate
from eventsched.api.operations import EVENTS, OPERATIONS
from eventsched.api.schemas import SCHEMAS
from eventsched.api.what_if.what_if_operations import WHAT_IF_OPERATIONS
from eventsched.domain import records
from eventsched.domain.records import FORMAT
from eventsched.questions.answer_shapes import NodesFilled
from eventsched.questions.now import now_of
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import DatabaseStreams, LoggedStream
from eventsched.questions.visibility import Visibility
from tests.api.asking import Client
from tests.builders import make_node, make_pod
from tests.databases import ROOT as FILES
from tests.postgres.histories import ODD, TIGHT, World
from tests.waiting import until

STREAM = "waiting"


def waiting_log(address: str) -> World:
    """Two nodes; pods that are too large, one that fits nowhere for its selector, one bound."""
    world = World()
    world.see(records.StreamStarted(format=FORMAT, engine="test", seed="now"), 0)
    world.see(records.NodeAdded(node=make_node("n1", cpu=2000)), 0)
    world.see(records.NodeAdded(node=make_node("n2", cpu=1000)), 0)
    for number in range(3):
        world.see(records.PodAdded(pod=make_pod(f"large-{number}", cpu=9000)), 1 + number)
        world.attempt()
    world.see(records.PodAdded(pod=make_pod("small", cpu=500)), 5)
    placed = world.attempt()
    world.see(records.BindSucceeded(uid="small", node=placed["small"]), 6)
    world.write(address, STREAM)
    return world


@pytest.fixture
def asking(database: str) -> Iterator[Client]:
    waiting_log(database)
    with closing(DatabaseStreams(database)) as streams:
        yield Client(application(Desk(streams, FoldedStates()), OpenGate(local_only=True)))


def test_now(asking: Client, database: str) -> None:
    found = asking.get("/now?nodes=false")
    with psycopg.connect(database) as connection:
        states = connection.execute(
            "SELECT state, count(*)::integer FROM eventsched.pods_now GROUP BY 1"
        ).fetchall()
    assert {each["state"]: each["pods"] for each in found["states"]} == dict(states)
    assert found["pods"] == 4
    assert found["pending"] == 3
    for at in ("", f"&at={found['position']}"):  # the number and the list agree
        pods = asking.get(f"/pods?state=pending{at}")["pods"]
        assert len(pods) == 3
        assert {each["state"] for each in pods} <= {"active", "backoff", "unschedulable", "gated"}
        assert asking.get(f"/pods/groups?by=owner&state=pending{at}")["pods"] == 3
    [refused] = found["reasons"]
    assert (refused["plugin"], refused["reason"], refused["pods"]) == (
        "NodeResourcesFit", "Insufficient cpu", 3
    )  # fmt: skip
    assert refused["example"] == "default/large-0"
    queue = next(each for each in found["states"] if each["state"] == "unschedulable")
    assert queue["oldest"] == "default/large-0"
    assert queue["oldest_seconds"] == 5.0
    assert refused["oldest_seconds"] == 5.0
    assert found["decisions_per_second"] == 4 / 60
    assert found["waits"] == {"pods": 1, "p50_seconds": 0.0, "p99_seconds": 0.0}
    assert found["log"]["head"] == found["position"]
    assert found["log"]["lag_seconds"] is None  # a simulation
    assert found["leader"]["holder"] == "test"
    assert (found["nodes"], found["reads_nodes"]) == (None, False)


def test_how_full_the_nodes_are(asking: Client) -> None:
    """Read in the background, so the first answers may not have it."""
    found = [until(lambda: asking.get("/now")["nodes"], "the nodes are read", 60)]
    nodes = asking.get("/now")["nodes"]
    assert found == [nodes]
    assert nodes["names"] == ["n1", "n2"]
    assert sorted(nodes["filled"]["cpu"]) in ([0, 0.25], [0, 0.5])
    assert nodes["totals"]["cpu"] == {"allocatable": 3000, "requested": 500}
    assert nodes["position"] == asking.get("/now?nodes=false")["position"]


def test_until_the_state_is_read_the_answer_says_so(database: str) -> None:
    """Only to those who will see the nodes."""
    waiting_log(database)
    may_read = Event()

    class Slow(FoldedStates):
        def fill(self, stream: LoggedStream) -> NodesFilled:
            may_read.wait()
            return super().fill(stream)

    with closing(DatabaseStreams(database)) as streams:
        stream = streams.open(STREAM)
        asking = Client(application(Desk(streams, Slow()), OpenGate(local_only=True)))
        try:
            found = asking.get("/now")
            assert (found["nodes"], found["reads_nodes"]) == (None, True)
            assert not asking.get("/now?nodes=false")["reads_nodes"]
            assert not asking.get(f"/now?at={found['position']}")["reads_nodes"]
            some = Visibility(frozenset({"default"}))
            assert not now_of(stream, some, None, with_nodes=True).reads_nodes
        finally:
            may_read.set()
        until(lambda: asking.get("/now")["nodes"], "the nodes are read", 60)
        assert not asking.get("/now")["reads_nodes"]


def test_tags(client: Client) -> None:
    """The same answer has the same tag, and is not sent again."""
    for path in (f"/decisions?stream={TIGHT}", f"/state?stream={ODD}", "/streams"):
        first, again = client.ask(ROOT + path), client.ask(ROOT + path)
        assert first.headers["etag"] == again.headers["etag"]
        for given in (first.headers["etag"], f'"a", W/{first.headers["etag"]}', "*"):
            unchanged = client.ask(ROOT + path, if_none_match=given)
            assert (unchanged.status, unchanged.body) == (304, b"")
            assert unchanged.headers["etag"] == first.headers["etag"]
        assert client.ask(ROOT + path, if_none_match='"a"').body == first.body
    other = client.ask(f"{ROOT}/decisions?stream={ODD}")
    assert other.headers["etag"] != client.ask(f"{ROOT}/decisions?stream={TIGHT}").headers["etag"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_it_is_only_read(client: Client, method: str) -> None:
    refused = client.ask(f"{ROOT}/now", method)
    assert refused.status == 405
    assert refused.json["title"] == "Method Not Allowed"
    assert sorted(refused.headers["allow"].split(", ")) == ["GET", "HEAD"]


def test_unknown_paths(client: Client) -> None:
    for path in ("", "/", "/pod", "/decisions/"):
        assert "see /api/openapi.json" in client.problem(path, 404)


def test_another_host(client: Client) -> None:
    """A page of the web whose name points to this machine does not read the log."""
    for path in (f"{ROOT}/streams", OPENAPI):
        refused = client.ask(path, host="evil.example:8787")
        assert refused.status == 403
        assert refused.json["remedy"].startswith("ask 127.0.0.1 or localhost, or start the server")
    assert client.ask(f"{ROOT}/streams", host="localhost:8787").status == 200
    for host in ("[::1]:8787", "127.0.0.2:8787"):
        assert client.ask(f"{ROOT}/streams", host=host).status == 200
    assert client.ask(f"{ROOT}/streams", host="127.0.0.2.evil.example").status == 403


def test_headers(client: Client) -> None:
    for path in (f"{ROOT}/streams", f"{ROOT}/nothing"):
        headers = client.ask(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'")


def test_the_document_has_every_operation(client: Client) -> None:
    document = client.document
    assert document["openapi"] == "3.1.0"
    every = (*OPERATIONS, *WHAT_IF_OPERATIONS, EVENTS)
    assert list(document["paths"]) == [operation.path for operation in every]
    for path, item in document["paths"].items():
        [operation] = item.values()
        parameters = operation["parameters"]
        in_path = {f"{{{each['name']}}}" for each in parameters if each["in"] == "path"}
        assert in_path == {word for word in path.split("/") if word[:1] == "{"}


def test_the_schema_of_explain_is_the_documented_one() -> None:
    """The package has a copy of it."""
    copies = (FILES / "eventsched/api/explain.schema.json", FILES / "docs/explain.schema.json")
    first, second = (path.read_text(encoding="utf-8") for path in copies)
    assert first == second


def test_the_schema_of_a_workload_is_the_documented_one() -> None:
    """The documented one allows no further fields."""
    documented = json.loads((FILES / "docs/explain-workload.schema.json").read_text("utf-8"))
    for name, schema in (("Workload", documented), ("WorkloadGroup", documented["$defs"]["group"])):
        assert list(schema["properties"]) == list(SCHEMAS[name]["properties"])
        assert schema["required"] == SCHEMAS[name]["required"]
        assert schema["additionalProperties"] is False


def test_an_unreachable_database() -> None:
    """No word of where it is, as clients need not know."""
    address = "postgresql://someone:secret@127.0.0.1:1/eventsched"
    with closing(DatabaseStreams(address)) as streams:
        desk = Desk(streams, FoldedStates())
        answered = Client(application(desk, OpenGate(local_only=True))).ask(f"{ROOT}/streams")
    assert answered.status == 503
    assert answered.headers["retry-after"] == "2"
    assert b"127.0.0.1" not in answered.body
    assert b"secret" not in answered.body


def test_connections_in_use_are_closed_when_they_are_returned(database: str) -> None:
    """A thread may still read when the server ends."""
    waiting_log(database)
    streams = DatabaseStreams(database)
    with streams.open(None).log.connection() as connection:
        streams.close()
        raw = connection.connection.dbapi_connection
    assert isinstance(raw, psycopg.Connection)
    assert raw.closed


def test_a_database_that_was_restarted(database: str) -> None:
    """Connections that have ended are replaced, and the next question is answered."""
    waiting_log(database)
    with closing(DatabaseStreams(database)) as streams:
        client = Client(application(Desk(streams, FoldedStates()), OpenGate(local_only=True)))
        assert client.get("/decisions")["stream"] == STREAM
        with psycopg.connect(database, autocommit=True) as admin:  # as a restart does
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        assert client.get("/streams")["streams"][0]["name"] == STREAM
        assert client.get("/decisions")["stream"] == STREAM
