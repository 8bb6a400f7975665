"""From the chosen node to the intent to bind: Reserve, Permit, PreBind, Bind, and the way back."""

from typing import Any, NamedTuple

from eventsched.domain.objects import Pod
from eventsched.domain.verdicts import Code
from eventsched.scheduling.framework import Cycle, PluginError, Status, Wait
from eventsched.scheduling.profile import Profile, guarded


class Placement(NamedTuple):
    """How it ended: ``refusal`` None means that the bind may go out, or, with ``waits`` (plugin →
    seconds), that the pod waits at Permit. ``reserved`` says whether Unreserve has to run."""

    refusal: tuple[str, Status] | None = None
    waits: tuple[tuple[str, float], ...] = ()


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
    return Placement(waits=tuple(waits))


def bind(profile: Profile, pod: Pod, node: str, cycle: Cycle) -> Placement:
    """PreBind in order, then Bind until one plugin takes it (upstream: RunPreBindPlugins,
    RunBindPlugins). A refusal has already been unreserved."""
    for plugin in profile.points["preBind"]:
        refusal = _ask(plugin, "pre_bind", cycle, pod, node)
        if refusal is not None:
            return _back(profile, pod, node, cycle, refusal)
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


def unreserve(profile: Profile, pod: Pod, node: str, cycle: Cycle) -> None:
    """Unreserve of all Reserve plugins, in reverse order. One that raises does not stop the others:
    upstream asks that Unreserve never fails."""
    for plugin in reversed(profile.points["reserve"]):
        if hasattr(plugin, "unreserve"):
            cycle.plugin = plugin.name
            try:
                guarded(plugin, "unreserve", cycle, pod, node)
            except PluginError as broken:
                cycle.data[f"unreserve failed: {plugin.name}"] = str(broken)


def post_bind(profile: Profile, pod: Pod, node: str, cycle: Cycle) -> None:
    """PostBind in order. The pod is bound: one that raises cannot change that."""
    for plugin in profile.points["postBind"]:
        cycle.plugin = plugin.name
        try:
            guarded(plugin, "post_bind", cycle, pod, node)
        except PluginError as broken:
            cycle.data[f"post_bind failed: {plugin.name}"] = str(broken)


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
    unreserve(profile, pod, node, cycle)
    return Placement(refusal=refusal)
