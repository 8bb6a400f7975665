"""A term on an event loop: what is asked for, what waits, and how it ends."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

import pytest

from eventsched.cluster.messages import BindPod
from eventsched.runtime.leader.leader import Leader
from eventsched.runtime.live.driver import _MAX_ATTEMPTS, TURN_CPU_SECONDS
from tests.builders import make_node
from tests.live.stage import LiveCluster, Stage, nodes, pods, until


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventsched.runtime.live.driver._RETRY_AFTER", 0.01)


def play(story: Callable[[Stage, "asyncio.Task[str]"], Awaitable[None]], **more: int) -> Stage:
    """Runs a driver beside a story; the driver is cancelled where the story leaves it running."""
    stages: list[Stage] = []

    async def run() -> None:
        stage = Stage(**more)
        stages.append(stage)
        stage.cluster.put(*nodes(3))
        running = asyncio.create_task(stage.driver.run())
        try:
            await story(stage, running)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        assert not stage.cluster.watched
        assert stage.driver.under_way == 0

    asyncio.run(run())
    return stages[0]


def test_pods_are_bound_once_their_decisions_are_committed() -> None:
    """Those that are there at the start, and those that come later."""

    async def story(stage: Stage, _: "asyncio.Task[str]") -> None:
        stage.cluster.put(*pods(10))
        await until(lambda: len(stage.bound) == 10)
        stage.cluster.put(*pods(40, "q"))
        await until(lambda: len(stage.bound) == 50)
        await until(lambda: stage.leader.all_committed)

    stage = play(story)
    assert stage.led == 1
    assert len(stage.cluster.binds) == 50
    assert stage.database.kinds.count("PodDecided") == 50
    assert stage.database.kinds.count("PodBound") == 50


def test_nothing_is_bound_while_the_database_is_unreachable() -> None:
    """Pods are still observed; when it is back, work resumes without intervention."""

    async def story(stage: Stage, _: "asyncio.Task[str]") -> None:
        await until(lambda: stage.leader.all_committed)
        stage.database.unreachable = True
        stage.cluster.put(*pods(100))
        asked = stage.database.asked
        await until(lambda: stage.database.asked > asked + 3)
        assert stage.cluster.binds == []
        assert len(stage.leader.engine.state.pods) == 100
        stage.database.unreachable = False
        await until(lambda: len(stage.bound) == 100)

    play(story)


def test_events_stay_in_the_store_while_the_log_is_too_slow() -> None:
    """Beyond the bound nothing is taken in; a list makes up for what was not heard."""

    async def story(stage: Stage, _: "asyncio.Task[str]") -> None:
        stage.cluster.put(*nodes(20))
        await until(lambda: stage.leader.all_committed)
        stage.database.unreachable = True
        for number in range(20):
            stage.cluster.put(*pods(20, f"{number}-"))
            await asyncio.sleep(0)
        await until(lambda: not stage.driver.subscribed)
        stage.cluster.server.delete_pod("0-0")
        stage.cluster.put(*pods(5, "late-"))
        assert stage.driver.waiting + stage.leader.uncommitted < 200
        stage.database.unreachable = False
        await until(lambda: len(stage.bound) == 20 * 20 - 1 + 5)
        assert stage.driver.subscribed

    stage = play(story, max_queued=100)
    assert stage.cluster.lists >= 2
    assert "0-0" not in stage.leader.engine.state.pods


def test_the_list_that_replaces_events_is_retried() -> None:
    """The cluster is unreachable as well when the log is back."""

    async def story(stage: Stage, _: "asyncio.Task[str]") -> None:
        await until(lambda: stage.leader.all_committed)
        stage.database.unreachable = True
        stage.cluster.put(*pods(100))
        await until(lambda: not stage.driver.subscribed)
        stage.cluster.unlisted = 3
        stage.database.unreachable = False
        await until(lambda: len(stage.bound) == 100)

    assert play(story, max_queued=50).cluster.lists >= 5


def test_after_a_lost_answer_the_pod_is_read() -> None:
    """The bind has landed: nothing is bound twice."""

    async def story(stage: Stage, _: "asyncio.Task[str]") -> None:
        await until(lambda: stage.leader.all_committed)
        stage.cluster.silent = BindPod
        stage.cluster.put(*pods(3))
        await until(lambda: stage.leader.all_committed and len(stage.bound) == 3)

    stage = play(story)
    assert len(stage.cluster.binds) == 3


def test_listing_the_cluster_is_retried() -> None:
    """Until it can."""

    async def story(stage: Stage, _: "asyncio.Task[str]") -> None:
        stage.cluster.unlisted = 3
        await until(lambda: stage.leader.leading)

    assert play(story).cluster.lists == 4


def test_a_deposed_leader_ends_the_driver() -> None:
    """Another leader has begun a term: no more effects are requested."""

    async def story(stage: Stage, running: "asyncio.Task[str]") -> None:
        await until(lambda: stage.leader.all_committed)
        stage.database.stored.acquire(stage.database.stored.head)
        stage.cluster.put(*pods(5))
        assert await running == "fenced"
        assert stage.cluster.binds == []

    play(story)


def test_end_finishes_open_requests() -> None:
    """What was decided is bound and written down; what waits is not tried any more."""

    async def story(stage: Stage, running: "asyncio.Task[str]") -> None:
        await until(lambda: stage.leader.all_committed)
        stage.cluster.held = True
        stage.cluster.put(*pods(3))
        await until(lambda: len(stage.cluster.binds) == 3)
        stage.driver.end()
        stage.cluster.put(*pods(3, "late-"))
        turns, asked = stage.driver.turns, stage.database.asked
        await until(lambda: stage.driver.turns > turns + 1 and stage.database.asked > asked + 1)
        assert not running.done()
        stage.cluster.held = False
        assert await running == ""
        assert stage.bound == {"p0", "p1", "p2"}
        assert stage.leader.all_committed

    stage = play(story)
    assert stage.database.kinds.count("PodBound") == 3
    assert stage.database.kinds.count("PodDecided") == 3


def test_a_defect_ends_the_term_and_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not swallowed, whatever raises it."""

    async def in_a_request(stage: Stage, running: "asyncio.Task[str]") -> None:
        await until(lambda: stage.leader.all_committed)
        monkeypatch.setattr(stage.cluster.server, "bind", None)
        stage.cluster.put(*pods(1))
        with pytest.raises(TypeError):
            await running

    async def in_the_leader(stage: Stage, running: "asyncio.Task[str]") -> None:
        await until(lambda: stage.leader.all_committed)
        monkeypatch.setattr(stage.leader, "step", None)
        stage.cluster.put(*pods(1))
        with pytest.raises(TypeError):
            await running

    play(in_a_request)
    play(in_the_leader)


