"""Engines that run the plugins under test; what they do is returned as lists of records."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from eventsched.domain.behaviours import CURRENT
from eventsched.domain.records import PodDecided, Record, Stimulus, StreamStarted
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.record_codec import FORMAT
from eventsched.plugins import IN_TREE
from eventsched.plugins.default_binder import DefaultBinder
from eventsched.plugins.priority_sort import PrioritySort
from eventsched.runtime.assembly import assemble_loaded
from eventsched.scheduling.config import configuration
from eventsched.scheduling.config.arguments import typed_args
from eventsched.scheduling.config.sections import Configuration
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import POINTS, points_of
from eventsched.scheduling.framework.per_node_plugins import adapted
from eventsched.scheduling.framework.profile import Profile
from eventsched.scheduling.queueing.queue_index import Backoff

PROFILE = "default-scheduler"

STREAM_STARTED = StreamStarted(format=FORMAT, engine="test", seed="test", flags=CURRENT)
"""Begins a stream with all behaviours of this version, such as the bounds of plugins' memory.
Without it an engine decides as version 0.1 did (docs/log-format.md)."""


def typed(plugin: type[Any], **args: Any) -> Any:
    """A plugin with these pluginConfig arguments, checked as in a configuration. Raises InputError
    for wrong arguments."""
    checked = typed_args(plugin, args, f"pluginConfig of {plugin.name}")
    return plugin(checked) if hasattr(plugin, "Args") else plugin()


def engine_with(*plugins: Any, points: Mapping[str, list[Any]] | None = None,
                config: str | None = None, weights: Mapping[str, int] | None = None,
                backoff: Backoff | None = None) -> Engine:  # fmt: skip
    """An engine with the default profile, or with the profiles of ``config`` (YAML). ``plugins``
    are appended to every extension point that they serve; ``points`` replaces whole points."""
    loaded = _loaded(config)
    profiles = dict(assemble_loaded(loaded, "test.yaml", IN_TREE).profiles)
    for name, profile in profiles.items() if plugins or points or weights else ():
        chosen = {**profile.points, **(points or {})}
        for plugin in map(adapted, plugins):
            for point in points_of(plugin):
                chosen[point] = [*chosen[point], plugin]
        score_weights = {s.name: s.weight for s in profile.scores} | dict(weights or {})
        profiles[name] = Profile(name, chosen, score_weights, percentage=profile.percentage)
    backoff = backoff or Backoff(
        loaded.pod_initial_backoff_seconds or 0, loaded.pod_max_backoff_seconds or 0
    )
    return Engine(profiles, backoff)


@lru_cache(maxsize=64)
def _loaded(config: str | None) -> Configuration:
    return configuration.default() if config is None else configuration.load(config, "test.yaml")


def engine_of(*plugins: Any, weights: Mapping[str, int] | None = None,
              backoff: Backoff | None = None) -> Engine:  # fmt: skip
    """An engine with only these plugins, PrioritySort and, if none of them binds, DefaultBinder."""
    made = [PrioritySort(), *map(adapted, plugins)]
    if not any(hasattr(plugin, "bind") for plugin in made):
        made.append(DefaultBinder())
    points = {point: [plugin for plugin in made if point in points_of(plugin)] for point in POINTS}
    return Engine({PROFILE: Profile(PROFILE, points, weights or {})}, backoff)


def records_of(logged: Iterable[LogEntry]) -> list[Record]:
    """The records; decisions without the digest of their vectors."""
    return [
        msgspec.structs.replace(entry.record, digest="")
        if isinstance(entry.record, PodDecided)
        else entry.record
        for entry in logged
    ]


def observed(engine: Engine, *stimuli: Stimulus, at: int = 0) -> list[Any]:
    """Passes stimuli to the engine at one time (µs); returns the resulting records."""
    return [r for stimulus in stimuli for r in records_of(engine.observe(stimulus, at))]


def attempted(engine: Engine) -> list[Any]:
    """Makes one attempt and returns its records."""
    return records_of(engine.schedule_next())
