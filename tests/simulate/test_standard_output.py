"""Standard output that is full or closed: an error in one line, or none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.databases import ROOT

pytestmark = pytest.mark.process

LOG = ROOT / "tests" / "histories" / "0.1-generated.jsonl.gz"
FULL = Path("/dev/full")


def run(command: str, redirection: str) -> subprocess.CompletedProcess[str]:
    line = f"exec {sys.executable} -m eventsched {command} --file {LOG} {redirection}"
    return subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, cwd=ROOT, check=False, timeout=120
    )


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["state", "state -o manifests"])
def test_a_full_disk_is_an_error_in_one_line(command: str) -> None:
    """Whether the output is shorter than the buffer, or longer."""
    ran = run(command, f"> {FULL}")
    name = command.split()[0]
    assert ran.returncode == 3
    assert ran.stderr == (
        f"eventsched {name}: the output cannot be written: No space left on device; "
        "make room there\n"
    )


def test_a_command_without_standard_output_runs() -> None:
    """Its exit code is the answer, as of ``replay --fail-if`` in CI."""
    ran = run("replay --verify", ">&-")
    assert (ran.returncode, ran.stdout) == (0, "")
    assert "Traceback" not in ran.stderr


def test_a_reader_that_has_gone_does_not_change_the_exit_code() -> None:
    """As ``replay --fail-if … | head`` in CI."""
    reading, writing = os.pipe()
    os.close(reading)
    words = ("replay", "--what-if", "--fail-if", "moved() = 0", "--file", str(LOG))
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "eventsched", *words],
            stdout=writing, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False, timeout=120,
        )  # fmt: skip
    finally:
        os.close(writing)
    assert (ran.returncode, "Traceback" in ran.stderr) == (1, False)