def test_turns_adapt_to_the_time_they_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where attempts take long, a turn makes few; one at least."""
    asked: list[int] = []
    step = Leader.step
    duration = [0.0]

    def slow(self: Leader, messages: Any, now: int, attempts: int, is_time_up: Any) -> object:
        asked.append(attempts)
        made = step(self, messages, now, attempts, is_time_up)
        clock[0] += duration[0] * attempts
        return made

    clock = [0.0]
    monkeypatch.setattr(Leader, "step", slow)
    monkeypatch.setattr("eventsched.runtime.live.driver.time.thread_time", lambda: clock[0])

    async def story(stage: Stage, _: "asyncio.Task[str]") -> None:
        await until(lambda: stage.leader.all_committed)
        stage.cluster.put(*nodes(40))
        stage.cluster.put(*pods(400))
        await until(lambda: len(stage.bound) == 400)
        assert max(asked) == _MAX_ATTEMPTS
        duration[0] = TURN_CPU_SECONDS / 4
        asked.clear()
        stage.cluster.put(*pods(400, "q"))
        await until(lambda: len(stage.bound) == 800)
        assert asked[-1] <= 5
        duration[0] = TURN_CPU_SECONDS * 2
        stage.cluster.put(*pods(40, "r"))
        await until(lambda: len(stage.bound) == 840)
        assert asked[-1] == 1

    play(story)


def test_slow_messages_leave_time_for_attempts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fewer messages each turn, one at least; and as many attempts as before."""
    turns: list[tuple[int, int]] = []
    step = Leader.step
    clock = [0.0]

    def slow(
        self: Leader, messages: Iterable[Any], now: int, attempts: int, is_time_up: Any
    ) -> object:
        taken = []

        def heard() -> Iterator[Any]:
            for message in messages:
                taken.append(message)
                clock[0] += TURN_CPU_SECONDS
                yield message

        made = step(self, heard(), now, attempts, is_time_up)
        turns.append((len(taken), attempts))
        return made

    monkeypatch.setattr("eventsched.runtime.live.driver.time.thread_time", lambda: clock[0])

    async def story(stage: Stage, _: "asyncio.Task[str]") -> None:
        await until(lambda: stage.leader.all_committed)
        stage.cluster.put(*nodes(40))
        stage.cluster.put(*pods(400))
        await until(lambda: len(stage.bound) == 400)
        monkeypatch.setattr(Leader, "step", slow)
        stage.cluster.put(*pods(100, "q"))
        await until(lambda: len(stage.bound) == 500)
        assert turns[-1][0] <= 2  # and a Tick
        assert min(attempts for _, attempts in turns) == _MAX_ATTEMPTS

    play(story)


