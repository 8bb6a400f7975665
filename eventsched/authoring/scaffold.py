"""Writes a new plugin package: code, a test, an entry point, a configuration, a sample cluster."""

import keyword
import re
import sys
from collections.abc import Collection
from pathlib import Path

from eventsched.authoring.templates import FILES
from eventsched.domain.errors import InputError

MAX_NAME_LENGTH = 40
"""Characters of a name, so that no line of the templates becomes too long."""
_RESERVED = {*sys.stdlib_module_names, *("eventsched", "msgspec", "numpy", "pytest", "tests")}
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z][a-z0-9]*|[a-z0-9]+")


def words(name: str) -> list[str]:
    """The words of a class name in lower case: FastDisk → fast, disk."""
    return [word.lower() for word in _WORD.findall(name)]


def make(name: str, folder: Path | None, taken: Collection[str]) -> Path:
    """Writes the package of a plugin into ``folder`` (default: one named after the plugin, in the
    working directory) and returns the folder. ``taken`` are the names of known plugins. Raises
    InputError if the name is not a class name or is taken, or if the folder is not empty."""
    _check(name, taken)
    parts = words(name)
    folder = folder or Path("-".join(parts))
    values = {
        "NAME": name,
        "MODULE": "_".join(parts),
        "PROJECT": "-".join(parts),
        "LABEL": f"example.com/{'-'.join(parts)}",
    }
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            str(folder), "exists and is not an empty folder", "name another one with --dir"
        )
    try:
        for path, text in FILES.items():
            file = folder / _filled(path, values)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(_filled(text, values), encoding="utf-8")
    except OSError as problem:
        message = f"cannot be written: {problem.strerror or problem}"
        raise InputError(str(folder), message, "name another folder with --dir") from problem
    return folder


def _check(name: str, taken: Collection[str]) -> None:
    where = f"plugin name {name!r}"
    parts = words(name)
    module = "_".join(parts)
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", name) or not name.isascii():
        raise InputError(where, "is not a class name", "write it like FastDisk")
    if len(name) > MAX_NAME_LENGTH:
        raise InputError(where, "is too long", f"use at most {MAX_NAME_LENGTH} characters")
    if keyword.iskeyword(module) or keyword.iskeyword(name) or module in _RESERVED:
        raise InputError(where, f"a package cannot be called {module}", "choose another name")
    if name in taken:
        raise InputError(where, "a plugin with this name exists", "choose another name")


def _filled(text: str, values: dict[str, str]) -> str:
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text
