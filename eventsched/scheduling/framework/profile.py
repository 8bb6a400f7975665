"""A profile with its plugins instantiated, and the calls into them."""

from collections.abc import Callable, Container, Hashable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import Pod
from eventsched.domain.records.verdicts import Code, Normalization, ScoreColumn, Verdict
from eventsched.scheduling.framework.cycle_context import Cycle
from eventsched.scheduling.framework.extension_points import QueueSortPlugin
from eventsched.scheduling.framework.per_node_plugins import adapted
from eventsched.scheduling.framework.plugin import POINTS, DependsOn, IntColumn, PluginError, Status
from eventsched.scheduling.framework.plugin_calls import PluginCalls
from eventsched.scheduling.framework.plugin_columns import (
    NORMALIZED,
    checked_codes,
    checked_scores,
    score_range,
)

FIRST_SCORE_POSITION = 16_384
"""The first position of Score plugins; those before are for filters and extenders."""


class Filter:
    """A plugin's Filter, with its place in the order."""

    def __init__(self, position: int, plugin: PluginCalls) -> None:
        self.position = position
        self.plugin = plugin
        self.name = plugin.name
        self._filter = plugin.filter
        self.dynamic = DependsOn.USAGE in plugin.traits.depends_on
        self.reads_images = DependsOn.IMAGES in plugin.traits.depends_on
        self.reads_samples = DependsOn.SAMPLES in plugin.traits.depends_on

    def __call__(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn | None:
        """int64[n] codes, 0 = passes; None if all pass. Raises PluginError."""
        cycle.plugin = self.name
        codes = self._filter(cycle, pod, nodes)
        return None if codes is None else checked_codes(self.name, codes, len(nodes))

    def verdict(self, cycle: Cycle, pod: Pod, code: int) -> Verdict:
        """What a code means. Raises PluginError if the plugin's explanation is not a refusal."""
        explain = self.plugin.explain
        if explain is None:
            status = Status.unschedulable(f"node(s) were refused by {self.name}")
        else:
            status = explain(cycle, pod, code)
        if not isinstance(status, Status) or not status.rejected:
            if isinstance(status, Status) and status.code is Code.ERROR:
                raise PluginError(self.name, "filter", ", ".join(status.reasons))
            raise PluginError(self.name, "explain", f"returned {status!r} for code {code}")
        return Verdict(plugin=self.name, code=status.code, reasons=status.reasons)


class Score:
    """A plugin's Score, with its weight and its normalization. ``position`` is its place in the
    order, after all filters and extenders."""

    def __init__(self, position: int, plugin: PluginCalls, weight: int) -> None:
        self.position = position
        self.plugin = plugin
        self.name = plugin.name
        self.weight = weight
        self._score = plugin.score
        self.dynamic = DependsOn.USAGE in plugin.traits.depends_on
        self.reads_images = DependsOn.IMAGES in plugin.traits.depends_on
        self.reads_samples = DependsOn.SAMPLES in plugin.traits.depends_on
        self.normalization = Normalization(
            Normalization.OWN if plugin.normalize_score is not None else plugin.traits.normalization
        )
        self._range = score_range(self.normalization)

    def __call__(
        self, cycle: Cycle, pod: Pod, nodes: NodeView
    ) -> tuple[IntColumn, NDArray[np.bool_] | None]:
        """int64[n] raw scores, with 0 for those out of range, and bool[n] of these or None without
        any. Raises PluginError."""
        cycle.plugin = self.name
        scores = self._score(cycle, pod, nodes)
        return checked_scores(self.name, scores, len(nodes), self._range, strict=cycle.is_strict)

    @property
    def refusal(self) -> int:
        """The key of a node whose score is out of range."""
        return self.position * 65_536 + 1

    @property
    def verdict(self) -> Verdict:
        """What that key means. Upstream fails the attempt, so that one bad node rules out all
        nodes."""
        reason = f"node(s) got a score out of range from {self.name}"
        return Verdict(plugin=self.name, code=Code.UNRESOLVABLE, reasons=(reason,))

    @property
    def width(self) -> type[np.integer[Any]]:
        """The dtype in which its raw scores are stored and hashed."""
        return np.uint8 if self.normalization is Normalization.IDENTITY else np.int64

    def column(self, parameters: tuple[int, ...]) -> ScoreColumn:
        """Its description in a decision."""
        return ScoreColumn(
            plugin=self.name,
            weight=self.weight,
            normalization=self.normalization,
            parameters=parameters,
        )

    def normalize(
        self, cycle: Cycle, pod: Pod, scores: IntColumn
    ) -> tuple[IntColumn, NDArray[np.bool_] | None]:
        """int64[n] of 0..100 from the raw scores of feasible nodes, by the plugin's own code, and
        bool[n] of the values out of range or None, as for the call."""
        cycle.plugin = self.name
        assert self.plugin.normalize_score is not None, "only for plugins that have it"
        normalized = self.plugin.normalize_score(cycle, pod, scores)
        return checked_scores(
            self.name, normalized, len(scores), NORMALIZED, strict=cycle.is_strict
        )


_Profile = TypeVar("_Profile")
"""A profile, or what stands for one."""


def profile_for(
    profiles: Mapping[str, _Profile], shadows: Container[str], scheduler_name: str
) -> _Profile | None:
    """The profile for a schedulerName. A shadow decides with the first profile for a scheduler that
    it follows, one of ``shadows``, unless a profile has the scheduler's name. None if there is
    none."""
    profile = profiles.get(scheduler_name)
    if not shadows:
        return profile
    if scheduler_name not in shadows:
        return None
    return next(iter(profiles.values())) if profile is None else profile


class Profile:
    """A schedulerName and its plugins at each extension point, in order."""

    def __init__(
        self,
        name: str,
        points: Mapping[str, list[Any]],
        weights: Mapping[str, int],
        percentage: int = 0,
    ) -> None:
        """``points`` maps upstream's point names to plugin instances, ``weights`` names to score
        weights; a plugin at several points is one instance. ``percentage`` is its
        percentageOfNodesToScore: 1 to 100, or 0 for all nodes."""
        self.name = name
        self.percentage = percentage
        wrapped: dict[int, Any] = {}
        for plugins in points.values():
            for plugin in plugins:
                wrapped.setdefault(id(plugin), adapted(plugin))
        self.points: dict[str, list[Any]] = {
            point: [wrapped[id(plugin)] for plugin in points.get(point, [])] for point in POINTS
        }
        self._calls = {id(plugin): PluginCalls(plugin) for plugin in wrapped.values()}
        self._by_name = {plugin.name: self._calls[id(plugin)] for plugin in self.plugins}
        self.pre_enqueue = self._at("preEnqueue")
        self.pre_filter = self._at("preFilter")
        self.filters = [Filter(i, plugin) for i, plugin in enumerate(self._at("filter"))]
        self.post_filter = self._at("postFilter")
        self.pre_score = self._at("preScore")
        self.scores = [
            Score(FIRST_SCORE_POSITION + i, plugin, weights.get(plugin.name, 1))
            for i, plugin in enumerate(self._at("score"))
        ]
        self.reserve = self._at("reserve")
        self.permit = self._at("permit")
        self.pre_bind = self._at("preBind")
        self.bind = self._at("bind")
        self.post_bind = self._at("postBind")
        queue_sort: QueueSortPlugin = self.points["queueSort"][0]
        self.sort_key = queue_sort.sort_key
        self._signs: dict[Any, list[str]] = {}
        for plugin in self._of("preFilter", "filter", "preScore", "score"):
            self._signs.setdefault(self._calls[id(plugin)].sign, []).append(plugin.name)

    def plugin(self, name: str) -> Any:
        """The plugin of a name. Raises KeyError if there is none."""
        return self._by_name[name].plugin

    def calls(self, name: str) -> PluginCalls:
        """The calls of the plugin of a name. Raises KeyError if there is none."""
        return self._by_name[name]

    @property
    def by_name(self) -> Mapping[str, PluginCalls]:
        """All plugins by name."""
        return self._by_name

    def _at(self, point: str) -> list[PluginCalls]:
        return [self._calls[id(plugin)] for plugin in self.points[point]]

    def _of(self, *points: str) -> list[Any]:
        by_name = {plugin.name: plugin for point in points for plugin in self.points[point]}
        return list(by_name.values())

    def signatures(self, pod: Pod) -> tuple[Hashable, ...]:
        """The pod's signature by each distinct ``sign`` of the cycle's plugins; None if a plugin
        has none or it fails."""
        signed: list[Hashable] = []
        for sign in self._signs:  # without a call of ``_signed``: each attempt asks for eight
            try:
                signature = None if sign is None else sign(pod)
                hash(signature)
            except Exception:  # noqa: BLE001 - as in ``_signed``
                signature = None
            signed.append(signature)
        return tuple(signed)

    def hint_key(self, name: str, pod: Pod) -> Hashable:
        """What a plugin's hint may read of a pod: pods with equal keys wake together."""
        plugin = self._by_name.get(name)
        if plugin is None or plugin.hint is None:
            return None
        signature = None if plugin.hint_sign is None else _signed(plugin.hint_sign, pod)
        return pod.uid if signature is None else signature

    def unsigned(self, signatures: tuple[Hashable, ...]) -> frozenset[str]:
        """The plugins that must be called for every pod, because they have not signed it."""
        names = zip(self._signs.values(), signatures, strict=True)
        return frozenset(name for group, signed in names if signed is None for name in group)

    @property
    def plugins(self) -> list[Any]:
        """The distinct plugins."""
        return self._of(*POINTS)


def _signed(sign: Callable[[Pod], Hashable], pod: Pod) -> Hashable:
    """The signature; None, as without ``sign``, if it raises or its answer cannot be hashed."""
    try:
        signature = sign(pod)
        hash(signature)
    except Exception:  # noqa: BLE001 - third-party code; unsigned pods are only slower
        return None
    return signature
