"""Which request goes first when there is no room for all."""

import asyncio
from collections.abc import Awaitable, Callable

from eventsched.cluster.kube.http.request_limiter import RequestLimiter


class Crowd:
    """Requests that hold their slots until the test releases them. ``entered`` lists those that got
    one."""

    def __init__(self, limit: int) -> None:
        self.gate = RequestLimiter(limit)
        self.entered: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self._leave: dict[str, asyncio.Event] = {}

    async def come(self, *names: str) -> None:
        """Names in capitals are urgent."""
        for name in names:
            self._leave[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._stay(name))
        await self.settle()

    async def go(self, *names: str) -> None:
        for name in names:
            self._leave[name].set()
        await self.settle()

    async def give_up(self, name: str) -> None:
        self.tasks[name].cancel()
        await self.settle()

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def _stay(self, name: str) -> None:
        async with self.gate.urgent() if name.isupper() else self.gate.report():
            self.entered.append(name)
            await self._leave[name].wait()


def played(limit: int, play: Callable[[Crowd], Awaitable[None]]) -> list[str]:
    """The requests that got a slot, in order."""

    async def run() -> list[str]:
        crowd = Crowd(limit)
        await play(crowd)
        waiting = crowd.gate.waiting
        assert waiting == 0
        return crowd.entered

    return asyncio.run(run())


def test_urgent_requests_are_sent_before_waiting_reports() -> None:
    async def play(crowd: Crowd) -> None:
        await crowd.come("A", "B", "c", "D", "E")
        assert (crowd.entered, crowd.gate.waiting) == (["A", "B"], 3)
        await crowd.go("A")
        await crowd.go("B")
        assert crowd.entered == ["A", "B", "D", "E"]
        await crowd.go("D", "E")
        await crowd.go("c")

    assert played(2, play) == ["A", "B", "D", "E", "c"]


def test_reports_have_half_of_the_slots() -> None:
    async def play(crowd: Crowd) -> None:
        await crowd.come("a", "b", "c", "D", "E", "F")
        assert (crowd.entered, crowd.gate.waiting) == (["a", "b", "D", "E"], 2)
        await crowd.go("D")
        assert crowd.entered[4:] == ["F"]
        await crowd.go("E", "F")
        assert crowd.entered[5:] == []
        await crowd.go("a")
        await crowd.go("b", "c")

    assert played(4, play) == ["a", "b", "D", "E", "F", "c"]


def test_reports_have_at_least_one_slot() -> None:
    async def play(crowd: Crowd) -> None:
        await crowd.come("a", "B")
        assert crowd.entered == ["a"]
        await crowd.go("a", "B")

    assert played(1, play) == ["a", "B"]


def test_a_cancelled_request_takes_no_slot() -> None:
    async def play(crowd: Crowd) -> None:
        await crowd.come("A", "B", "C", "d", "e")
        await crowd.give_up("B")
        await crowd.give_up("d")
        assert crowd.gate.waiting == 2
        crowd.tasks["C"].cancel()
        await crowd.go("A")  # C was next for its slot
        assert crowd.entered == ["A", "e"]
        await crowd.come("F")
        await crowd.go("e")
        await crowd.go("F")

    assert played(1, play) == ["A", "e", "F"]


def test_a_slot_assigned_to_a_cancelled_request_goes_to_the_next() -> None:
    async def play(crowd: Crowd) -> None:
        await crowd.come("A", "B", "C")
        crowd._leave["A"].set()
        await asyncio.sleep(0)  # A leaves, B has its turn and has not run yet
        crowd.tasks["B"].cancel()
        await crowd.settle()
        await crowd.go("C")

    assert played(1, play) == ["A", "C"]
