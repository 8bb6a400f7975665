"""``eventsched sticky``: what is remembered, and having a running scheduler forget it."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.domain.records import MemoryChanged
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.tail import Tail
from eventsched.history.plugin_memory import read_memory
from eventsched.plugins.gallery.first_scheduled_node import FirstScheduledNode
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.runtime.live import request_source
from eventsched.runtime.live.clock import Clock
from eventsched.runtime.live.replica import Replica
from tests.builders import engine_of
from tests.live.stage import pods, until
from tests.postgres.replicas import STREAM, Scene

STICKY = "FirstScheduledNode"


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are looked for often."""
    monkeypatch.setattr(request_source.pass_on_requests, "__defaults__", (0.02,))


def play(address: str, story: Callable[[Scene], Awaitable[None]]) -> Scene:
    """Runs a replica with the plugin beside a story, and brings it to its end."""

    async def run() -> Scene:
        scene = Scene(address)
        plan = replace(
            scene.replica.plan,
            make_engine=lambda: engine_of(NodeResourcesFit(), FirstScheduledNode()),
        )
        scene.replica = Replica(plan, scene.cluster, scene.booth, scene.ears, Clock().now)
        running = asyncio.create_task(scene.replica.run())
        try:
            await story(scene)
        finally:
            scene.replica.end()
            async with asyncio.timeout(60):
                await running
        return scene

    return asyncio.run(run())


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines of commands, without those of the scheduler."""
    return [line for line in capsys.readouterr().out.splitlines() if "[info " not in line]


def bound(count: int) -> Callable[[Scene], Awaitable[None]]:
    """Binds a number of pods, and commits everything."""

    async def story(scene: Scene) -> None:
        scene.cluster.put(*pods(count))
        await until(lambda: scene.bound == count and scene.settled)

    return story


def test_a_running_scheduler_forgets(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In the same term; what was not asked for stays."""
    where = ["--database", database]
    codes: list[int] = []

    async def story(scene: Scene) -> None:
        await bound(2)(scene)
        commands = (["list"], ["forget", "default/p0"]) * 2
        codes.extend(
            [await asyncio.to_thread(main, ["sticky", *each, *where]) for each in commands]
        )

    scene = play(database, story)
    said = printed(capsys)
    assert codes == [0, 0, 0, 1]
    assert scene.replica.terms == 1
    assert [line.split()[0] for line in said[:3]] == ["KEY", "default/p0", "default/p1"]
    assert said[3].startswith(f"{STICKY} has forgotten default/p0 (position ")
    assert [line.split()[0] for line in said[4:6]] == ["KEY", "default/p1"]
    assert said[6] == f"{STICKY} remembers nothing under default/p0; see `eventsched sticky list`"
    assert main(["log", "list", "--kind", "MemoryForgotten", *where]) == 0
    told = printed(capsys)[-1]
    assert f"{STICKY} has to forget default/p0: request 1, by postgres" in told
    records = list(Reader(database, STREAM).read())
    forgotten = [each for each in records if each.kind == "MemoryForgotten"]
    assert len(forgotten) == 1
    assert records[forgotten[0].position + 1].record == MemoryChanged(
        plugin=STICKY, key="default/p0"
    )


def test_a_request_waits_for_the_next_scheduler(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the command says so. Asked twice it is one request."""
    play(database, bound(1))
    for _ in range(2):
        assert main(["sticky", "forget", "default/p0", "--wait", "0", "--database", database]) == 0
    assert printed(capsys) == [
        "request 1 waits: no scheduler of stream s has answered it yet; "
        "the next one that leads forgets default/p0"
    ] * 2  # fmt: skip

    async def story(scene: Scene) -> None:
        await until(lambda: scene.settled and not tail.requests())

    tail = Tail(database, STREAM)
    try:
        play(database, story)
    finally:
        tail.close()
    assert read_memory(Reader(database, STREAM), STICKY) == {}


def test_what_is_remembered_is_the_same_with_and_without_a_snapshot(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Held against the log's own view."""
    play(database, bound(30))
    reader = Reader(database, STREAM)
    snapshot = reader.snapshot()
    assert snapshot is not None
    with psycopg.connect(database, autocommit=True) as connection:
        query = "SELECT key, value FROM eventsched.memory WHERE plugin = %s"
        expected: dict[str, Any] = dict(connection.execute(query, (STICKY,)).fetchall())
        found = {key: each.value for key, each in read_memory(reader, STICKY).items()}
        assert found == expected
        assert len(found) == 30
        assert main(["sticky", "list", "-o", "json", "--database", database]) == 0
        told = json.loads("".join(printed(capsys)))
        assert {each["key"]: each["value"] for each in told} == expected
        connection.execute("UPDATE eventsched_log.snapshot SET hash = '\\x00'")
        again = read_memory(reader, STICKY)
        assert {key: each.value for key, each in again.items()} == expected
    assert main(["sticky", "list", "-o", "wide", "--database", database]) == 0
    header, *rows = map(str.split, printed(capsys))
    assert header == ["KEY", "NODE", "LAST", "BOUND", "AGE", "POSITION"]
    positions = {key: str(entry.position) for key, entry in again.items()}
    assert {row[0]: row[-1] for row in rows} == positions


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["list"], "sticky: options: no database is named"),
        (["forget"], "the following arguments are required: KEY"),
        (["forget", "a", "--wait", "soon"], "'soon' is not a number of seconds; write 0 or more"),
        (["lose"], "invalid choice: 'lose'"),
    ],
)
def test_bad_input(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line, exit 2."""
    monkeypatch.delenv("EVENTSCHED_DATABASE", raising=False)
    monkeypatch.delenv("EVENTSCHED_DATA_DIR", raising=False)
    try:
        code = main(["sticky", *words])
    except SystemExit as ended:
        code = int(str(ended.code))
    assert code == 2
    assert told in capsys.readouterr().err


def test_a_stream_that_is_not_there(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is asked."""
    assert main(["sticky", "forget", "a", "--stream", "x", "--database", database]) == 2
    assert "there is no stream x" in capsys.readouterr().err
