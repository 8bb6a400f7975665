"""Files with plugins, which commands and servers are given by name. Each is executed once for its
content: a server asks for its plugins with each question."""

import importlib.util
import sys
import traceback
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from threading import Lock, RLock
from types import ModuleType
from typing import Any

from eventsched.domain.errors import InputError
from eventsched.signals import Terminated

_MOST = 32
"""Modules that are kept, those that were used last."""
_Key = tuple[str, Path, bytes]
_modules: OrderedDict[_Key, ModuleType] = OrderedDict()
_lock = Lock()
_executing: dict[str, Any] = {}
"""The lock (RLock) of each module's name. It is held while a file is executed: threads that need
the same file wait for its one execution, and two files of one name do not share ``sys.modules``. A
file may use another one, also in a thread that it waits for. As many as a process has names of
plugin files: those of its options, however often their content changes."""
_PATIENCE = 30.0
"""Seconds that a thread waits for another one that executes a file of that name, and that may wait
for this thread."""


def imported(path: Path) -> ModuleType:
    """The module of a file. Raises InputError for a file that is not there, or whose code fails."""
    spec = importlib.util.spec_from_file_location(f"eventsched_plugin_{path.stem}", path)
    if not path.is_file() or spec is None or spec.loader is None:
        problem = "is not a Python file" if path.exists() else "is not there"
        raise InputError(str(path), problem, "name a .py file that holds a plugin")
    with _refused(path):
        content = path.read_bytes()
    key = (spec.name, path.absolute(), content)
    module = _kept(key)
    if module is None:
        with _execution(spec.name, path), _refused(path):
            module = _kept(key) or _executed(spec, path, content)
            _keep(key, module)
    sys.modules[spec.name] = module  # typed Args and inspect look it up here
    return module


@contextmanager
def _refused(path: Path) -> Iterator[None]:
    """What a file raises becomes an InputError. It is the user's: anything that it raises is bad
    input, and so is ending the process."""
    try:
        yield
    except Terminated:
        raise
    except (Exception, SystemExit) as raised:
        problem = f"does not import: {_line(raised, path)}{type(raised).__name__}: {raised}"
        raise InputError(str(path), " ".join(problem.split()), "fix the file") from raised


@contextmanager
def _execution(name: str, path: Path) -> Iterator[None]:
    """No other thread executes a file of this module's name meanwhile. Raises InputError."""
    with _lock:
        lock = _executing.setdefault(name, RLock())
    if not lock.acquire(timeout=_PATIENCE):
        raise InputError(
            str(path),
            f"is not imported yet: another thread has been importing a file of this name for "
            f"{_PATIENCE:g} s, and may be waiting for this thread",
            "do not wait in a plugin file for a thread that needs the same file",
        )
    try:
        yield
    finally:
        lock.release()


def _executed(spec: ModuleSpec, path: Path, content: bytes) -> ModuleType:
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    # Not by its loader, whose cached code may be that of an earlier content.
    exec(compile(content, str(path), "exec"), module.__dict__)
    return module


def _kept(key: _Key) -> ModuleType | None:
    """The module that is kept, which then was used last; None if there is none."""
    with _lock:
        if key in _modules:
            _modules.move_to_end(key)
        return _modules.get(key)


def _keep(key: _Key, module: ModuleType) -> None:
    with _lock:
        _modules[key] = module
        if len(_modules) > _MOST:
            _modules.popitem(last=False)


def _line(raised: BaseException, path: Path) -> str:
    """The line of the file that raised it; "" if none did (syntax errors name the line)."""
    frames = traceback.extract_tb(raised.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return f"line {lines[-1]}: " if lines else ""
