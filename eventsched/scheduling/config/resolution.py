"""Which plugins a profile runs at each extension point: defaults merged, multiPoint expanded.

The rules are upstream's v1.36: pkg/scheduler/apis/config/v1/default_plugins.go mergePlugins and
pkg/scheduler/framework/runtime/framework.go NewFramework (updatePluginList,
expandMultiPointPlugins, getValidScoreWeights). In-tree plugins of upstream count even if they do
not exist here (catalogue.py); ``running`` has those that run here.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from eventsched.domain.errors import InputError
from eventsched.domain.records.verdicts import MAX_NODE_SCORE
from eventsched.scheduling.config.arguments import typed_arguments
from eventsched.scheduling.config.catalogue import DEFAULT_PLUGINS, UPSTREAM_POINTS
from eventsched.scheduling.config.decoding import Report, refuse
from eventsched.scheduling.config.sections import Configuration, PluginSet, ProfileConfig
from eventsched.scheduling.framework import POINTS, points_of

MAX_TOTAL_SCORE = 2**63 - 1


@dataclass(frozen=True)
class ResolvedProfile:
    """A profile with its plugins in order.

    - ``points``: extension point → names of its plugins in order; ``weights``: of the score
      plugins.
    - ``running``: the same as ``points`` for plugins that the registry has.
    - ``args``: the arguments as written, by plugin, whether it runs or not; ``typed``: those of
      each enabled plugin as its own Args, None if it takes none.
    - ``missing``: default plugins that the registry does not have; ``unavailable``: other such
      plugins that the profile enables by name.
    - ``percentage``: the percentage of nodes to search, 0 for all.
    """

    name: str
    points: dict[str, tuple[str, ...]]
    weights: dict[str, int]
    running: dict[str, tuple[str, ...]]
    args: dict[str, Any]
    typed: dict[str, object | None]
    missing: tuple[str, ...] = ()
    unavailable: tuple[InputError, ...] = ()
    percentage: int = 0


class _Enabled(NamedTuple):
    """An entry of an enabled list; ``where`` is its place in the file, "" for a default."""

    name: str
    weight: int | None
    where: str


def resolve_all(
    configuration: Configuration,
    registry: Mapping[str, type],
    source: str,
    report: Report = refuse,
) -> list[ResolvedProfile]:
    """All profiles, in order. Raises InputError as ``resolve`` does, and if their queueSort differs
    (upstream: pkg/scheduler/profile cfgValidator)."""
    share = configuration.percentage_of_nodes_to_score
    resolved = [
        resolve(profile, registry, source, i, share, report)
        for i, profile in enumerate(configuration.profiles)
    ]
    sorts = [(profile.points["queueSort"], profile.args) for profile in resolved]
    first, first_args = sorts[0]
    for i, (names, args) in enumerate(sorts):
        # Any other number than one is reported already.
        if len(names) == len(first) == 1 and (
            names != first or args.get(names[0]) != first_args.get(first[0])
        ):
            report(
                InputError(
                    f"{source}: profiles[{i}].plugins.queueSort",
                    f"queueSort plugin {names[0]} or its arguments differ from profiles[0] "
                    f"({first[0]})",
                    "make them the same in all profiles: they share one queue",
                )
            )
    return resolved


def resolve(
    profile: ProfileConfig,
    registry: Mapping[str, type],
    source: str,
    index: int = 0,
    share: int = 0,
    report: Report = refuse,
) -> ResolvedProfile:
    """The plugins, weights and arguments of a profile.

    ``registry`` holds the plugin classes by name; ``source`` (the file), ``index`` (the profile's
    place in it) are for messages; ``share`` is the percentageOfNodesToScore of a profile that has
    none. Raises InputError for an enabled plugin that does not exist, does not serve the point or
    is registered twice, for weights that overflow, for wrong arguments, and unless there is exactly
    one queueSort and at least one bind plugin. If ``report`` returns, wrong entries are left out. A
    disabled plugin need not exist, as upstream.
    """
    place = f"{source}: profiles[{index}]"
    lists = _Lists(profile, registry, f"{place}.plugins", report)
    points = {point: lists.expanded(point) for point in lists.own}
    whole = {p: n for p, n in points.items() if not lists.incomplete & {p, "multiPoint"}}
    _check_counts(whole, f"{place}.plugins", report)
    weights = lists.weights("score")
    lists.weights("placementScore")
    own = profile.percentage_of_nodes_to_score
    return ResolvedProfile(
        name=profile.scheduler_name,
        points={point: points[point] for point in POINTS},
        weights={name: weights[name] for name in points["score"]},
        running=_running(points, registry),
        args={
            plugin.name: plugin.args for plugin in profile.plugin_config if plugin.args is not None
        },
        typed=typed_arguments(
            profile.plugin_config, registry, lists.enabled, f"{place}.pluginConfig", report
        ),
        missing=tuple(
            plugin.name
            for plugin in lists.multi
            if not plugin.where and plugin.name not in registry
        ),
        unavailable=tuple(lists.unavailable()),
        percentage=share if own is None else own,
    )


def _running(
    points: Mapping[str, Sequence[str]], registry: Mapping[str, type]
) -> dict[str, tuple[str, ...]]:
    """Point → the plugins of it that run: known, and with a method for it."""
    named = {name for names in points.values() for name in names if name in registry}
    served = {name: points_of(registry[name]) for name in named}
    return {
        point: tuple(name for name in points[point] if point in served.get(name, ()))
        for point in POINTS
    }


def points_served(name: str, registry: Mapping[str, type]) -> Sequence[str]:
    """The points of a plugin; for an in-tree plugin of upstream those that upstream has."""
    return UPSTREAM_POINTS.get(name) or (points_of(registry[name]) if name in registry else ())


class _Lists:
    """A profile's lists of enabled plugins, checked: ``multi`` is that of multiPoint with the
    defaults, ``own`` has those of each point; ``incomplete`` are the points where an entry was
    reported and left out."""

    def __init__(
        self, profile: ProfileConfig, registry: Mapping[str, type], where: str, report: Report
    ) -> None:
        self._registry = registry
        self._where = where
        self._report = report
        self.incomplete: set[str] = set()
        merged = _merged(profile.plugins.multi_point, f"{where}.multiPoint")
        self.multi = [plugin for plugin in merged if self._known(plugin, "multiPoint")]
        self._disabled: dict[str, set[str]] = {}
        self.own: dict[str, list[_Enabled]] = {}
        for point, plugins in profile.plugins.by_point().items():
            self._disabled[point] = {plugin.name for plugin in plugins.disabled}
            self.own[point] = self._checked(_entries(plugins, f"{where}.{point}"), point)

    @property
    def enabled(self) -> dict[str, None]:
        """The distinct names of all enabled plugins."""
        return dict.fromkeys(plugin.name for plugin in self._entries())

    def unavailable(self) -> list[InputError]:
        """Errors for plugins that the file enables and upstream has, but the registry does not."""
        return [
            InputError(
                f"{plugin.where}.name",
                f"plugin {plugin.name} is not available in this version",
                "remove it from the enabled plugins",
            )
            for plugin in self._entries()
            if plugin.where and plugin.name not in self._registry
        ]

    def _entries(self) -> list[_Enabled]:
        return [*self.multi, *(plugin for own in self.own.values() for plugin in own)]

    def expanded(self, point: str) -> tuple[str, ...]:
        """The plugins of a point: first those that override their multiPoint entry, then the rest
        of multiPoint, then the rest of the point's own (upstream: expandMultiPointPlugins)."""
        own = [plugin.name for plugin in self.own[point]]
        disabled = self._disabled[point]
        if "*" in disabled:
            return tuple(own)
        overriding: set[str] = set()
        spread: list[str] = []
        for plugin in self.multi:
            name = plugin.name
            if name in disabled or point not in self._points(name):
                continue
            if name in own:
                overriding.add(name)
            elif name in spread:
                self._report(_twice(plugin, point))
            else:
                spread.append(name)
        first = [name for name in own if name in overriding]
        return (*first, *spread, *(name for name in own if name not in overriding))

    def weights(self, point: str) -> dict[str, int]:
        """Weights by name, also of plugins that are disabled at the point. The first entry counts,
        so the point's own goes before multiPoint's (upstream: getValidScoreWeights). Upstream
        refuses a weight below zero only as an overflow: if it makes the sum so far negative and
        another weight follows."""
        weights: dict[str, int] = {}
        total = 0
        below: _Enabled | None = None
        for plugin in [*self.own[point], *self.multi]:
            if plugin.name in weights or point not in self._points(plugin.name):
                continue
            if below is not None and total < 0:
                self._report(
                    InputError(
                        f"{below.where}.weight",
                        f"weight {below.weight} is below zero",
                        f"use 1 or more, or disable the plugin at {point}",
                    )
                )
                total, below = 0, None
            weight = weights[plugin.name] = plugin.weight or 1
            total += weight
            if weight < 0:
                below = plugin
        if total * MAX_NODE_SCORE > MAX_TOTAL_SCORE:
            where = f"{self._where}.{point}"
            self._report(InputError(where, "the total score could overflow", "use smaller weights"))
        return weights

    def _points(self, name: str) -> Sequence[str]:
        return points_served(name, self._registry)

    def _known(self, plugin: _Enabled, point: str) -> bool:
        if plugin.name in self._registry or plugin.name in UPSTREAM_POINTS:
            return True
        self.incomplete.add(point)
        if not plugin.name:
            self._report(InputError(plugin.where, "the entry has no name", "name a plugin"))
            return False
        self._report(
            InputError(
                f"{plugin.where}.name",
                f"unknown plugin {plugin.name!r}",
                _near(plugin.name, self._registry)
                or "plugins are found through the entry point group eventsched.plugins or "
                "--plugin FILE",
            )
        )
        return False

    def _checked(self, entries: Sequence[_Enabled], point: str) -> list[_Enabled]:
        good: dict[str, _Enabled] = {}
        for plugin in entries:
            if not self._known(plugin, point):
                continue
            served = self._points(plugin.name)
            if point not in served:
                self.incomplete.add(point)
                self._report(
                    InputError(
                        f"{plugin.where}.name",
                        f"plugin {plugin.name} does not serve {point}",
                        f"enable it at {', '.join(served) or 'no point'}",
                    )
                )
            elif plugin.name in good:
                self._report(_twice(plugin, point))
            else:
                good[plugin.name] = plugin
        return list(good.values())


