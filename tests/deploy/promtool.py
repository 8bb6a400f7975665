"""Prometheus' own checks of rules."""

import shutil
import subprocess
from pathlib import Path

import pytest


def promtool(*arguments: str, folder: Path) -> str:
    """What it prints. Skips the test if there is no promtool."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("no promtool in PATH (Debian: package prometheus): nothing checks the alerts")
    done = subprocess.run(
        [program, *arguments], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
