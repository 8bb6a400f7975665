"""Calls into plugins that are not ours, and what is known of those that take too long.

How long a call may take is a matter of clocks, so it is no business of the engine: whoever runs one
gives its plugins a guard (runtime/call_deadlines.py) that ends such a call by OverrunError. What is
in the log of it is a stimulus, PluginOverran; from then on the call that it names is not made any
more and counts as one that raised. So a replay, which has no clock, decides the same.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from typing import Any

from eventsched.scheduling.framework.plugin import POINTS, PluginError

METHODS = (
    *(method for methods in POINTS.values() for method in methods),
    *("explain", "normalize_score", "prepared", "hint"),
)
"""What is asked of plugins during a step, QueueSort apart: there is no other order to fall back
to."""
_SIGNS = ("sign", "hint_sign")


class OverrunError(BaseException):
    """A call of a plugin took longer than it may. No Exception: neither the plugin's own handlers
    nor those for its mistakes are to keep it. The step that it happened in is void."""

    def __init__(self, plugin: str, point: str, seconds: float) -> None:
        self.plugin, self.point, self.seconds = plugin, point, seconds
        super().__init__(f"plugin {plugin} took longer than {seconds:g} s in {point}")


class Guard:
    """Makes the calls. This one lets each take as long as it likes."""

    def __init__(self) -> None:
        self.overrun: Mapping[tuple[str, str], float] = {}
        """The calls that are not made: (plugin, method) → seconds that one of them took."""
        self.unrecorded: list[OverrunError] = []
        """The calls that took too long, and are not taken in by an engine."""

    def call(
        self, plugin: str, method: str, function: Callable[..., Any], *arguments: Any, **named: Any
    ) -> Any:
        """What the function answers. Raises OverrunError, and PluginError for a call that is known
        to take too long."""
        if self.overrun and (plugin, method) in self.overrun:
            seconds = self.overrun[plugin, method]
            raise PluginError(plugin, method, f"took longer than {seconds:g} s")
        try:
            return self.timed(plugin, method, function, *arguments, **named)
        except OverrunError as overrun:
            self.unrecorded.append(overrun)
            raise

    def timed(
        self, plugin: str, method: str, function: Callable[..., Any], *arguments: Any, **named: Any
    ) -> Any:
        """The call itself."""
        return function(*arguments, **named)

    def guarded(self, plugin: Any) -> "Guarded":
        """The plugin, its methods called by this guard."""
        return Guarded(plugin, self)


class Guarded:
    """A plugin whose methods are called by a guard; everything else is the plugin's own."""

    def __init__(self, inner: Any, guard: Guard) -> None:
        self._inner, self._guard = inner, guard
        self.name: str = inner.name
        for method in METHODS:
            function = getattr(inner, method, None)
            if method != "sort_key" and callable(function):
                setattr(self, method, partial(guard.call, inner.name, method, function))
        for method in _SIGNS:
            function = getattr(inner, method, None)
            if callable(function):
                setattr(self, method, _Sign(inner.name, method, function, guard))

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._inner, attribute)


class _Sign:
    """A way of signing pods. One that takes too long is not asked again: no decision depends on
    signatures, so the log need not know."""

    def __init__(
        self, plugin: str, method: str, function: Callable[..., Any], guard: Guard
    ) -> None:
        self._plugin, self._method, self._function = plugin, method, function
        self._guard = guard
        self._slow = False

    def __call__(self, pod: Any) -> Hashable:
        if self._slow:
            return None
        try:
            signature: Hashable = self._guard.timed(self._plugin, self._method, self._function, pod)
        except OverrunError:
            self._slow = True
            return None
        return signature


def guards_of(plugins: Iterable[Any]) -> list[Guard]:
    """The guards that call these plugins, each once."""
    found = {id(each._guard): each._guard for each in plugins if isinstance(each, Guarded)}
    return list(found.values())
