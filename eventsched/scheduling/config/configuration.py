"""KubeSchedulerConfiguration: text in, validated data out.

The fields, their defaults and the rules are those of kubescheduler.config.k8s.io/v1 as upstream
v1.36 has them (kube-scheduler/config/v1/types.go, pkg/scheduler/apis/config/v1/defaults.go and
validation/validation.go). resolution.py decides which plugins a profile runs. ``parallelism``,
``delayCacheUntilActive`` and the profiling switches tune upstream's process; they are checked and
have no effect here.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from eventsched.domain.errors import InputError
from eventsched.domain.objects import is_extended
from eventsched.domain.units import nanoseconds
from eventsched.scheduling.config.decoding import Report, concerns, refuse, salvaged
from eventsched.scheduling.config.document import mapping
from eventsched.scheduling.config.sections import (
    ELECTION_DURATIONS,
    Configuration,
    Document,
    ExtenderSection,
    LeaderElection,
    PluginConfig,
    PluginEntry,
    PluginSet,
    ProfileConfig,
    Section,
)

KIND = "KubeSchedulerConfiguration"
API_GROUP = "kubescheduler.config.k8s.io"
API_VERSION = f"{API_GROUP}/v1"
LIGHTER_VERSIONS = tuple(f"{API_GROUP}/v1beta{n}" for n in (1, 2))
"""Versions with the default weights of before v1beta3 (upstream: v1beta2/default_plugins.go)."""
DEPRECATED_VERSIONS = tuple(f"{API_GROUP}/v1beta{n}" for n in (1, 2, 3))
DEFAULT_SCHEDULER_NAME = "default-scheduler"

_FLOAT32 = 2.0**128 - 2.0**103
"""Numbers that round to this or more are not 32-bit floats."""

REMOVED_PLUGINS = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
"""In-tree plugins that v1 no longer has (upstream: validation.go invalidPluginsByVersion)."""


def default() -> Configuration:
    """The configuration of an empty document."""
    return load(f"apiVersion: {API_VERSION}\nkind: {KIND}\n", "default configuration")


def load(text: str, source: str, report: Report = refuse) -> Configuration:
    """Reads a configuration, YAML or JSON; ``source`` is the file's name, for messages.

    As strict as upstream's scheme.Codecs: unknown fields, repeated keys and wrong types are
    refused. Raises InputError for the first problem, unless ``report`` returns. Always raises it
    for a syntax error and for another apiVersion or kind, which leave nothing to read.
    """
    collected: list[InputError] = []
    fatal: InputError | None = None
    configuration = Configuration()
    try:
        configuration = _read(text, collected)
    except InputError as error:
        fatal = error
    except RecursionError:
        fatal = InputError("", "nested too deeply", "write it with fewer levels")
    for problem in collected:
        report(_at(source, problem))
    if fatal is not None:
        raise _at(source, fatal)
    return configuration


def _read(text: str, collected: list[InputError]) -> Configuration:
    raw = mapping(text, collected.append)
    warnings = _accepted_version(raw.pop("apiVersion", None), raw.pop("kind", None))
    document = salvaged(_with_profile(raw), Document, "", collected.append) or Document()
    if not document.profiles:  # the profiles could not be read
        profiles = (ProfileConfig(DEFAULT_SCHEDULER_NAME),)
        document = msgspec.structs.replace(document, profiles=profiles)
    configuration = _with_defaults(_with_current_args(document) if warnings else document, warnings)
    cut = [problem.where for problem in collected]
    for problem in problems(configuration):
        is_new = all(problem.where != other.where for other in collected)
        if is_new and not concerns(problem.where, cut):
            collected.append(problem)
    return configuration


def _at(source: str, problem: InputError) -> InputError:
    if not problem.where:
        return InputError(source, problem.problem, problem.remedy)
    return problem.within(source)


def refuse_extenders(configuration: Configuration, source: str) -> None:
    """Raises InputError for a configuration with extenders, for commands that cannot ask them."""
    if configuration.extenders:
        raise InputError(
            f"{source}: extenders",
            f"{configuration.extenders[0].url_prefix or 'an extender'} would have to be asked, and "
            "nothing outside is asked here",
            "leave them out of this file; `eventsched run` asks them, and `eventsched replay` "
            "reads their answers in the log",
        )


def problems(configuration: Configuration) -> Iterator[InputError]:
    """All problems that upstream's ValidateKubeSchedulerConfiguration finds, in its order, without
    those of plugin arguments. ``where`` is the path of the field, without the file."""
    if configuration.client_connection.burst < 0:
        yield _out("clientConnection.burst", configuration.client_connection.burst, "0 or more")
    if not abs(configuration.client_connection.qps) < _FLOAT32:
        yield _out("clientConnection.qps", configuration.client_connection.qps, "a usual number")
    yield from _election_problems(configuration.leader_election)
    if configuration.parallelism <= 0:
        yield _out("parallelism", configuration.parallelism, "1 or more")
    yield from _profile_problems(configuration.profiles)
    if configuration.profiles:
        yield from _queue_sort_problems(configuration.profiles)
    yield from _share_problems(
        "percentageOfNodesToScore", configuration.percentage_of_nodes_to_score
    )
    first, last = configuration.pod_initial_backoff_seconds, configuration.pod_max_backoff_seconds
    if first <= 0:
        yield _out("podInitialBackoffSeconds", first, "1 or more")
    if last < first:
        yield _out("podMaxBackoffSeconds", last, f"podInitialBackoffSeconds ({first}) or more")
    yield from _extender_problems(configuration.extenders)


def _out(where: str, value: object, allowed: str) -> InputError:
    return InputError(where, f"{value} is out of range", f"use {allowed}")


def _share_problems(where: str, share: int | None) -> Iterator[InputError]:
    if share is not None and not 0 <= share <= 100:
        yield _out(where, share, "0 to 100")


def _election_problems(election: LeaderElection) -> Iterator[InputError]:
    """Nothing is checked if election is off (component-base config/validation)."""
    if not election.leader_elect:
        return
    for attribute, field in ELECTION_DURATIONS.items():
        text = getattr(election, attribute)
        if nanoseconds(text) <= 0:
            yield _out(f"leaderElection.{field}", text, "a duration above zero")
    if nanoseconds(election.lease_duration) <= nanoseconds(election.renew_deadline):
        yield InputError(
            "leaderElection.leaseDuration",
            f"{election.lease_duration} is not above renewDeadline ({election.renew_deadline})",
            "make the lease longer than the renew deadline",
        )
    if election.resource_lock != "leases":
        yield InputError(
            "leaderElection.resourceLock",
            f"lock {election.resource_lock!r} does not exist",
            "use leases",
        )


def _profile_problems(profiles: Sequence[ProfileConfig]) -> Iterator[InputError]:
    names: dict[str, int] = {}
    for i, profile in enumerate(profiles):
        where = f"profiles[{i}]"
        name = profile.scheduler_name
        if not name:
            yield InputError(
                f"{where}.schedulerName", "the profile has no name", "give each profile a name"
            )
        yield from _share_problems(
            f"{where}.percentageOfNodesToScore", profile.percentage_of_nodes_to_score
        )
        for point, plugins in profile.plugins.by_point().items():
            yield from _removed_problems(f"{where}.plugins.{point}.enabled", plugins.enabled)
        yield from _removed_problems(f"{where}.pluginConfig", profile.plugin_config)
        configured: set[str] = set()
        for j, plugin in enumerate(profile.plugin_config):
            if plugin.name in configured:
                yield InputError(
                    f"{where}.pluginConfig[{j}].name",
                    f"{plugin.name} is configured twice",
                    "merge the two entries",
                )
            configured.add(plugin.name)
        if name in names:
            yield InputError(
                f"{where}.schedulerName",
                f"{name!r} is also the name of profiles[{names[name]}]",
                "give each profile a name of its own",
            )
        names[name] = i


def _removed_problems(
    where: str, plugins: Sequence[PluginEntry | PluginConfig]
) -> Iterator[InputError]:
    for i, plugin in enumerate(plugins):
        if plugin.name in REMOVED_PLUGINS:
            yield InputError(
                f"{where}[{i}].name",
                f"plugin {plugin.name} was removed in {API_VERSION}",
                "use NodeVolumeLimits",
            )


def _queue_sort_problems(profiles: Sequence[ProfileConfig]) -> Iterator[InputError]:
    """One queue serves all profiles, so they must have the same queueSort (upstream: validation.go
    validateCommonQueueSort). Plugins that multiPoint adds are checked in resolution.py."""
    first = profiles[0].plugins.queue_sort
    if len(first.enabled) > 1:
        yield InputError(
            "profiles[0].plugins.queueSort.enabled",
            f"{len(first.enabled)} queueSort plugins are enabled",
            "enable one",
        )
    name = first.enabled[0].name if first.enabled else ""
    args = [plugin.args for plugin in profiles[0].plugin_config if plugin.name == name]
    for i, profile in enumerate(profiles[1:], start=1):
        if _comparable(profile.plugins.queue_sort) != _comparable(first):
            yield InputError(
                f"profiles[{i}].plugins.queueSort",
                "queueSort differs from profiles[0]",
                "make it the same in all profiles: they share one queue",
            )
        for j, plugin in enumerate(profile.plugin_config):
            if name and plugin.name == name and plugin.args != (args[0] if args else None):
                yield InputError(
                    f"profiles[{i}].pluginConfig[{j}].args",
                    f"the arguments of queueSort plugin {name} differ from profiles[0]",
                    "make them the same in all profiles: they share one queue",
                )


def _comparable(plugins: PluginSet) -> tuple[list[tuple[str, int]], list[str]]:
    # An unset weight equals 0, and the weight of a disabled plugin has no meaning.
    enabled = [(plugin.name, plugin.weight or 0) for plugin in plugins.enabled]
    return enabled, [plugin.name for plugin in plugins.disabled]


def _extender_problems(extenders: Sequence[ExtenderSection]) -> Iterator[InputError]:
    managed: set[str] = set()
    for i, extender in enumerate(extenders):
        if extender.prioritize_verb and extender.weight <= 0:
            yield _out(f"extenders[{i}].weight", extender.weight, "1 or more, for prioritizeVerb")
        for j, resource in enumerate(extender.managed_resources):
            where = f"extenders[{i}].managedResources[{j}].name"
            if not _is_extended_name(resource.name):
                yield InputError(
                    where,
                    f"{resource.name!r} is not the name of an extended resource",
                    "write it as example.com/name",
                )
            if resource.name in managed:
                yield InputError(
                    where, f"{resource.name} is managed twice", "leave it to one extender"
                )
            managed.add(resource.name)
    if sum(bool(extender.bind_verb) for extender in extenders) > 1:
        yield InputError("extenders", "more than one has a bindVerb", "let one extender bind")


_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_PREFIX = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def _is_extended_name(name: str) -> bool:
    prefix, _, rest = name.partition("/")
    # With "requests." before it, the prefix must still be a DNS name of at most 253 characters.
    qualified = len(prefix) <= 253 - len("requests.") and _PREFIX.fullmatch(prefix)
    return bool(qualified and _NAME.fullmatch(rest)) and is_extended(name)


def _accepted_version(version: object, kind: object) -> tuple[str, ...]:
    """Checks apiVersion and kind, and returns the warnings about them."""
    expected = {"kind": (kind, KIND), "apiVersion": (version, API_VERSION)}
    for field, (value, wanted) in expected.items():
        if value is None:
            raise InputError(field, f"{field} is missing", f"add {field}: {wanted}")
        if value != wanted and value not in (DEPRECATED_VERSIONS if field != "kind" else ()):
            raise InputError(field, f"{value!r} is not supported", f"use {wanted}")
    if version == API_VERSION:
        return ()
    warning = f"apiVersion {version} is deprecated and read as {API_VERSION}: write that instead"
    if version in LIGHTER_VERSIONS:
        warning += (
            "; its default weights were others (there TaintToleration, NodeAffinity and "
            "InterPodAffinity had 1, now 3, 2 and 2): name the weights to keep them"
        )
    return (warning,)


def _with_profile(raw: dict[str, Any]) -> dict[str, Any]:
    """Gives a single profile without a name the default name; '' is a name here (defaults.go)."""
    profiles = raw.get("profiles")
    if profiles is None or profiles == []:
        profiles = [{}]
    if isinstance(profiles, list) and len(profiles) == 1:
        profile = {} if profiles[0] is None else profiles[0]
        if isinstance(profile, dict) and profile.get("schedulerName") is None:
            profiles = [{**profile, "schedulerName": DEFAULT_SCHEDULER_NAME}]
    return {**raw, "profiles": profiles}


def _with_current_args(document: Document) -> Document:
    """The arguments in a document of an older version may have that apiVersion too."""

    def current(plugin: PluginConfig) -> PluginConfig:
        if isinstance(plugin.args, dict) and plugin.args.get("apiVersion") in DEPRECATED_VERSIONS:
            args = {**plugin.args, "apiVersion": API_VERSION}
            return msgspec.structs.replace(plugin, args=args)
        return plugin

    profiles = (
        msgspec.structs.replace(profile, plugin_config=tuple(map(current, profile.plugin_config)))
        for profile in document.profiles
    )
    return msgspec.structs.replace(document, profiles=tuple(profiles))


def _with_defaults(document: Document, warnings: tuple[str, ...]) -> Configuration:
    """Replaces zero values by the defaults where upstream cannot distinguish them from unset
    ones."""
    election, client = document.leader_election, document.client_connection
    zero = [field for field in ELECTION_DURATIONS if nanoseconds(getattr(election, field)) == 0]
    values = msgspec.structs.asdict(document) | {
        "leader_election": _reset(
            election,
            *zero,
            *_falsy(election, "resource_lock", "resource_name", "resource_namespace"),
        ),
        "client_connection": _reset(client, *_falsy(client, "content_type", "qps", "burst")),
    }
    if values["enable_contention_profiling"] is None:
        values["enable_contention_profiling"] = document.enable_profiling
    return Configuration(**values, warnings=warnings)


def _falsy(section: Section, *fields: str) -> list[str]:
    return [field for field in fields if not getattr(section, field)]


def _reset(section: Section, *fields: str) -> Section:
    defaults = type(section)()
    return msgspec.structs.replace(section, **{field: getattr(defaults, field) for field in fields})
