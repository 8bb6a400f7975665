"""Calls into third-party plugins, and the calls that take too long.

Deadlines need a clock, which the engine does not have. A live process gives its plugins a guard
(runtime/call_deadlines.py) that ends a call by OverrunError. The log records the stimulus
PluginOverran; from then on the engine does not make that call and treats it as one that raised. So
a replay, which has no clock, decides the same.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from typing import Any

from eventsched.scheduling.framework.plugin import POINTS, PluginError

METHODS = (
    *(method for methods in POINTS.values() for method in methods),
    *("explain", "normalize_score", "prepared", "hint"),
)
"""The methods that a guard calls. It does not guard QueueSort's ``sort_key``: there is no other
order to fall back to."""
_SIGNS = ("sign", "hint_sign")


class OverrunError(BaseException):
    """A call of a plugin exceeded its deadline. Not an Exception, so that neither the plugin's
    handlers nor those for its errors catch it. The step in which it happened is void."""

    def __init__(self, plugin: str, point: str, seconds: float) -> None:
        self.plugin, self.point, self.seconds = plugin, point, seconds
        super().__init__(f"plugin {plugin} took longer than {seconds:g} s in {point}")


class Guard:
    """Makes the calls of plugins. This one has no deadlines."""

    def __init__(self) -> None:
        self.overrun: Mapping[tuple[str, str], float] = {}
        """The calls that are no longer made: (plugin, method) → seconds that such a call took."""
        self.unrecorded: list[OverrunError] = []
        """The overruns that no engine has recorded yet."""

    def call(
        self, plugin: str, method: str, function: Callable[..., Any], *arguments: Any, **named: Any
    ) -> Any:
        """The function's answer. Raises OverrunError, and PluginError for a call that is no longer
        made."""
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
        """The plugin with its methods called by this guard."""
        return Guarded(plugin, self)


class Guarded:
    """A plugin whose methods are called by a guard; all other attributes are the plugin's."""

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
    """A plugin's ``sign``. After an overrun it is not called again and all pods are unsigned. No
    decision depends on signatures, so the log need not record that."""

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
    """The distinct guards of these plugins."""
    guards = {id(p._guard): p._guard for p in plugins if isinstance(p, Guarded)}
    return list(guards.values())
