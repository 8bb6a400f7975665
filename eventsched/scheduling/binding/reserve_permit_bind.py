"""From the chosen node to the intent to bind: Reserve, Permit, PreBind, Bind, and the way back."""

from collections.abc import Callable, Iterable
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
from eventsched.scheduling.framework.plugin_calls import PluginCalls
from eventsched.scheduling.framework.profile import Profile

WAIT_TIMED_OUT = "what the bind waits for took too long"
"""Message for an overdue preparation if its plugin does not set its own."""


class Placement(NamedTuple):
    """The result of running an extension point. With no ``refusal`` the pod continues; it first
    waits at Permit if there are ``waits`` (plugin → seconds), or for PreBind if there are
    ``preparations`` (by plugin). If there is a refusal, Unreserve has run."""

    refusal: tuple[str, Status] | None = None
    waits: tuple[tuple[str, float], ...] = ()
    preparations: tuple[tuple[str, Preparation], ...] = ()


def reserve(profile: Profile, pod: Pod, node: str, cycle: Cycle) -> Placement:
    """Runs Reserve, then Permit, each in order (upstream: framework/runtime
    RunReservePluginsReserve, RunPermitPlugins). On a refusal Unreserve has run."""
    for plugin in profile.reserve:
        refusal = _reserve(plugin, cycle, pod, node)
        if refusal is not None:
            return _back(profile, pod, node, cycle, refusal)
    waits: list[tuple[str, float]] = []
    for plugin in profile.permit:
        cycle.plugin = plugin.name
        try:
            answer = plugin.permit(cycle, pod, node)
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
    """Runs PreBind in order (upstream: RunPreBindPlugins). On a refusal Unreserve has run."""
    preparations: list[tuple[str, Preparation]] = []
    for plugin in profile.pre_bind:
        cycle.plugin = plugin.name
        try:
            answer = plugin.pre_bind(cycle, pod, node)
        except PluginError as broken:
            return _back(profile, pod, node, cycle, _broken(broken))
        if isinstance(answer, Preparation):
            preparations.append((plugin.name, answer))
        elif isinstance(answer, Status) and answer.code is not Code.SUCCESS:
            return _back(profile, pod, node, cycle, (plugin.name, answer))
    if not preparations:
        return Placement()
    unstorable = _not_json([preparation.writes for _, preparation in preparations], "a Preparation")
    if unstorable is not None:
        return _back(profile, pod, node, cycle, unstorable)
    return Placement(preparations=tuple(preparations))


def prepared(
    plugin: PluginCalls, pod: Pod, node: str, nodes: NodeView, cycle: Cycle
) -> Awaiting | tuple[str, Status] | None:
    """Asks a plugin whether what it requested at PreBind is ready: None if the bind may continue,
    Awaiting if the plugin has to be asked again, or a refusal. Does not run Unreserve."""
    if plugin.prepared is None:
        return None
    cycle.plugin = plugin.name
    try:
        answer = plugin.prepared(cycle, pod, node, nodes)
    except PluginError as broken:
        return _broken(broken)
    if isinstance(answer, Status):
        return None if answer.code is Code.SUCCESS else (plugin.name, answer)
    assert answer is None or isinstance(answer, Awaiting)
    return answer


def overdue(plugin: PluginCalls) -> Status:
    """The status of a preparation that took too long, in the plugin's words if it has any."""
    return Status.error(WAIT_TIMED_OUT if plugin.traits.overdue is None else plugin.traits.overdue)


def bind(profile: Profile, pod: Pod, node: str, cycle: Cycle) -> Placement:
    """Calls Bind until one plugin takes the pod (upstream: RunBindPlugins). On a refusal Unreserve
    has run."""
    for plugin in profile.bind:
        cycle.plugin = plugin.name
        try:
            answer = plugin.bind(cycle, pod, node)
        except PluginError as broken:
            return _back(profile, pod, node, cycle, _broken(broken))
        if answer is None or answer.code is Code.SUCCESS:
            return Placement()
        if answer.code is not Code.SKIP:
            return _back(profile, pod, node, cycle, (plugin.name, answer))
    names = ", ".join(plugin.name for plugin in profile.bind)
    refusal = (names, Status.error(f"no bind plugin took the pod: all of {names} skipped it"))
    return _back(profile, pod, node, cycle, refusal)


def unreserve(profile: Profile, pod: Pod, node: str, cycle: Cycle) -> tuple[str, ...]:
    """Runs Unreserve of all Reserve plugins, in reverse order. A plugin that raises does not stop
    the others (upstream requires that Unreserve never fails). Returns the messages of the errors
    raised."""
    calls = [(plugin.name, plugin.unreserve) for plugin in reversed(profile.reserve)]
    return _all(calls, pod, node, cycle)


def post_bind(profile: Profile, pod: Pod, node: str, cycle: Cycle) -> tuple[str, ...]:
    """Runs PostBind in order. The pod is bound, and a plugin that raises cannot change that.
    Returns the messages of the errors raised."""
    calls = [(plugin.name, plugin.post_bind) for plugin in profile.post_bind]
    return _all(calls, pod, node, cycle)


def _all(
    calls: Iterable[tuple[str, Callable[[Cycle, Pod, str], None] | None]],
    pod: Pod, node: str, cycle: Cycle,
) -> tuple[str, ...]:  # fmt: skip
    """Makes the calls, by plugin, those that there are; returns what they raised."""
    problems = []
    for name, call in calls:
        if call is None:
            continue
        cycle.plugin = name
        try:
            call(cycle, pod, node)
        except PluginError as broken:
            problems.append(str(broken))
    return tuple(problems)


def _not_json(values: Any, what: str) -> tuple[str, Status] | None:
    """A refusal if the plugins' data cannot be stored with the decision; None if it can."""
    try:
        canonical(values)
    except (TypeError, ValueError, OverflowError) as problem:
        return "", Status.error(f"{what} cannot be stored as JSON: {problem}")
    return None


def _reserve(plugin: PluginCalls, cycle: Cycle, pod: Pod, node: str) -> tuple[str, Status] | None:
    if plugin.reserve is None:
        return None
    cycle.plugin = plugin.name
    try:
        answer = plugin.reserve(cycle, pod, node)
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
