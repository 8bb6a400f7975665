"""What is new: long polls and server-sent events, over a log that grows."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from http import HTTPStatus
from typing import Any

import pytest
from starlette.requests import Request
from starlette.types import Message

from eventsched.api.application import ROOT, application
from eventsched.api.desk.asked import Desk
from eventsched.api.following import HeadWatch, TooManyError
from eventsched.api.gates.gate import OpenGate, RefusedError
from eventsched.domain import records
from eventsched.eventlog.port import Batch, StoredRecord
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import DatabaseStreams
from eventsched.questions.visibility import EVERYTHING, Visibility
from tests.api.asking import Client, Listener, scope_of
from tests.api.test_now import STREAM, waiting_log
from tests.builders import make_pod
from tests.waiting import until


class Growing:
    """A log that goes on, and a client of the API over it."""

    def __init__(self, address: str, streams: DatabaseStreams) -> None:
        self.address, self.world = address, waiting_log(address)
        self.desk = Desk(streams, FoldedStates())
        self.app = application(self.desk, OpenGate(local_only=True))
        self.client = Client(self.app)

    def decide(self, name: str, cpu: int) -> int:
        """Another pod is decided about; the position of that."""
        before = len(self.world.logged)
        self.world.see(records.PodAdded(pod=make_pod(name, cpu=cpu)), 20 + before)
        self.world.attempt()
        self.write(before)
        new = self.world.logged[before:]
        return next(e.position for e in new if isinstance(e.record, records.PodDecided))

    def write(self, before: int) -> None:
        """Appends what was logged since."""
        part = self.world.logged[before:]
        with closing(PostgresEventLog(self.address, STREAM, holder="test")) as log:
            details = {each.position: each.detail for each in part if each.detail is not None}
            log.begin(Batch([StoredRecord.of(each) for each in part], details))
            log.finish()


@pytest.fixture
def growing(database: str) -> Iterator[Growing]:
    with closing(DatabaseStreams(database)) as streams:
        yield Growing(database, streams)


def test_a_long_poll(growing: Growing) -> None:
    """It waits for a decision that the filter wants, and no longer than asked."""
    client, head = growing.client, growing.client.get("/decisions")["head"]
    path = f"/decisions?after={head}&outcome=unschedulable&wait=30s"

    async def asked() -> Any:
        poll = asyncio.ensure_future(client.ask_async(f"{ROOT}{path}"))
        await asyncio.sleep(0.1)
        assert not poll.done()
        await asyncio.to_thread(growing.decide, "fits", 100)
        position = await asyncio.to_thread(growing.decide, "too-large", 9000)
        answered = await poll
        assert [each["position"] for each in answered.json["decisions"]] == [position]

    asyncio.run(asyncio.wait_for(asked(), 60))
    empty = client.get(f"/decisions?after={client.get('/decisions')['head']}&wait=1s")
    assert empty["decisions"] == []
    assert empty["next"] is None


def test_waits_that_cannot_be_asked(growing: Growing) -> None:
    client = growing.client
    assert client.problem("/decisions?wait=3s", 400) == (
        "wait; is for what comes after a position; give after as well"
    )
    assert client.problem("/decisions?after=1&wait=3m", 400) == (
        "wait; '3m' is not a number of seconds; write 0s to 60s"
    )
    assert client.problem("/decisions?after=1&wait=61s", 400) == (
        "wait; '61s' is not a number of seconds; write 0s to 60s"
    )


def test_events(growing: Growing) -> None:
    """Old decisions first, then new ones as they come; a client that was cut off goes on."""
    first = growing.client.get("/decisions?after=0")["decisions"]

    async def heard() -> None:
        async with Listener(growing.app, f"{ROOT}/events?after=0") as listener:
            assert listener.headers["content-type"].startswith("text/event-stream")
            assert [await listener.decision() for _ in first] == first
            position = await asyncio.to_thread(growing.decide, "next", 100)
            new = await listener.decision()
            assert new["position"] == position
            assert listener.last_id == str(position + 1)
        another = await asyncio.to_thread(growing.decide, "another", 9000)
        headers = {"last_event_id": str(position + 1)}
        async with Listener(growing.app, f"{ROOT}/events?after=0", **headers) as listener:
            assert (await listener.decision())["position"] == another
        filtered = f"{ROOT}/events?after=0&outcome=scheduled"
        async with Listener(growing.app, filtered) as listener:
            placed = [each for each in first if each["outcome"] == "scheduled"]
            assert [await listener.decision() for _ in placed] == placed
            assert (await listener.decision())["pod"] == "next"

    asyncio.run(asyncio.wait_for(heard(), 60))


def test_events_without_a_place_begin_at_the_end(growing: Growing) -> None:
    async def heard() -> None:
        async with Listener(growing.app, f"{ROOT}/events") as listener:
            head = await listener.event("head")
            assert json.loads(head)["head"] == len(growing.world.logged)
            position = await asyncio.to_thread(growing.decide, "next", 100)
            assert (await listener.decision())["position"] == position

    asyncio.run(asyncio.wait_for(heard(), 60))


def test_events_that_cannot_be_asked(growing: Growing) -> None:
    assert growing.client.problem("/events?after=x", 400).startswith("after; 'x' is not a number")
    assert growing.client.problem("/events?stream=other", 400).startswith("stream; there is no")
    cut = growing.client.ask(f"{ROOT}/events", last_event_id="x")
    assert cut.status == 400


def test_one_task_watches_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with the last waiter; there are no more waiters than allowed."""
    monkeypatch.setattr("eventsched.api.following.MOST_WAITERS", 3)
    monkeypatch.setattr("eventsched.api.following.INTERVAL", 0)
    heads, asked = [5], []

    async def head(stream: str | None) -> int:
        asked.append(stream)
        if len(asked) == 2:
            raise OSError("the database restarts")
        return heads[0]

    async def watched() -> None:
        watch = HeadWatch(head)
        waiting = [asyncio.ensure_future(watch.past("a", n, 50)) for n in (5, 6, 7)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyError):
            await watch.past("a", 5, 50)
        await asyncio.to_thread(until, lambda: len(asked) >= 4, "asked again")
        heads[0] = 7
        assert [await waiting[0], await waiting[1]] == [7, 7]
        assert watch.waiters == 1
        heads[0] = 8
        assert await waiting[2] == 8
        assert watch.waiters == 0
        assert await watch.past("a", 9, 0.01) is None
        before = len(asked)
        await asyncio.sleep(0.01)
        assert len(asked) <= before + 1

    asyncio.run(asyncio.wait_for(watched(), 60))