def test_other_tasks_run_while_there_is_work() -> None:
    """Others get their share between any two turns."""

    async def story(stage: Stage, _: "asyncio.Task[str]") -> None:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0)
                ticks += 1

        ticking = asyncio.create_task(tick())
        stage.cluster.put(*(make_node(f"m{number}") for number in range(40)))
        stage.cluster.put(*pods(1000))
        await until(lambda: len(stage.bound) == 1000)
        ticking.cancel()
        assert ticks >= stage.driver.turns

    play(story)


def test_an_idle_driver_sleeps() -> None:
    """It wakes for the heartbeat only."""

    async def story(stage: Stage, _: "asyncio.Task[str]") -> None:
        await until(lambda: stage.leader.all_committed)
        turns = stage.driver.turns
        asked = stage.database.asked
        await until(lambda: stage.database.asked >= asked + 5)
        assert stage.driver.turns - turns < 40

    assert isinstance(play(story).cluster, LiveCluster)


async def reconciling(stage: Stage) -> None:
    """Waits until lists are being taken in; looks between any two turns."""
    while not stage.leader.reconciling:
        await asyncio.sleep(0)


def test_lists_are_taken_in_over_many_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tasks run between them; what a watch shows meanwhile is taken in afterwards."""
    monkeypatch.setattr("eventsched.runtime.live.driver.RECONCILING_SECONDS", -1.0)

    async def story(stage: Stage, _: "asyncio.Task[str]") -> None:
        stage.cluster.put(*pods(100))
        await reconciling(stage)
        assert not stage.leader.leading
        stage.cluster.put(*pods(1, "late-"))
        assert stage.driver.waiting == 1
        turns = stage.driver.turns
        await until(lambda: stage.leader.leading)
        assert stage.driver.turns - turns > 50
        await until(lambda: len(stage.bound) == 101)

    play(story)


def test_a_term_that_ends_among_lists_has_committed_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The lease is lost: the driver is cancelled, and the next term takes in lists of its own."""
    monkeypatch.setattr("eventsched.runtime.live.driver.RECONCILING_SECONDS", -1.0)

    async def story(stage: Stage, running: "asyncio.Task[str]") -> None:
        stage.cluster.put(*pods(100))
        await reconciling(stage)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert not stage.driver.hand_over()
        assert stage.database.kinds == []

    play(story)