def misspelt(profiles: Sequence[ProfileConfig], registry: Mapping[str, type]) -> list[str]:
    """Warnings about disabled plugins that do not exist. Upstream accepts them silently, and the
    plugin that was meant stays enabled."""
    warnings = []
    for i, profile in enumerate(profiles):
        sets = {"multiPoint": profile.plugins.multi_point, **profile.plugins.by_point()}
        for point, plugins in sets.items():
            for j, plugin in enumerate(plugins.disabled):
                if plugin.name in registry or plugin.name in UPSTREAM_POINTS or plugin.name == "*":
                    continue
                near = _near(plugin.name, registry)
                warnings.append(
                    f"profiles[{i}].plugins.{point}.disabled[{j}].name: there is no "
                    f"plugin {plugin.name!r} to disable" + (f"; {near}" if near else "")
                )
    return warnings


def zero_weights(profiles: Sequence[ProfileConfig], registry: Mapping[str, type]) -> list[str]:
    """Warnings about weights that are written as 0. Upstream takes 0 as not written, which means 1
    (getValidScoreWeights), so the plugin goes on scoring."""
    warnings = []
    for i, profile in enumerate(profiles):
        plugins = profile.plugins
        sets = {"multiPoint": plugins.multi_point, "score": plugins.score}
        for point, chosen in sets.items():
            for j, plugin in enumerate(chosen.enabled):
                if plugin.weight == 0 and "score" in points_served(plugin.name, registry):
                    warnings.append(
                        f"profiles[{i}].plugins.{point}.enabled[{j}].weight: 0 means the default "
                        f"weight, 1, and {plugin.name} still scores; to leave it out, write "
                        f"score: {{disabled: [{{name: {plugin.name}}}]}}"
                    )
    return warnings


