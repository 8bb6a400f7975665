"""``eventsched replay --what-if --store``: the result is a stream as any other, whole or not at
all."""

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from eventsched.api.application import application
from eventsched.api.desk.asked import Desk
from eventsched.api.gates.gate import OpenGate
from eventsched.cli.main import main
from eventsched.domain.records import StreamStarted
from eventsched.domain.records.stimuli import WHAT_IF
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.eventlog.postgres.reader import Reader, streams
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import DatabaseStreams
from eventsched.runtime.queries.state_at import state_at, stored_states
from eventsched.runtime.queries.what_if import result_stream
from tests.api.asking import Client
from tests.databases import Server, acting_as, migrate
from tests.postgres.commands import Command
from tests.postgres.simulations import STREAM, complaints
from tests.unit.runtime.what_if.histories import MOST_ALLOCATED

LOAD = "nodes=6,pods=40,shape=tight,seed=3"
MIDDLE = "150"
KILLS = (
    "import os, signal; import eventsched.eventlog.whole_stream as whole; parts = whole._parts\n"
    "from eventsched.eventlog.postgres import batch_loader; batch_loader.BATCHES_AT_ONCE = 1\n"
    "def killed(sealed):\n"
    "    if sealed.first: os.kill(os.getpid(), signal.SIGKILL)\n"
    "    return parts(sealed)\n"
    "whole._parts = killed"
)
"""Kills the process when it is about to write the second batch."""
Run = Callable[..., tuple[int, str, str]]


def _simulated(url: str) -> None:
    migrate(url)
    assert main(["simulate", "--generate", LOAD, "--database", url]) == 0


