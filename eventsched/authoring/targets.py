"""Which plugins a check is about: those of a file, of a package's folder, or an installed one."""

import importlib
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from eventsched.cluster.files import read_text
from eventsched.domain.errors import InputError
from eventsched.runtime.assembly import ENTRY_POINTS, registry
from eventsched.scheduling.config import configuration
from eventsched.scheduling.config.arguments import typed_args
from eventsched.scheduling.config.document import first_text
from eventsched.scheduling.framework import points_of

_REMEDY = "name a .py file, a folder with a pyproject.toml, or a plugin"


def plugins_of(target: str) -> dict[str, type[Any]]:
    """Name → class. Raises InputError for what holds no plugin or does not import, and for a name
    that no installed plugin has."""
    path = Path(target)
    if path.is_dir():
        return _of_package(path)
    if path.suffix == ".py" or path.is_file():
        before = registry()
        return {name: each for name, each in registry([path]).items() if name not in before}
    known = registry()
    if target not in known:
        raise InputError(target, "is neither a file, nor a folder, nor a plugin", _REMEDY)
    return {target: known[target]}


def _of_package(folder: Path) -> dict[str, type[Any]]:
    """The plugins that a package's entry points name; it need not be installed."""
    file = folder / "pyproject.toml"
    try:
        document = tomllib.loads(read_text(file))
        entries = document["project"]["entry-points"][ENTRY_POINTS]
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as problem:
        said = f"names no plugin: {type(problem).__name__}: {problem}"
        remedy = f'write [project.entry-points."{ENTRY_POINTS}"], and Name = "module:Class" there'
        raise InputError(str(file), said, remedy) from problem
    source = folder / "src"
    sys.path.insert(0, str((source if source.is_dir() else folder).resolve()))
    return {name: _entry(str(value), file) for name, value in entries.items()}


def _entry(value: str, file: Path) -> type[Any]:
    module, _, attribute = value.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except Exception as problem:
        # Somebody's package: whatever keeps it from loading is bad input.
        said = f"{value} does not import: {type(problem).__name__}: {problem}"
        raise InputError(str(file), said, "fix the package") from problem
    if not isinstance(found, type) or not points_of(found) or not hasattr(found, "name"):
        raise InputError(
            str(file),
            f"{value} is no plugin",
            "name a class that has a name and a method of an extension point (filter_node…)",
        )
    return found


def made(plugin: type[Any], config: Path | None) -> Any:
    """The plugin with the arguments that a configuration has for it (the first profile that has
    some), else with its defaults. Raises InputError for arguments that it does not take, and for
    a constructor that raises."""
    raw: Mapping[str, Any] | None = None
    where = f"plugin {plugin.name}: the arguments' defaults"
    if config is not None:
        text = first_text(read_text(config))
        for profile in configuration.load(text, str(config)).profiles:
            for each in profile.plugin_config:
                if each.name == plugin.name and raw is None:
                    raw, where = each.args, f"{config}: pluginConfig of {plugin.name}"
    typed = typed_args(plugin, raw, where)
    try:
        return plugin(typed) if hasattr(plugin, "Args") else plugin()
    except InputError:
        raise
    except Exception as problem:
        # Somebody's constructor: whatever it raises is bad input.
        raise InputError(
            where,
            f"it cannot be made: {type(problem).__name__}: {problem}",
            "mend its constructor, or give it arguments with --config",
        ) from problem


def module_of(plugin: type[Any]) -> ModuleType | None:
    """The module that a plugin's class stands in."""
    return sys.modules.get(plugin.__module__)
