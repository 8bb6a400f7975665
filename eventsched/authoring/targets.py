"""Finds the plugins to check: those of a file, of a package's folder, or an installed one."""

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
    """Name → class. Raises InputError if the target holds no plugin, does not import, or is not the
    name of a known plugin."""
    path = Path(target)
    if path.is_dir():
        return _of_package(path)
    if path.suffix == ".py" or path.is_file():
        before = registry()
        return {name: plugin for name, plugin in registry([path]).items() if name not in before}
    known = registry()
    if target not in known:
        raise InputError(target, "is neither a file, nor a folder, nor a plugin", _REMEDY)
    return {target: known[target]}


def _of_package(folder: Path) -> dict[str, type[Any]]:
    """The plugins that a package's entry points name. The package need not be installed."""
    file = folder / "pyproject.toml"
    try:
        document = tomllib.loads(read_text(file))
        entries = document["project"]["entry-points"][ENTRY_POINTS]
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as problem:
        message = f"names no plugin: {type(problem).__name__}: {problem}"
        remedy = f'add [project.entry-points."{ENTRY_POINTS}"] with Name = "module:Class"'
        raise InputError(str(file), message, remedy) from problem
    source = folder / "src"
    sys.path.insert(0, str((source if source.is_dir() else folder).resolve()))
    return {name: _entry(str(value), file) for name, value in entries.items()}


def _entry(value: str, file: Path) -> type[Any]:
    module, _, attribute = value.partition(":")
    try:
        plugin: Any = importlib.import_module(module)
        for part in attribute.split("."):
            plugin = getattr(plugin, part)
    except Exception as problem:
        # Code under test may raise anything; all of it is bad input.
        message = f"{value} does not import: {type(problem).__name__}: {problem}"
        raise InputError(str(file), message, "fix the package") from problem
    if not isinstance(plugin, type) or not points_of(plugin) or not hasattr(plugin, "name"):
        raise InputError(
            str(file),
            f"{value} is not a plugin",
            "name a class with a name and a method of an extension point (filter_node…)",
        )
    return plugin


def instantiated(plugin: type[Any], config: Path | None) -> Any:
    """An instance of the plugin with its arguments from a configuration (the first profile that has
    some), or with its defaults. Raises InputError if the arguments are wrong or the constructor
    raises."""
    raw: Mapping[str, Any] | None = None
    where = f"plugin {plugin.name}: default arguments"
    if config is not None:
        text = first_text(read_text(config))
        for profile in configuration.load(text, str(config)).profiles:
            for entry in profile.plugin_config:
                if entry.name == plugin.name and raw is None:
                    raw, where = entry.args, f"{config}: pluginConfig of {plugin.name}"
    typed = typed_args(plugin, raw, where)
    try:
        return plugin(typed) if hasattr(plugin, "Args") else plugin()
    except InputError:
        raise
    except Exception as problem:
        # Code under test may raise anything; all of it is bad input.
        raise InputError(
            where,
            f"its constructor raised {type(problem).__name__}: {problem}",
            "fix the constructor, or give it arguments with --config",
        ) from problem


def module_of(plugin: type[Any]) -> ModuleType | None:
    """The module of a plugin's class, None if it is not imported."""
    return sys.modules.get(plugin.__module__)
