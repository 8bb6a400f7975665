"""What holds for all tests: bytecode for the processes they start, and the group of each test."""

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventsched.runtime import gc_tuning

_TESTS = Path(__file__).parent

# Output that is captured has no width; pytest-xdist sets one for its workers.
os.environ.pop("COLUMNS", None)

# Tests start hundreds of processes. Without bytecode each of them compiles all that it imports,
# which takes longer than most tests. If the environment forbids bytecode beside the sources, it
# is kept with the virtual environment.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(Path(sys.prefix) / "pycache")
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix

SLOWER = {
    "cluster": "cluster",
    "conformance": "conformance",
    "faults": "faults",
    "kubelet": "kubelet",
    "postgres": "postgres",
    "properties": "properties",
}
"""Folder of tests → the marker of its group. All other tests are of the group ``unit``, unless
they carry the marker of a slower one or use a fixture of a Postgres server."""
_SERVERS = {"one_server", "each_server"}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """``-m unit`` does not even import the folders of slower groups."""
    if config.option.markexpr == "unit" and collection_path.parent == _TESTS:
        return True if collection_path.name in SLOWER else None
    return None


@pytest.fixture(autouse=True)
def _logging_restored() -> Iterator[None]:
    """Logging as it was: commands that run in the tests' process set it up for the process, and
    would leave a handler with the captured stderr of one test to all others."""
    root, ours = logging.getLogger(), logging.getLogger("eventsched")
    handlers, levels = list(root.handlers), (root.level, ours.level)
    yield
    for added in [handler for handler in root.handlers if handler not in handlers]:
        root.removeHandler(added)
    root.setLevel(levels[0])
    ours.setLevel(levels[1])
    logging.captureWarnings(False)
    if (structlog := sys.modules.get("structlog")) is not None:  # the demo's environment has none
        structlog.reset_defaults()


def pytest_collection_finish() -> None:
    """Tests run with the garbage collector of the product's processes: modules and thousands of
    collected tests are not scanned again and again."""
    gc_tuning.freeze()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks a test with its group."""
    folder = item.path.relative_to(_TESTS).parts[0] if item.path.is_relative_to(_TESTS) else ""
    if _SERVERS & set(getattr(item, "fixturenames", ())):
        item.add_marker("postgres")
    if folder in SLOWER:
        item.add_marker(SLOWER[folder])
    elif not any(item.get_closest_marker(name) for name in (*SLOWER.values(), "process")):
        item.add_marker("unit")
