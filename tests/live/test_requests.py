"""What people ask reaches a leader once, when it leads."""

import asyncio
from collections.abc import Awaitable, Callable

from eventsched.domain.errors import UnavailableError
from eventsched.domain.records import MemoryChanged, MemoryForgotten, Stimulus
from eventsched.runtime.live.request_source import pass_on_requests
from eventsched.runtime.live.worker import Worker
from tests.live.stage import Stage, nodes, until


def asked(number: int, key: str = "default/a") -> MemoryForgotten:
    """A request."""
    return MemoryForgotten(plugin="FirstScheduledNode", key=key, by="ada", request=number)


class FakeRequestQueue:
    """Open requests; unreachable while ``unreachable`` is set."""

    def __init__(self, *found: MemoryForgotten) -> None:
        self.open = list(found)
        self.unreachable = False
        self.looks = 0

    def requests(self) -> list[MemoryForgotten]:
        """See the port."""
        self.looks += 1
        if self.unreachable:
            raise UnavailableError("the database", "is unreachable", "wait")
        return list(self.open)


class Listener:
    """A leader, or a replica that does not lead."""

    def __init__(self) -> None:
        self.elected = True
        self.looks = 0
        """How often ``accepts_stimuli`` was read."""
        self.heard: list[Stimulus] = []

    @property
    def accepts_stimuli(self) -> bool:
        """See the port."""
        self.looks += 1
        return self.elected

    def submit(self, stimulus: Stimulus) -> None:
        """See the port."""
        self.heard.append(stimulus)


def play(queue: FakeRequestQueue, story: Callable[[Listener], Awaitable[None]]) -> Listener:
    """Attends to a queue beside a story."""
    listener, worker = Listener(), Worker("queue")

    async def run() -> None:
        attending = asyncio.create_task(pass_on_requests(queue, worker, listener, period=0.001))
        try:
            await story(listener)
        finally:
            attending.cancel()
            await asyncio.gather(attending, return_exceptions=True)

    try:
        asyncio.run(run())
    finally:
        worker.stop()
    return listener


def test_each_request_is_passed_on_once() -> None:
    """Also while its record is not committed yet; those that come later, too."""
    queue = FakeRequestQueue(asked(1), asked(2, "default/b"))

    async def story(listener: Listener) -> None:
        await until(lambda: queue.looks > 3)
        queue.open = [asked(2, "default/b"), asked(3)]
        await until(lambda: len(listener.heard) > 2)
        looks = queue.looks
        await until(lambda: queue.looks > looks + 2)

    assert play(queue, story).heard == [asked(1), asked(2, "default/b"), asked(3)]


def test_operator_requests_wait_until_the_term_leads() -> None:
    """It would be passed over."""
    queue = FakeRequestQueue(asked(1))

    async def story(listener: Listener) -> None:
        listener.elected = False
        await until(lambda: listener.looks > 3)
        assert (queue.looks, listener.heard) == (0, [])
        listener.elected = True
        await until(lambda: listener.heard)

    assert play(queue, story).heard == [asked(1)]


def test_an_unreachable_database_is_polled_again() -> None:
    """Until it is back."""
    queue = FakeRequestQueue(asked(1))
    queue.unreachable = True

    async def story(listener: Listener) -> None:
        await until(lambda: queue.looks > 2)
        assert listener.heard == []
        queue.unreachable = False
        await until(lambda: listener.heard)

    assert play(queue, story).heard == [asked(1)]


def test_a_leader_forgets_plugin_memory_and_continues() -> None:
    """The request's record and what follows from it are committed; the term is the same."""

    async def run() -> list[str]:
        stage = Stage()
        stage.cluster.put(*nodes(1))
        running = asyncio.create_task(stage.driver.run())
        try:
            stage.driver.submit(asked(1))  # before the term leads: passed over
            await until(lambda: stage.driver.accepts_stimuli and stage.leader.all_committed)
            state = stage.leader.engine.state
            state.apply(MemoryChanged(plugin="FirstScheduledNode", key="default/a", value="n0"), 0)
            stage.driver.submit(asked(2))
            await until(lambda: "MemoryForgotten" in stage.database.kinds)
            assert state.memory == {"FirstScheduledNode": {}}
            assert not running.done()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        return stage.database.kinds

    kinds = asyncio.run(run())
    assert kinds[-2:] == ["MemoryForgotten", "MemoryChanged"]
    assert kinds.count("MemoryForgotten") == 1