def _near(name: str, registry: Mapping[str, type]) -> str:
    """A hint at similar names; "" if there are none."""
    close = difflib.get_close_matches(name, {*registry, *UPSTREAM_POINTS})
    return f"did you mean {' or '.join(map(repr, close))}?" if close else ""


def _entries(plugins: PluginSet, where: str) -> list[_Enabled]:
    return [
        _Enabled(plugin.name, plugin.weight, f"{where}.enabled[{i}]")
        for i, plugin in enumerate(plugins.enabled)
    ]


def _merged(custom: PluginSet, where: str) -> list[_Enabled]:
    """The default multiPoint list merged with the profile's own. A default that is enabled again
    keeps its place (upstream: mergePluginSet). The other points have no defaults."""
    disabled = {plugin.name for plugin in custom.disabled}
    own = _entries(custom, where)
    again = {plugin.name: plugin for plugin in own}
    merged = [
        again.get(default.name, _Enabled(default.name, default.weight, ""))
        for default in DEFAULT_PLUGINS
        if "*" not in disabled and default.name not in disabled
    ]
    replaced = {plugin.where for plugin in merged}
    # A repeated name stays; ``expanded`` reports it.
    return merged + [plugin for plugin in own if plugin.where not in replaced]


def _twice(plugin: _Enabled, point: str) -> InputError:
    return InputError(
        f"{plugin.where}.name",
        f"plugin {plugin.name} is registered twice at {point}",
        "enable it once",
    )


def _check_counts(points: Mapping[str, Sequence[str]], where: str, report: Report) -> None:
    """``points`` are those without left-out entries."""
    if "queueSort" in points and len(points["queueSort"]) != 1:
        enabled = ", ".join(points["queueSort"]) or "none"
        report(
            InputError(
                f"{where}.queueSort",
                f"exactly one queueSort plugin is needed, found {enabled}",
                "enable one, such as PrioritySort",
            )
        )
    if "bind" in points and not points["bind"]:
        report(
            InputError(
                f"{where}.bind", "no bind plugin is enabled", "enable one, such as DefaultBinder"
            )
        )
    if len(points.get("placementGenerate", ())) > 1:
        report(
            InputError(
                f"{where}.placementGenerate", "more than one plugin is enabled", "enable one"
            )
        )