class _Leaving:
    """A gate that lets its client in until it is closed."""

    is_open = True

    async def visibility(self, request: Request) -> Visibility:
        if not self.is_open:
            raise RefusedError(HTTPStatus.UNAUTHORIZED, "the bearer token is unknown")
        return EVERYTHING


def test_events_end_with_the_right_to_see_them(growing: Growing) -> None:
    gate = _Leaving()
    app = application(growing.desk, gate)

    async def heard() -> None:
        async with Listener(app, f"{ROOT}/events") as listener:
            await listener.event("head")
            gate.is_open = False
            await asyncio.to_thread(growing.decide, "next", 100)
            assert await listener.rest() == ""

    asyncio.run(asyncio.wait_for(heard(), 60))


def test_a_long_poll_ends_with_the_right_to_see_its_answer(growing: Growing) -> None:
    gate = _Leaving()
    client = Client(application(growing.desk, gate))
    head = client.get("/decisions")["head"]

    async def asked() -> None:
        path = f"{ROOT}/decisions?after={head}&wait=30s"
        poll = asyncio.ensure_future(client.ask_async(path))
        await asyncio.sleep(0.1)
        gate.is_open = False
        await asyncio.to_thread(growing.decide, "next", 100)
        assert (await poll).status == 401

    asyncio.run(asyncio.wait_for(asked(), 60))


