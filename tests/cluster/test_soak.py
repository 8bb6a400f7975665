"""The soak with its judge, for some seconds: ``make soak-history`` runs it for an hour."""

from pathlib import Path

from tests.cluster.harness.binaries import Programs
from tests.cluster.soak.__main__ import soak


def test_a_short_soak_has_no_violation(programs: Programs, tmp_path: Path) -> None:
    """On a control plane of its own."""
    assert programs
    assert soak(tmp_path, 25.0, 3) == 0
    assert (tmp_path / "history.jsonl").stat().st_size > 0