@pytest.fixture
def log(one_server: Server) -> Iterator[str]:
    """A database with a simulation."""
    with one_server.fresh(_simulated) as url:
        yield url


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text(MOST_ALLOCATED)
    return tmp_path / "config.yaml"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """A command: its exit code, output and errors."""

    def run(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([*map(str, words)])
        found = capsys.readouterr()
        return code, found.out, found.err

    return run


def stored(run: Run, log: str, *options: object) -> dict[str, Any]:
    """What the command prints as JSON."""
    words = ("--what-if", *options, "--store", "other", "--database", log, "--stream", STREAM)
    code, text, errors = run("replay", *words, "-o", "json")
    assert code == 0, errors
    document: dict[str, Any] = json.loads(text)
    return document


def records(log: str, stream: str) -> list[Any]:
    with closing(Reader(log, stream)) as reader:
        return [stored.record for stored in reader.read()]


@pytest.mark.parametrize("first", [(), ("--from", MIDDLE)])
def test_the_result_is_a_stream(run: Run, log: str, config: Path, first: tuple[str, ...]) -> None:
    document = stored(run, log, config, *first)
    origin = f"stream {STREAM}, positions {document['first']} to {document['end']}, rules: {config}"
    made = document["stored"]
    assert (made["stream"], made["origin"]) == ("other", origin)
    of = ("--database", log, "--stream", "other")
    code, text, _ = run("verify", *of)
    assert code == 0, text
    code, text, _ = run("replay", "--verify", *of)
    assert (code, f"stream other: {made['records']} records decided again" in text) == (0, True)
    assert "every decision came out as it is written" in text
    [moved, *_] = [pod for pod in document["differences"] if pod["after"]["node"]]
    pod = f"{moved['namespace']}/{moved['name']}"
    for stream, side in ((STREAM, "before"), ("other", "after")):
        code, text, _ = run("explain", pod, "--database", log, "--stream", stream, "-o", "json")
        placed = [each["node"] for each in json.loads(text)["attempts"] if each["node"]]
        assert (code, placed[-1]) == (0, moved[side]["node"])
    with psycopg.connect(log) as connection:
        query = "SELECT count(*) FROM eventsched.decisions WHERE stream = 'other'"
        [number] = connection.execute(query).fetchone() or [None]
    decisions = [r for r in records(log, "other") if type(r).__name__ == "PodDecided"]
    assert number == len(decisions)
    _, text, _ = run("log", "list", "--from", document["first"], *of)
    assert f"what if, of {origin}" in text
    with closing(DatabaseStreams(log)) as served:
        client = Client(application(Desk(served, FoldedStates()), OpenGate(local_only=True)))
        found = client.get(f"/pods/{pod}/explain?stream=other")
        placed = [each["node"] for each in found["attempts"] if each["node"]]
        assert placed[-1] == moved["after"]["node"]
        assert client.get("/now?stream=other")["stream"] == "other"


@pytest.mark.parametrize("first", [(), ("--from", MIDDLE)])
def test_same_rules_make_the_same_stream(run: Run, log: str, first: tuple[str, ...]) -> None:
    """Apart from the record that says where it comes from."""
    document = stored(run, log, *first)
    assert document["differences"] == []
    was, made = records(log, STREAM), records(log, "other")
    [marked] = [number for number, r in enumerate(made) if WHAT_IF in getattr(r, "inputs", {})]
    assert marked == document["first"]
    if isinstance(made[marked], StreamStarted):
        made[marked] = was[0]
    else:
        del made[marked]
    assert made == was


def test_a_stream_that_is_there(run: Run, log: str) -> None:
    before = records(log, STREAM)
    code, text, errors = run(
        "replay", "--what-if", "--store", STREAM, "--database", log, "--stream", STREAM
    )
    assert (code, text) == (2, "")
    assert f"stream {STREAM}: is in the database already; name another stream" in errors
    assert records(log, STREAM) == before


def test_another_database(run: Run, log: str, database: str, tmp_path: Path) -> None:
    exported = tmp_path / "log.jsonl"
    assert run("log", "export", exported, "--database", log)[0] == 0
    words = ("replay", "--file", exported, "--what-if", "--store", "other")
    code, _, errors = run(*words)
    assert (code, "--store: does not say in which database" in errors) == (2, True)
    code, text, errors = run(*words, "--store-in", database)
    assert code == 0, errors
    assert "stored as stream other: " in text
    assert (streams(log), streams(database)) == ([STREAM], ["other"])


@pytest.mark.parametrize("role", ["eventsched_reader", "eventsched_auditor"])
def test_a_right_that_is_missing(run: Run, log: str, role: str) -> None:
    code, text, errors = run(
        "replay", "--what-if", "--store", "other", "--database", log, "--store-in",
        acting_as(log, role),
    )  # fmt: skip
    assert (code, text) == (3, "")
    assert "permission denied" in errors
    assert errors.endswith("GRANT eventsched_writer to this user\n")


def test_a_range_without_decisions_leaves_nothing(run: Run, log: str) -> None:
    code, _, errors = run(
        "replay", "--what-if", "--store", "other", "--until", 3, "--database", log
    )
    assert (code, "holds no decision" in errors) == (2, True)
    assert streams(log) == [STREAM]


def test_a_process_that_is_killed_leaves_nothing(log: str) -> None:
    words = ("replay", "--what-if", "--store", "other", "--database", log, "--stream", STREAM)
    with Command(*words, changes=KILLS) as killed:
        assert killed.wait(60) == -signal.SIGKILL
    assert streams(log) == [STREAM]
    with Command(*words) as again:
        output, errors = again.communicate(timeout=60)
        assert (again.wait(0), complaints(errors)) == (0, [])
    assert "stored as stream other: " in output


@pytest.mark.parametrize("first", [(), ("--from", MIDDLE)])
def test_states_in_the_result_are_near_a_snapshot(
    run: Run, log: str, config: Path, first: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are those of the records alone."""
    monkeypatch.setattr(result_stream, "snapshot_distance", lambda pods: 30)
    monkeypatch.setattr(result_stream, "_BATCH_SIZE", 10)
    end = stored(run, log, config, *first)["stored"]["records"]
    with closing(Reader(log, "other", keeps_connection=True)) as reader:
        starts = {}
        for position in range(0, end + 1, 20):
            found = state_at(reader, reader, position, end)
            starts[position] = found.first
            folded = SchedulerState()
            for each in reader.decoded(0, position):
                folded.apply(each.record, each.at)
            assert found.state.digest() == folded.digest()
        kept = {each.position: each.digest for each in stored_states(reader, end)}
        assert len(kept) > 2
        assert {first for first in starts.values() if first} <= kept.keys()
        assert starts[max(starts)] == max(kept.keys() & set(range(max(starts) + 1)))
        for position, digest in kept.items():
            assert state_at(reader, reader, position, end).state.digest() == digest
    of = ("--database", log, "--stream", "other")
    assert run("verify", *of)[0] == 0
    assert run("replay", "--verify", *of)[0] == 0
