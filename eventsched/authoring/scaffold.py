"""A new plugin's package: code, a test, an entry point, a configuration and a cluster to try it."""

import keyword
import re
import sys
from collections.abc import Collection
from pathlib import Path

from eventsched.authoring.templates import FILES
from eventsched.domain.errors import InputError

LONGEST = 40
"""Characters of a name: then no line of the templates gets too long."""
_USED = {*sys.stdlib_module_names, *("eventsched", "msgspec", "numpy", "pytest", "tests")}
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z][a-z0-9]*|[a-z0-9]+")


def words(name: str) -> list[str]:
    """The words of a class's name, in small letters: FastDisk → fast, disk."""
    return [word.lower() for word in _WORD.findall(name)]


def make(name: str, folder: Path | None, taken: Collection[str]) -> Path:
    """Makes the package of a plugin of that name in a folder (None: one that is called like it,
    here) and returns the folder. ``taken`` are names that plugins have. Raises InputError for a
    name that cannot be a class's, one that is taken, and a folder that holds something."""
    _check(name, taken)
    parts = words(name)
    folder = folder or Path("-".join(parts))
    filled = {
        "NAME": name,
        "MODULE": "_".join(parts),
        "PROJECT": "-".join(parts),
        "LABEL": f"example.com/{'-'.join(parts)}",
    }
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(str(folder), "is there already", "name an empty one with --dir")
    try:
        for path, text in FILES.items():
            file = folder / _filled(path, filled)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(_filled(text, filled), encoding="utf-8")
    except OSError as problem:
        said = f"cannot be written: {problem.strerror or problem}"
        raise InputError(str(folder), said, "name another folder with --dir") from problem
    return folder


def _check(name: str, taken: Collection[str]) -> None:
    where = f"plugin name {name!r}"
    parts = words(name)
    module = "_".join(parts)
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", name) or not name.isascii():
        raise InputError(where, "is no name of a class", "write it like FastDisk")
    if len(name) > LONGEST:
        raise InputError(where, "is too long", f"use {LONGEST} letters at most")
    if keyword.iskeyword(module) or keyword.iskeyword(name) or module in _USED:
        raise InputError(where, f"a package cannot be called {module}", "choose another name")
    if name in taken:
        raise InputError(where, "a plugin of that name exists already", "choose another name")


def _filled(text: str, values: dict[str, str]) -> str:
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text
