"""From the chosen node to the intent to bind: Reserve, Permit, PreBind, Bind, and the way back."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import Pod, canonical
from eventsched.domain.records.verdicts import Code
from eventsched.scheduling.framework import (
    Awaiting,
    Cycle,
    PluginError,
    Preparation,
    Status,
    Wait,
)
from eventsched.scheduling.framework.profile import Profile, guarded

LATE = "what the bind waits for took too long"
"""Said of a preparation that is overdue, where its plugin has no words of its own."""


class Placement(NamedTuple):
    """How it ended: ``refusal`` None means that it may go on, or, with ``waits`` (plugin →
    seconds), that the pod waits at Permit, with ``preparations`` (by plugin), for what PreBind
    needs. Where there is a refusal, Unreserve has run."""

    refusal: tuple[str, Status] | None = None
    waits: tuple[tuple[str, float], ...] = ()
    preparations: tuple[tuple[str, Preparation], ...] = ()


def reserve(profile: Profile, pod: Pod, node: str, cycle: Cycle) -> Placement:
    """Reserve in order, then Permit in order (upstream: framework/runtime RunReservePluginsReserve,
    RunPermitPlugins). A refusal has already been unreserved."""
    for plugin in profile.points["reserve"]:
        refusal = _ask(plugin, "reserve", cycle, pod, node)
        if refusal is not None:
            return _back(profile, pod, node, cycle, refusal)
    waits: list[tuple[str, float]] = []
    for plugin in profile.points["permit"]:
        cycle.plugin = plugin.name
        try:
            answer = guarded(plugin, "permit", cycle, pod, node)
        except PluginError as broken:
            return _back(profile, pod, node, cycle, _broken(broken))
        if isinstance(answer, Wait):
            waits.append((plugin.name, answer.seconds))
        elif isinstance(answer, Status) and answer.code is not Code.SUCCESS:
            return _back(profile, pod, node, cycle, (plugin.name, answer))
    unstorable = _not_json(cycle.data, "cycle.data") if cycle.data else None
    if unstorable is not None:
        return _back(profile, pod, node, cycle, unstorable)
    return Placement(waits=tuple(waits))


def prepare(profile: Profile, pod: Pod, node: str, cycle: Cycle) -> Placement:
    """PreBind in order (upstream: RunPreBindPlugins). A refusal has already been unreserved."""
    preparations: list[tuple[str, Preparation]] = []
    for plugin in profile.points["preBind"]:
        cycle.plugin = plugin.name
        try:
            answer = guarded(plugin, "pre_bind", cycle, pod, node)
        except PluginError as broken:
            return _back(profile, pod, node, cycle, _broken(broken))
        if isinstance(answer, Preparation):
            preparations.append((plugin.name, answer))
        elif isinstance(answer, Status) and answer.code is not Code.SUCCESS:
            return _back(profile, pod, node, cycle, (plugin.name, answer))
    unstorable = _not_json([each.writes for _, each in preparations], "a Preparation")
    if unstorable is not None:
        return _back(profile, pod, node, cycle, unstorable)
    return Placement(preparations=tuple(preparations))


def prepared(
    plugin: Any, pod: Pod, node: str, nodes: NodeView, cycle: Cycle
) -> Awaiting | tuple[str, Status] | None:
    """What a plugin says of what it asked for at PreBind: nothing against the bind, that it has to
    be asked again, or a refusal; this one has not been unreserved."""
    if not hasattr(plugin, "prepared"):
        return None
    cycle.plugin = plugin.name
    try:
        answer = guarded(plugin, "prepared", cycle, pod, node, nodes)
    except PluginError as broken:
        return _broken(broken)
    if isinstance(answer, Status):
        return None if answer.code is Code.SUCCESS else (plugin.name, answer)
    assert answer is None or isinstance(answer, Awaiting)
    return answer


def overdue(plugin: Any) -> Status:
    """A plugin's words for a preparation that took too long."""
    return Status.error(str(getattr(plugin, "overdue", LATE)))


def bind(profile: Profile, pod: Pod, node: str, cycle: Cycle) -> Placement:
    """Bind until one plugin takes it (upstream: RunBindPlugins). A refusal has already been
    unreserved."""
    for plugin in profile.points["bind"]:
        cycle.plugin = plugin.name
        try:
            answer = guarded(plugin, "bind", cycle, pod, node)
        except PluginError as broken:
            return _back(profile, pod, node, cycle, _broken(broken))
        if answer is None or answer.code is Code.SUCCESS:
            return Placement()
        if answer.code is not Code.SKIP:
            return _back(profile, pod, node, cycle, (plugin.name, answer))
    names = ", ".join(plugin.name for plugin in profile.points["bind"])
    refusal = (names, Status.error(f"no bind plugin took the pod: all of {names} skipped it"))
    return _back(profile, pod, node, cycle, refusal)


def unreserve(profile: Profile, pod: Pod, node: str, cycle: Cycle) -> tuple[str, ...]:
    """Unreserve of all Reserve plugins, in reverse order. One that raises does not stop the others
    (upstream asks that Unreserve never fails); returns what such plugins raised."""
    reserved = [each for each in profile.points["reserve"] if hasattr(each, "unreserve")]
    return _all(reversed(reserved), "unreserve", pod, node, cycle)


def post_bind(profile: Profile, pod: Pod, node: str, cycle: Cycle) -> tuple[str, ...]:
    """PostBind in order. The pod is bound: a plugin that raises cannot change that; returns what
    such plugins raised."""
    return _all(profile.points["postBind"], "post_bind", pod, node, cycle)


def _all(plugins: Iterable[Any], method: str, pod: Pod, node: str, cycle: Cycle) -> tuple[str, ...]:
    problems = []
    for plugin in plugins:
        cycle.plugin = plugin.name
        try:
            guarded(plugin, method, cycle, pod, node)
        except PluginError as broken:
            problems.append(str(broken))
    return tuple(problems)


def _not_json(values: Any, what: str) -> tuple[str, Status] | None:
    """A refusal where what the plugins left cannot be stored with the decision."""
    try:
        canonical(values)
    except (TypeError, ValueError, OverflowError) as problem:
        return "", Status.error(f"{what} cannot be stored as JSON: {problem}")
    return None


def _ask(plugin: Any, method: str, cycle: Cycle, pod: Pod, node: str) -> tuple[str, Status] | None:
    if not hasattr(plugin, method):
        return None
    cycle.plugin = plugin.name
    try:
        answer = guarded(plugin, method, cycle, pod, node)
    except PluginError as broken:
        return _broken(broken)
    if isinstance(answer, Status) and answer.code is not Code.SUCCESS:
        return plugin.name, answer
    return None


def _broken(problem: PluginError) -> tuple[str, Status]:
    return problem.plugin, Status.error(str(problem))


def _back(
    profile: Profile, pod: Pod, node: str, cycle: Cycle, refusal: tuple[str, Status]
) -> Placement:
    name, status = refusal
    problems = unreserve(profile, pod, node, cycle)
    return Placement(refusal=(name, Status(status.code, status.reasons + problems)))
