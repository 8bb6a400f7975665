"""Which tests are quick: groups by folder, by fixture and by mark."""

import subprocess
import sys

import pytest

from tests.conftest import SLOWER
from tests.databases import ROOT


def test_a_slower_folder_is_there_and_its_marker_is_known(pytestconfig: pytest.Config) -> None:
    known = {line.partition(":")[0] for line in pytestconfig.getini("markers")}
    assert {*SLOWER.values(), "unit", "process"} <= known
    assert [name for name in SLOWER if not (ROOT / "tests" / name).is_dir()] == []


def test_this_one_is_quick(request: pytest.FixtureRequest) -> None:
    assert [mark.name for mark in request.node.iter_markers()] == ["unit"]


@pytest.mark.process
def test_a_test_has_the_group_of_its_folder_of_its_fixtures_and_of_its_mark() -> None:
    """``-m unit`` leaves out what has another one."""
    files = ["tests/contract/test_eventlog.py", "tests/faults/test_storage.py", __file__]
    command = [sys.executable, "-m", "pytest", "-m", "unit", "--collect-only", "-qq", *files]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    quick = {line.partition(":")[0] for line in done.stdout.splitlines() if line}
    assert quick == {"tests/contract/test_eventlog.py", "tests/unit/project/test_test_groups.py"}
