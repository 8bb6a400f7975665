"""A configuration with all its problems and warnings, and the profiles that it resolves to."""

from collections.abc import Mapping
from dataclasses import dataclass

from eventsched.domain.errors import InputError
from eventsched.scheduling.config import configuration, resolution
from eventsched.scheduling.config.arguments import without_effect
from eventsched.scheduling.config.decoding import concerns
from eventsched.scheduling.config.extenders import problems as unusable
from eventsched.scheduling.config.resolution import ResolvedProfile
from eventsched.scheduling.config.sections import Configuration


@dataclass(frozen=True)
class Checked:
    """``problems`` in the order of reading, those of resolution last, and ``warnings``. The
    configuration and its profiles are meaningful only without problems."""

    configuration: Configuration
    profiles: tuple[ResolvedProfile, ...]
    problems: tuple[InputError, ...]
    warnings: tuple[str, ...]


def check(text: str, source: str, registry: Mapping[str, type]) -> Checked:
    """Reads and resolves a configuration. Problems that follow from reported ones are left out.
    What only this version lacks is a warning, because upstream accepts the file."""
    problems: list[InputError] = []
    try:
        loaded = configuration.load(text, source, problems.append)
    except InputError as fatal:
        return Checked(Configuration(), (), (*problems, fatal), ())

    def report(problem: InputError) -> None:
        if not concerns(problem.where, [reported.where for reported in problems]):
            problems.append(problem)

    profiles = tuple(resolution.resolve_all(loaded, registry, source, report))
    return Checked(loaded, profiles, tuple(problems), tuple(_warnings(loaded, profiles, registry)))


def running_points(profile: ResolvedProfile) -> dict[str, list[str]]:
    """The points at which something runs, score plugins as ``Name=weight``."""
    points = {point: list(names) for point, names in profile.points.items() if names}
    if "score" in points:
        points["score"] = [f"{name}={profile.weights[name]}" for name in points["score"]]
    return points


def _warnings(
    loaded: Configuration, profiles: tuple[ResolvedProfile, ...], registry: Mapping[str, type]
) -> list[str]:
    warnings = [*loaded.warnings, *resolution.misspelt(loaded.profiles, registry)]
    warnings += resolution.zero_weights(loaded.profiles, registry)
    for profile in profiles:
        warnings += [
            f"{missing.problem}: no run will take this file" for missing in profile.unavailable
        ]
        warnings += without_effect(profile.args, registry)
        warnings += beside_their_substitute(profile, registry)
    for problem in unusable(loaded.extenders):
        warnings.append(
            f"{problem.where}: {problem.problem}: `eventsched run` will not take this file"
        )
    return list(dict.fromkeys(warnings))


def beside_their_substitute(profile: ResolvedProfile, registry: Mapping[str, type]) -> list[str]:
    """Warnings about plugins that run at PostFilter before the plugin that ``replaces`` them."""
    running = profile.running.get("postFilter", ())
    return [
        f"profile {profile.name}: {replaced} runs at postFilter before {name}, which stands in for "
        f"it; write plugins: {{postFilter: {{disabled: [{{name: {replaced}}}]}}}}"
        for place, name in enumerate(running)
        if (replaced := getattr(registry.get(name), "replaces", "")) in running[:place]
    ]
