"""What a command imports before it does anything: importing the scheduler takes longer than many
answers."""

import subprocess
import sys

import pytest

NOT_NEEDED = (
    "alembic", "yaml", "eventsched.runtime.queries.logged_assembly",
    "eventsched.eventlog.schema.log_tables", "eventsched.plugins", "eventsched.scheduling.engine",
)  # fmt: skip


def imported(module: str) -> set[str]:
    """The modules of a process that imports this one alone."""
    program = f"import sys, eventsched.cli.main, {module}; print(*sys.modules)"
    command = [sys.executable, "-c", program]
    return set(subprocess.check_output(command, timeout=60).decode().split())


@pytest.mark.parametrize("command", ["explain", "log"])
def test_a_command_that_only_reads_does_not_import_the_scheduler(command: str) -> None:
    assert not imported(f"eventsched.cli.{command}").intersection(NOT_NEEDED)


def test_a_command_that_decides_again_imports_it() -> None:
    """So the names above exist."""
    of_explain = "eventsched.cli.recomputed_vectors, eventsched.questions.what_ifs.why_not_search"
    found = imported(f"{of_explain}, eventsched.eventlog.schema.log_tables, alembic")
    assert found.issuperset(NOT_NEEDED)
