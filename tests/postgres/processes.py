"""Processes that use an embedded Postgres beside the test's own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from eventsched.eventlog.embedded.postmaster import Postmaster
from tests.databases import ROOT
from tests.waiting import next_line

_CODE = """
import os
import sys
from pathlib import Path
from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
folder, programs, role, then = sys.argv[1:]
opened = EmbeddedPostgres(Path(folder), binaries=Path(programs)).open(writer=role == "writer")
print("open", flush=True)
exec(then)
sys.stdin.read()
"""


def command(folder: Path, programs: Path, role: str, then: str = "pass") -> list[str]:
    """A program that opens the folder as ``writer`` or ``reader``, says ``open``, runs a statement
    and stays until its input ends."""
    return [sys.executable, "-c", _CODE, str(folder), str(programs), role, then]


@contextmanager
def child(of: EmbeddedPostgres, role: str, then: str = "pass") -> Iterator["subprocess.Popen[str]"]:
    """Another process that has the folder open, in a session of its own; killed after the block."""
    assert of._binaries is not None
    process = subprocess.Popen(
        command(of.data_dir, of._binaries, role, then),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    )
    with process:
        try:
            assert next_line(process) == "open\n"
            yield process
        finally:
            process.kill()


def pid(postgres: EmbeddedPostgres) -> int | None:
    """The pid of the folder's server, None if none runs."""
    running = Postmaster(postgres.data_dir).running()
    return None if running is None else running.pid
