"""What a proxy does to the traffic that a test points out, and the rules that say so.

rule = proxy.on("POST", "/binding$", Swallow(), times=1)
…
rule.wait()
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from tests.waiting import LIMIT, joined

T = TypeVar("T")


@dataclass(frozen=True)
class Delay:
    """It is carried out ``seconds`` later."""

    seconds: float


@dataclass(frozen=True)
class Hold:
    """It is carried out when the rule is released, be its sender gone by then or not."""


@dataclass(frozen=True)
class Lose:
    """It never arrives, and the sender's connection is cut."""


@dataclass(frozen=True)
class Swallow:
    """It is carried out, and the sender's connection is cut in place of the answer."""


@dataclass(frozen=True)
class Hang:
    """It is carried out, and the sender waits for an answer that never comes."""


@dataclass(frozen=True)
class Refuse:
    """It never arrives; the proxy answers by itself."""

    status: int = 503
    retry_after: int | None = None
    """Seconds, in the header of that name."""


Fault = Delay | Hold | Lose | Swallow | Hang | Refuse


class Rule:
    """A fault for some of the traffic, the next ``times`` times or until it is removed."""

    def __init__(
        self, fault: Fault, matches: Callable[[Any], bool], times: int | None = None
    ) -> None:
        self.fault = fault
        self.hits = 0
        """How often it has been applied."""
        self._matches = matches
        self._left = times
        self._changed = threading.Condition()
        self._released = False

    def take(self, request: object) -> bool:
        """Whether the fault is to be applied to this one; counts it."""
        with self._changed:
            if self._left == 0 or not self._matches(request):
                return False
            if self._left is not None:
                self._left -= 1
            self.hits += 1
            self._changed.notify_all()
            return True

    def wait(self, hits: int = 1, within: float = LIMIT) -> None:
        """Waits until it has been applied so often. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.hits >= hits, within):
                raise TimeoutError(f"{self.fault} applied {self.hits} times in {within} s")

    def release(self) -> None:
        """Lets everything go that it holds, and stops holding."""
        with self._changed:
            self._released = True
            self._left = 0

    def remove(self) -> None:
        """It is not applied any more; what it holds it holds."""
        with self._changed:
            self._left = 0

    async def released(self) -> None:
        """Returns when it is released."""
        while not self._released:
            await asyncio.sleep(0.01)


class Rules:
    """The rules of a proxy; the first that matches is applied."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []

    def add(self, rule: Rule) -> Rule:
        """Adds a rule behind the others."""
        self._rules.append(rule)
        return rule

    def clear(self) -> None:
        """Ends all rules, and lets go what they hold."""
        for rule in self._rules:
            rule.release()
        self._rules = []

    def take(self, request: object) -> Rule | None:
        """The rule that is to be applied to this one."""
        return next((rule for rule in self._rules if rule.take(request)), None)


class Gate:
    """Traffic passes while it is open. Opened and shut from any thread."""

    def __init__(self) -> None:
        self.is_open = True
        self.waiting = 0
        """How many wait for it to be opened."""

    async def passed(self) -> None:
        """Returns when it is open."""
        self.waiting += 1
        try:
            while not self.is_open:
                await asyncio.sleep(0.01)
        finally:
            self.waiting -= 1


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], within: float = LIMIT) -> T:
        """What the coroutine gives, run in the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(within)

    def close(self) -> None:
        """Cancels what still runs, drops all connections, and ends the thread."""
        self.run(_cancel_others())
        self.run(_drop_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        joined(self._thread)
        self._loop.close()


async def stopped(listening: asyncio.Server) -> None:
    """Stops accepting. Connections accepted just before get their turn first: older Pythons leave
    them open otherwise (python/cpython#109564)."""
    loop = asyncio.get_running_loop()
    for each in listening.sockets:
        loop.remove_reader(each.fileno())
    await asyncio.sleep(0)
    listening.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for each in others:
        each.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def _drop_all() -> None:
    """Also those whose TLS handshake or farewell is under way, which no task and no session knows
    any more: the loop alone does."""
    for each in list(asyncio.get_running_loop()._transports.values()):  # type: ignore[attr-defined]
        each.abort()
    await asyncio.sleep(0.01)
