"""Which plugins a profile runs at each extension point: defaults merged, multiPoint expanded.

The rules are upstream's v1.36: pkg/scheduler/apis/config/v1/default_plugins.go mergePlugins and
pkg/scheduler/framework/runtime/framework.go NewFramework (updatePluginList,
expandMultiPointPlugins, getValidScoreWeights).
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from eventsched.domain.errors import InputError
from eventsched.domain.verdicts import MAX_NODE_SCORE
from eventsched.scheduling.configuration import API_VERSION, DEPRECATED_VERSIONS
from eventsched.scheduling.decoding import converted
from eventsched.scheduling.framework import POINTS, points_of
from eventsched.scheduling.sections import Configuration, PluginEntry, PluginSet, ProfileConfig

DEFAULT_PLUGINS = (
    PluginEntry("SchedulingGates"),
    PluginEntry("PrioritySort"),
    PluginEntry("NodeUnschedulable"),
    PluginEntry("NodeName"),
    PluginEntry("TaintToleration", 3),
    PluginEntry("NodeAffinity", 2),
    PluginEntry("NodePorts"),
    PluginEntry("NodeResourcesFit", 1),
    PluginEntry("VolumeRestrictions"),
    PluginEntry("NodeVolumeLimits"),
    PluginEntry("VolumeBinding"),
    PluginEntry("VolumeZone"),
    PluginEntry("PodTopologySpread", 2),
    PluginEntry("InterPodAffinity", 2),
    PluginEntry("DynamicResources", 2),
    PluginEntry("DefaultPreemption"),
    PluginEntry("NodeResourcesBalancedAllocation", 1),
    PluginEntry("ImageLocality", 1),
    PluginEntry("DefaultBinder"),
    PluginEntry("NodeDeclaredFeatures"),
)
"""What multiPoint enables where a profile says nothing (upstream: default_plugins.go
getDefaultPlugins under the feature gates' defaults)."""

UPSTREAM_PLUGINS = frozenset(plugin.name for plugin in DEFAULT_PLUGINS) | {
    "GangScheduling",
    "TopologyPlacementGenerator",
    "PodGroupPodsCount",
}
"""All in-tree plugins (upstream: plugins/registry.go), whether they exist here or not."""

MAX_TOTAL_SCORE = 2**63 - 1


@dataclass(frozen=True)
class ResolvedProfile:
    """What a profile amounts to.

    ``points`` has every extension point, with the names of its plugins in order; ``weights`` those
    of its score plugins. ``args`` are the arguments as written, by plugin, whether it runs or not;
    ``typed`` those of each plugin that runs, as its own Args (None where it takes none).
    ``missing`` are the default plugins that this version does not have yet.
    """

    name: str
    points: dict[str, tuple[str, ...]]
    weights: dict[str, int]
    args: dict[str, dict[str, Any]]
    typed: dict[str, object | None]
    missing: tuple[str, ...] = ()


class _Enabled(NamedTuple):
    """An entry of an enabled list; ``where`` is its place in the file, empty for a default."""

    name: str
    weight: int | None
    where: str


def resolve_all(
    configuration: Configuration, registry: Mapping[str, type], source: str
) -> list[ResolvedProfile]:
    """All profiles, in order. Raises InputError as ``resolve`` does, and where their queueSort
    differs (upstream: pkg/scheduler/profile cfgValidator)."""
    resolved = [
        resolve(profile, registry, source, i) for i, profile in enumerate(configuration.profiles)
    ]
    sorts = [(profile.points["queueSort"][0], profile) for profile in resolved]
    for i, (name, profile) in enumerate(sorts):
        first, other = sorts[0]
        if (name, profile.args.get(name)) != (first, other.args.get(first)):
            raise InputError(
                f"{source}: profiles[{i}].plugins.queueSort",
                f"queueSort plugin {name} or its arguments differ from profiles[0] ({first})",
                "make them the same in all profiles: they share one queue",
            )
    return resolved


def resolve(
    profile: ProfileConfig, registry: Mapping[str, type], source: str, index: int = 0
) -> ResolvedProfile:
    """The plugins, weights and arguments of a profile.

    ``registry`` holds the plugin classes by name; ``source`` (the file) and ``index`` (the
    profile's place in it) are for messages. Defaults that are not in the registry are left out.
    Raises InputError for an enabled plugin that does not exist, does not serve the point or is
    registered twice, for a weight below zero, for wrong arguments, and unless there is exactly one
    queueSort and at least one bind plugin. Disabling what does not exist is fine, as upstream.
    """
    place = f"{source}: profiles[{index}]"
    where = f"{place}.plugins"
    merged = _merged(profile.plugins.multi_point, f"{where}.multiPoint")
    missing = tuple(p.name for p in merged if not p.where and p.name not in registry)
    multi = [plugin for plugin in merged if plugin.where or plugin.name in registry]
    for plugin in multi:
        _require_known(plugin, registry)
    points: dict[str, tuple[str, ...]] = {}
    for point, plugins in profile.plugins.by_point().items():
        explicit = _entries(plugins, f"{where}.{point}")
        _check_explicit(explicit, point, registry)
        if point in POINTS:
            disabled = {plugin.name for plugin in plugins.disabled}
            points[point] = _expanded(point, explicit, disabled, multi, registry)
    _check_counts(points, where)
    explicit = _entries(profile.plugins.score, f"{where}.score")
    weights = _weights([*explicit, *multi], where, registry)
    running = [name for name in registry if any(name in names for names in points.values())]
    return ResolvedProfile(
        name=profile.scheduler_name,
        points={point: points[point] for point in POINTS},
        weights={name: weights[name] for name in points["score"]},
        args={config.name: config.args or {} for config in profile.plugin_config},
        typed=_typed(profile, registry, running, f"{place}.pluginConfig"),
        missing=missing,
    )


def _entries(plugins: PluginSet, where: str) -> list[_Enabled]:
    return [
        _Enabled(plugin.name, plugin.weight, f"{where}.enabled[{i}]")
        for i, plugin in enumerate(plugins.enabled)
    ]


def _merged(custom: PluginSet, where: str) -> list[_Enabled]:
    """The default multiPoint list with the profile's own: a default that is enabled again keeps
    its place (upstream: mergePluginSet). The other points have no defaults to merge with."""
    disabled = {plugin.name for plugin in custom.disabled}
    own = _entries(custom, where)
    again = {plugin.name: plugin for plugin in own}
    merged = [
        again.get(default.name, _Enabled(default.name, default.weight, ""))
        for default in DEFAULT_PLUGINS
        if "*" not in disabled and default.name not in disabled
    ]
    replaced = {plugin.where for plugin in merged}
    # A name that is there twice stays twice, and is refused where it is registered.
    return merged + [plugin for plugin in own if plugin.where not in replaced]


def _require_known(plugin: _Enabled, registry: Mapping[str, type]) -> None:
    if plugin.name in registry:
        return
    where = f"{plugin.where}.name"
    if plugin.name in UPSTREAM_PLUGINS:
        raise InputError(
            where,
            f"plugin {plugin.name} is not available in this version",
            "remove it from the enabled plugins",
        )
    close = difflib.get_close_matches(plugin.name, registry)
    raise InputError(
        where,
        f"unknown plugin {plugin.name!r}",
        f"did you mean {' or '.join(map(repr, close))}?"
        if close
        else "plugins are found through the entry point group eventsched.plugins or --plugin FILE",
    )


def _check_explicit(explicit: Sequence[_Enabled], point: str, registry: Mapping[str, type]) -> None:
    seen: set[str] = set()
    for plugin in explicit:
        _require_known(plugin, registry)
        if point not in points_of(registry[plugin.name]):
            served = points_of(registry[plugin.name])
            raise InputError(
                f"{plugin.where}.name",
                f"plugin {plugin.name} does not serve {point}",
                f"enable it at {', '.join(served) or 'no point'}",
            )
        if plugin.name in seen:
            raise _twice(plugin, point)
        seen.add(plugin.name)


def _twice(plugin: _Enabled, point: str) -> InputError:
    return InputError(
        f"{plugin.where}.name",
        f"plugin {plugin.name} is registered twice at {point}",
        "enable it once",
    )


def _expanded(
    point: str,
    explicit: Sequence[_Enabled],
    disabled: set[str],
    multi: Sequence[_Enabled],
    registry: Mapping[str, type],
) -> tuple[str, ...]:
    """The plugins of a point: first those that override their multiPoint entry, then the rest of
    multiPoint, then the rest of the point's own (upstream: expandMultiPointPlugins)."""
    own = [plugin.name for plugin in explicit]
    if "*" in disabled:
        return tuple(own)
    overriding: set[str] = set()
    spread: list[str] = []
    for plugin in multi:
        name = plugin.name
        if name in disabled or point not in points_of(registry[name]):
            continue
        if name in own:
            overriding.add(name)
        elif name in spread:
            raise _twice(plugin, point)
        else:
            spread.append(name)
    first = [name for name in own if name in overriding]
    return (*first, *spread, *(name for name in own if name not in overriding))


def _check_counts(points: Mapping[str, Sequence[str]], where: str) -> None:
    if len(points["queueSort"]) != 1:
        found = ", ".join(points["queueSort"]) or "none"
        raise InputError(
            f"{where}.queueSort",
            f"exactly one queueSort plugin is needed, found {found}",
            "enable one, such as PrioritySort",
        )
    if not points["bind"]:
        raise InputError(
            f"{where}.bind", "no bind plugin is enabled", "enable one, such as DefaultBinder"
        )


def _weights(
    enabled: Sequence[_Enabled], where: str, registry: Mapping[str, type]
) -> dict[str, int]:
    """Weights by name; the first entry counts, so score's own goes before multiPoint's (upstream:
    getValidScoreWeights, which refuses a weight below zero by an overflow of its sum)."""
    weights: dict[str, int] = {}
    for plugin in enabled:
        if plugin.name in weights or "score" not in points_of(registry[plugin.name]):
            continue
        weight = plugin.weight or 1
        if weight < 0:
            raise InputError(
                f"{plugin.where}.weight",
                f"weight {weight} is below zero",
                "use 1 or more, or disable the plugin at score",
            )
        weights[plugin.name] = weight
    if sum(weights.values()) * MAX_NODE_SCORE > MAX_TOTAL_SCORE:
        raise InputError(f"{where}.score", "the total score could overflow", "use smaller weights")
    return weights


def _typed(
    profile: ProfileConfig, registry: Mapping[str, type], running: Sequence[str], where: str
) -> dict[str, object | None]:
    """Checks the arguments of every plugin that exists, also of one that does not run. Those of
    unknown plugins are let pass, as upstream does for plugins that it does not have."""
    typed: dict[str, object | None] = {}
    for i, config in enumerate(profile.plugin_config):
        if config.name in registry:
            place = f"{where}[{i}].args"
            typed[config.name] = typed_args(registry[config.name], config.args, place)
    for name in running:
        if name not in typed:
            typed[name] = typed_args(registry[name], None, where)
    return {name: typed[name] for name in running}


def typed_args(plugin_class: type, raw: Mapping[str, Any] | None, where: str) -> object | None:
    """A plugin's arguments as its ``Args``, or None for a plugin that has no such struct.

    ``where`` is the place of the arguments. apiVersion and kind may stand among them, as upstream
    writes them. Raises InputError with the path of the field for what does not fit, and where a
    plugin without Args is given any.
    """
    name = getattr(plugin_class, "name", plugin_class.__name__)
    kind = getattr(plugin_class, "Args", None)
    raw = dict(raw or {})
    if kind is None:
        if raw:
            raise InputError(where, f"plugin {name} takes no arguments", "remove them")
        return None
    found = raw.pop("kind", None)
    if found is not None and found != f"{name}Args":
        raise InputError(f"{where}.kind", f"{found!r} is not {name}Args", "remove kind")
    version = raw.pop("apiVersion", None)
    if version is not None and version not in (API_VERSION, *DEPRECATED_VERSIONS):
        raise InputError(f"{where}.apiVersion", f"{version!r} is not supported", "remove it")
    fields = {each.encode_name for each in msgspec.structs.fields(kind)}
    strict = kind.__struct_config__.forbid_unknown_fields
    for unknown in raw.keys() - fields if fields and not strict else ():
        # Also where the plugin's Args would let them pass: a typo would be a default.
        close = difflib.get_close_matches(unknown, fields, n=1)
        remedy = f"did you mean {close[0]}?" if close else f"known are {', '.join(sorted(fields))}"
        raise InputError(f"{where}.{unknown}", f"plugin {name} has no such argument", remedy)
    arguments: object = converted(raw, kind, where)
    return arguments
