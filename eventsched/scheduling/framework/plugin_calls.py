"""A plugin as the engine calls it: methods bound once, answers checked, declarations read once.

Any exception of a plugin becomes a PluginError with its name, and so does an answer of a type that
the extension point does not allow.
"""

from collections.abc import Callable, Hashable
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from eventsched.domain.objects import Pod
from eventsched.domain.objects.texts import is_unicode, without_nul
from eventsched.domain.records.verdicts import Normalization
from eventsched.scheduling.framework import extension_points as point
from eventsched.scheduling.framework.cluster_events import ClusterEvent
from eventsched.scheduling.framework.plugin import (
    DependsOn,
    MemoryBounds,
    PluginError,
    PostFilterResult,
    PreFilterResult,
    Status,
    declared_bounds,
    depends_on,
)
from eventsched.scheduling.framework.sampling import Sampling
from eventsched.scheduling.framework.wait_results import Awaiting, Preparation, Wait

P = ParamSpec("P")
R = TypeVar("R")


class PluginTraits(msgspec.Struct, frozen=True):
    """What a plugin declares by attributes. ``wakes_on`` are the events that its hint is called for
    (all of them if it declares none), ``asks_again_with_group`` says that GROUP_CHANGE is among
    those declared, ``wakes_on_objects`` are types of objects. ``overdue`` is its message for a
    preparation that takes too long, None if it has none; ``normalization`` says how its raw scores
    become 0..100 without a ``normalize_score``; ``memory_bounds`` are None without a bound."""

    wakes_on: frozenset[ClusterEvent]
    asks_again_with_group: bool
    wakes_on_objects: tuple[type, ...]
    depends_on: DependsOn
    samples: Sampling | None
    overdue: str | None
    normalization: Normalization
    memory_bounds: MemoryBounds | None


def traits_of(plugin: Any) -> PluginTraits:
    """The traits of a plugin, read from its attributes. Raises InputError for wrong bounds."""
    wakes_on = getattr(plugin, "wakes_on", None)
    return PluginTraits(
        wakes_on=frozenset(ClusterEvent if wakes_on is None else wakes_on),
        asks_again_with_group=wakes_on is not None and ClusterEvent.GROUP_CHANGE in wakes_on,
        wakes_on_objects=tuple(getattr(plugin, "wakes_on_objects", ())),
        depends_on=depends_on(plugin),
        samples=getattr(plugin, "samples", None),
        overdue=str(plugin.overdue) if hasattr(plugin, "overdue") else None,
        normalization=getattr(plugin, "normalization", Normalization.IDENTITY),
        memory_bounds=declared_bounds(plugin),
    )


class PluginCalls:
    """A plugin's methods, each as a function that may raise PluginError. Optional methods are None
    if the plugin lacks them; any other missing method fails when it is called."""

    def __init__(self, plugin: Any) -> None:
        """``plugin`` works on columns (per_node_plugins.adapted), and may be guarded
        (call_guard.Guarded)."""
        self.plugin = plugin
        self.name: str = plugin.name
        self.traits = traits_of(plugin)
        self.pre_enqueue = bound(plugin, point.PreEnqueuePlugin.pre_enqueue)
        self.pre_filter = bound(plugin, point.PreFilterPlugin.pre_filter)
        self.filter = bound(plugin, point.FilterPlugin.filter)
        self.explain = bound_if_there(plugin, point.ExplainPlugin.explain)
        self.drop_codes = bound_if_there(plugin, point.CodeNumberingPlugin.drop_codes)
        self.post_filter = bound(plugin, point.PostFilterPlugin.post_filter)
        self.pre_score = bound(plugin, point.PreScorePlugin.pre_score)
        self.score = bound(plugin, point.ScorePlugin.score)
        self.normalize_score = bound_if_there(plugin, point.NormalizeScorePlugin.normalize_score)
        self.reserve = bound_if_there(plugin, point.ReservePlugin.reserve)
        self.unreserve = bound_if_there(plugin, point.UnreservePlugin.unreserve)
        self.permit = bound(plugin, point.PermitPlugin.permit)
        self.pre_bind = bound(plugin, point.PreBindPlugin.pre_bind)
        self.prepared = bound_if_there(plugin, point.PreparedPlugin.prepared)
        self.bind = bound(plugin, point.BindPlugin.bind)
        self.post_bind = bound(plugin, point.PostBindPlugin.post_bind)
        self.hint = bound_if_there(plugin, point.HintPlugin.hint)
        self.sign: Callable[[Pod], Hashable] | None = getattr(plugin, "sign", None)
        self.hint_sign: Callable[[Pod], Hashable] | None = (
            getattr(plugin, "hint_sign", None) or self.sign
        )


def bound(plugin: Any, method: Callable[Concatenate[Any, P], R]) -> Callable[P, R]:
    """The plugin's method of the same name as a Protocol's method, with its answer checked."""
    name = method.__name__
    function = getattr(plugin, name, None)
    return checked(plugin.name, name, _late(plugin, name) if function is None else function)


def bound_if_there(plugin: Any, method: Callable[Concatenate[Any, P], R]) -> Callable[P, R] | None:
    """The same; None if the plugin has no such method."""
    return bound(plugin, method) if hasattr(plugin, method.__name__) else None


def checked(plugin: str, method: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its answer checked. Raises PluginError."""
    allowed = _ANSWERS.get(method)

    def call(*arguments: Any) -> Any:
        try:
            answer = function(*arguments)
        except PluginError:
            raise
        except Exception as problem:
            # Third-party code may raise anything; that fails the attempt and nothing else.
            raise PluginError(
                plugin, method, f"raised {type(problem).__name__}: {problem}"
            ) from problem
        if answer is None:
            return None
        if allowed is not None and not isinstance(answer, allowed):
            due = " or a ".join(kind.__name__ for kind in allowed)
            raise PluginError(plugin, method, f"returned {answer!r}; None or a {due} is due")
        if isinstance(answer, Status) and answer.reasons != ():
            return _storable(plugin, method, answer)
        return answer

    return call


def guarded(plugin: Any, method: str, *arguments: Any) -> Any:
    """Calls a plugin's method by name, with its answer checked."""
    return checked(plugin.name, method, _late(plugin, method))(*arguments)


def _late(plugin: Any, method: str) -> Callable[..., Any]:
    """A method that is looked up when it is called, so that a missing one is the plugin's error."""
    return lambda *arguments: getattr(plugin, method)(*arguments)


def _storable(plugin: str, method: str, status: Status) -> Status:
    """A status whose reasons can be stored. Raises PluginError for reasons that are not texts."""
    if not all(map(_is_text, status.reasons)):
        raise PluginError(plugin, method, f"returned {status!r}; reasons must be texts")
    if any("\0" in reason for reason in status.reasons):
        return Status(status.code, tuple(map(without_nul, status.reasons)))
    return status


def _is_text(reason: object) -> bool:
    """Whether a reason can be stored."""
    return isinstance(reason, str) and is_unicode(reason)


_ANSWERS: dict[str, tuple[type, ...]] = {
    "pre_enqueue": (Status,),
    "pre_filter": (Status, PreFilterResult),
    "post_filter": (Status, PostFilterResult),
    "pre_score": (Status,),
    "reserve": (Status,),
    "permit": (Status, Wait),
    "pre_bind": (Status, Preparation),
    "prepared": (Status, Awaiting),
    "bind": (Status,),
}
"""The types of answers besides None; plugin_columns.py checks columns."""
