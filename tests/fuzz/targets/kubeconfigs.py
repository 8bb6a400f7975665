"""Kubeconfigs. No program is run and nothing is sent: documents with such users are left out."""

import asyncio
from pathlib import Path
from typing import Any

import yaml

from eventsched.cluster.kube.http.access import KubeAccess, from_kubeconfig, require_files
from eventsched.domain.errors import InputError
from tests.fuzz.choices import Choices
from tests.fuzz.documents import HOSTILE_JSON, HOSTILE_YAML, as_json, as_yaml, documents, spoiled
from tests.fuzz.targets import is_choices
from tests.fuzz.targets.exported_logs import _file

SECRET = "hunter2"
_ACTIVE = {"exec", "auth-provider"}
_loop = asyncio.new_event_loop()


def fuzz_one(data: bytes) -> None:
    """A kubeconfig can be used, or is refused with an InputError that names the file and quotes no
    secret."""
    if is_choices(data):
        choices = Choices(data[1:])
        _, document = choices.of(documents("kubeconfigs"))
        is_json = choices.below(2)
        changed = spoiled(document, choices, HOSTILE_JSON if is_json else HOSTILE_YAML)
        data = as_json(changed) if is_json else as_yaml(changed)
    if _is_active(data):
        return
    with _file(data) as path:
        access = KubeAccess(from_kubeconfig(str(path)))
        try:
            require_files(path, {}, "c")
            _loop.run_until_complete(access.open())
        except InputError as error:
            _check(error, path)


def _check(error: InputError, path: Path) -> None:
    assert str(path) in error.where or "certificates" in error.where, error
    assert error.problem
    assert error.remedy
    assert SECRET not in str(error)


def _is_active(data: bytes) -> bool:
    """Whether loading the file could run a program or ask a server."""
    try:
        parsed: Any = yaml.safe_load(data)
        keys = _keys(parsed, set())
    except (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return any(name.encode() in data for name in _ACTIVE)
    return bool(keys & _ACTIVE)


def _keys(value: Any, seen: set[int]) -> set[str]:
    """The keys of all mappings in a value, which may contain itself."""
    if not isinstance(value, dict | list) or id(value) in seen:
        return set()
    seen.add(id(value))
    inner = value.values() if isinstance(value, dict) else value
    keys = {str(key) for key in value} if isinstance(value, dict) else set()
    return keys.union(*(_keys(item, seen) for item in inner))
