"""The profiles that are in force in a log, with the plugins that they run."""

from collections.abc import Mapping
from typing import Any

from eventsched.domain.errors import InputError
from eventsched.runtime.queries.state_at import Opening
from eventsched.scheduling.config.configuration import default, load
from eventsched.scheduling.config.resolution import ResolvedProfile, resolve_all

_ANY = "*"
"""In the place of the profiles' names, which are not known."""


def profiles_in_force(opening: Opening, known: Mapping[str, type[Any]]) -> list[ResolvedProfile]:
    """The profiles of a configuration in a log, in its order; none if one of their plugins is not
    ``known``. Defaults of a later version than the log's are left out."""
    source = "the configuration in force"
    installed = {name: plugin for name, plugin in known.items() if name in opening.plugins}
    try:
        loaded = load(opening.configuration, source) if opening.configuration else default()
        return resolve_all(loaded, installed, source)
    except InputError:
        return []


def profiles_with(
    plugin: str, point: str, opening: Opening, known: Mapping[str, type[Any]]
) -> dict[str, bool]:
    """Each profile in force, and whether it runs a plugin at an extension point; none if that is
    not known. That no profile runs the plugin is known from the log alone, also if another plugin
    is not ``known``."""
    found = profiles_in_force(opening, known)
    if not found and opening.plugins and plugin not in opening.plugins:
        return {_ANY: False}
    return {profile.name: plugin in profile.points[point] for profile in found}