def test_streams_of_events_have_places(growing: Growing, monkeypatch: pytest.MonkeyPatch) -> None:
    """More are refused, until a client leaves. HEAD needs none."""
    monkeypatch.setattr("eventsched.api.application.MOST_LISTENERS", 1)
    app = application(growing.desk, OpenGate(local_only=True))
    client, path = Client(app), f"{ROOT}/events?after=0"

    async def heard() -> None:
        for _ in range(2):
            async with Listener(app, path) as listener:
                await listener.decision()
                refused = await client.ask_async(path)
                assert (refused.status, refused.headers["retry-after"]) == (503, "2")
        head = await client.ask_async(path, "HEAD")
        assert (head.status, head.body) == (200, b"")
        assert head.headers["content-type"].startswith("text/event-stream")

    asyncio.run(asyncio.wait_for(heard(), 60))


def test_two_streams_of_events_race_for_one_place(
    growing: Growing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both find it free while their first page is made; the later one is refused."""
    monkeypatch.setattr("eventsched.api.application.MOST_LISTENERS", 1)
    app = application(growing.desk, OpenGate(local_only=True))
    client, path = Client(app), f"{ROOT}/events?after=0"

    async def raced() -> None:
        both = [asyncio.ensure_future(client.ask_async(path)) for _ in range(2)]
        done, [listening] = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        [refused] = [await each for each in done]
        assert (refused.status, refused.headers["retry-after"]) == (503, "2")
        assert refused.json["detail"] == "too many requests are under way"
        assert refused.headers["x-content-type-options"] == "nosniff"
        app.end()
        assert (await listening).status == 200

    asyncio.run(asyncio.wait_for(raced(), 60))


def test_a_long_poll_whose_client_leaves_waits_no_longer(growing: Growing) -> None:
    head = growing.client.get("/decisions")["head"]

    async def asked() -> None:
        left = asyncio.Event()

        async def receive() -> Message:
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            assert not left.is_set() or message.get("status") != 200

        path = f"{ROOT}/decisions?after={head}&wait=60s"
        scope = scope_of(path, "GET", {"host": "127.0.0.1"})
        poll = asyncio.ensure_future(growing.app(scope, receive, send))
        await asyncio.to_thread(until, lambda: growing.app.waiters, "waiting")
        left.set()
        await poll
        await asyncio.sleep(0)
        assert growing.app.waiters == 0

    asyncio.run(asyncio.wait_for(asked(), 50))


def test_waiting_ends_with_the_server(growing: Growing) -> None:
    """Long polls are answered as they are, and streams of events come to an end."""
    head = growing.client.get("/decisions")["head"]
    path = f"{ROOT}/decisions?after={head}&wait=60s"

    async def stopped() -> None:
        async with Listener(growing.app, f"{ROOT}/events") as listener:
            await listener.event("head")
            poll = asyncio.ensure_future(growing.client.ask_async(path))
            await asyncio.to_thread(until, lambda: growing.app.waiters == 2, "waiting")
            growing.app.end()
            assert await listener.rest() == ""
            assert (await poll).json["decisions"] == []
        later = await growing.client.ask_async(path)
        assert (later.status, later.json["decisions"]) == (200, [])

    asyncio.run(asyncio.wait_for(stopped(), 50))


def test_many_who_wait_are_served_in_turn(
    growing: Growing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than may be under way at a time."""
    monkeypatch.setattr("eventsched.api.application.MOST_QUICK", 8)
    app = application(growing.desk, OpenGate(local_only=True))
    client, head = Client(app), growing.client.get("/decisions")["head"]
    path = f"{ROOT}/decisions?after={head}&wait=60s"

    async def asked() -> None:
        polls = []
        for number in range(1, 13):
            polls.append(asyncio.ensure_future(client.ask_async(path)))
            await asyncio.to_thread(until, lambda most=number: app.waiters == most, "waiting")
        position = await asyncio.to_thread(growing.decide, "next", 100)
        for answered in await asyncio.gather(*polls):
            assert [each["position"] for each in answered.json["decisions"]] == [position]

    asyncio.run(asyncio.wait_for(asked(), 60))
