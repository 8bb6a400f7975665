"""A configuration with all that is wrong with it, and what it amounts to where nothing is."""

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
    """``problems`` in the order of reading, resolution's last, and ``warnings``. The configuration
    and its profiles mean something only where there is no problem."""

    configuration: Configuration
    profiles: tuple[ResolvedProfile, ...]
    problems: tuple[InputError, ...]
    warnings: tuple[str, ...]


def check(text: str, source: str, registry: Mapping[str, type]) -> Checked:
    """Reads and resolves a configuration. What follows from a problem that is named already is not
    named again. Only what this version lacks is a warning: upstream takes the file."""
    found: list[InputError] = []
    try:
        loaded = configuration.load(text, source, found.append)
    except InputError as fatal:
        return Checked(Configuration(), (), (*found, fatal), ())

    def report(problem: InputError) -> None:
        if not concerns(problem.where, [each.where for each in found]):
            found.append(problem)

    profiles = tuple(resolution.resolve_all(loaded, registry, source, report))
    return Checked(loaded, profiles, tuple(found), tuple(_warnings(loaded, profiles, registry)))


def _warnings(
    loaded: Configuration, profiles: tuple[ResolvedProfile, ...], registry: Mapping[str, type]
) -> list[str]:
    found = [*loaded.warnings, *resolution.misspelt(loaded.profiles, registry)]
    for profile in profiles:
        found += [f"{each.problem}: no run will take this file" for each in profile.unavailable]
        found += without_effect(profile.args, registry)
        found += beside_their_substitute(profile, registry)
    for problem in unusable(loaded.extenders):
        found.append(
            f"{problem.where}: {problem.problem}: `eventsched run` will not take this file"
        )
    return list(dict.fromkeys(found))


def beside_their_substitute(profile: ResolvedProfile, registry: Mapping[str, type]) -> list[str]:
    """Warnings about plugins that run at PostFilter before one that says it ``replaces`` them."""
    running = profile.running.get("postFilter", ())
    return [
        f"profile {profile.name}: {replaced} runs at postFilter before {name}, which stands in for "
        f"it; write plugins: {{postFilter: {{disabled: [{{name: {replaced}}}]}}}}"
        for place, name in enumerate(running)
        if (replaced := getattr(registry.get(name), "replaces", "")) in running[:place]
    ]
