"""The setting ``detail``: which vectors are stored, by profile (docs/run.md)."""

from collections.abc import Collection, Iterator
from difflib import get_close_matches

from eventsched.domain.detail_levels import DetailLevels, parse_level
from eventsched.domain.errors import InputError
from eventsched.process.sections.settings_part import SettingsPart


class DetailSettings(SettingsPart, frozen=True):
    """Which vectors are stored, by profile (``schedulerName``): ``full``, ``top:K`` or
    ``summary``. ``default`` is for profiles that are not named."""

    default: str = "full"
    profiles: dict[str, str] = {}

    def problems(self) -> Iterator[InputError]:
        """Not a level."""
        yield from level_problems("default", self.default)
        for profile, level in self.profiles.items():
            yield from level_problems(f"profiles.{profile}", level)


def level_problems(where: str, level: str) -> Iterator[InputError]:
    """Not a level."""
    try:
        parse_level(level)
    except InputError as problem:
        yield InputError(where, problem.problem, problem.remedy)


def unknown_profiles(
    detail: str | DetailSettings, profiles: Collection[str], source: str
) -> Iterator[InputError]:
    """The profiles that the setting names and that the configuration of ``source`` does not
    have."""
    if isinstance(detail, str):
        return
    for name in detail.profiles:
        if name not in profiles:
            nearest = get_close_matches(name, profiles, n=3, cutoff=0.5) or list(profiles)
            yield InputError(
                f"{source}: detail.profiles.{name}",
                f"there is no profile {name}",
                f"did you mean {' or '.join(nearest)}?",
            )


def detail_levels(detail: str | DetailSettings) -> DetailLevels:
    """The checked setting as levels."""
    if isinstance(detail, str):
        return DetailLevels(parse_level(detail))
    by_profile = {name: parse_level(level) for name, level in detail.profiles.items()}
    return DetailLevels(parse_level(detail.default), by_profile)
