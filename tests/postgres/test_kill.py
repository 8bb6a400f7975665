"""kill -9 of the scheduler's process and of the database, at random moments under load: what was
committed stays, nothing is written twice, and the end is that of a run in one piece."""

import os
import random
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from eventsched.cli.main import main
from eventsched.eventlog.database import AUDITOR
from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from eventsched.eventlog.embedded.postmaster import Postmaster
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.eventlog.schema import migrations
from tests.postgres.simulations import (
    STREAM,
    assert_whole,
    complaints,
    ended,
    folder_url,
    reaches,
    started,
    uninterrupted,
)

KILLS = 10
LOADS = (
    "nodes=8,pods=120,shape=tight,seed=1",
    "nodes=5,pods=120,shape=tight,seed=2,runtime=30",
    "nodes=20,pods=400,shape=mixed,seed=3,rate=30,runtime=2",
    "nodes=20,pods=300,shape=mixed,seed=4",
    "nodes=3,pods=90,shape=tight,seed=5",
)
OFTEN = "Simulation.__init__.__kwdefaults__['snapshot_every'] = 300"
"""Snapshots come often, so that restarts begin with one."""
SMALL = "Simulation.__init__.__kwdefaults__['batch_size'] = 5"
"""Batches are small, so that instants are cut in two."""


def positions(load: str, number: int, chance: random.Random) -> list[int]:
    """Places in a run's log, ascending."""
    return sorted(chance.sample(range(1, len(uninterrupted(load)[0])), number))


@pytest.mark.parametrize("number", range(5))
def test_killed_ten_times(number: int, place: Path) -> None:
    """The head, watched from outside, says when: after a random position of the run, and never
    before the process has taken the stream over. One that is done before that does not count."""
    load, data_dir, chance = LOADS[number], place / "data", random.Random(number)
    arguments = ("simulate", "--generate", load, "--data-dir", data_dir, "-o", "json")
    changes = ("", OFTEN, f"{OFTEN}; {SMALL}", SMALL, "")[number]
    moments, epoch = positions(load, KILLS, chance), 0
    while moments:
        epoch += 1
        with started(*arguments, changes=changes) as process:
            try:
                if reaches(process, lambda: folder_url(data_dir, AUDITOR), moments[0], epoch):
                    process.kill()
            finally:
                process.kill()
                said = process.communicate(timeout=60)[1]
        assert process.returncode in (-signal.SIGKILL, 0), said
        if process.returncode:
            moments.pop(0)
        assert epoch < 3 * KILLS
    code, output, lines = ended(*arguments, changes=changes)
    assert code == 0, lines
    assert all("holds this run already" in line for line in lines)  # if one was not killed
    with EmbeddedPostgres(data_dir).open(create=False) as postgres:
        assert_whole(load, output, postgres.url(AUDITOR))
        assert main(["verify", "--database", postgres.url(AUDITOR)]) == 0


@pytest.fixture
def server(place: Path) -> Iterator[tuple[str, Postmaster]]:
    """The address of a server with the schema, and the server itself, to be stopped and started."""
    with EmbeddedPostgres(place / "server").open() as postgres:
        address = postgres.superuser_url
        migrations.upgrade(address)
        yield address, Postmaster(place / "server")


def crash(server: Postmaster, how: int) -> None:
    """Ends a server without a farewell: by SIGQUIT (``pg_ctl stop -m immediate``) or SIGKILL."""
    running = server.running()
    assert running is not None
    if how == signal.SIGQUIT:
        server.stop(at_once=True)
    else:
        os.kill(running.pid, signal.SIGKILL)
        assert server._ended(running.pid, 60)


@pytest.mark.row(3)
def test_the_database_is_away_when_a_run_ends(server: tuple[str, Postmaster]) -> None:
    """The summary is read from a database that has just crashed and comes back."""
    address, postmaster = server
    with closing(PostgresEventLog(address, STREAM, holder="test")) as log:
        before = log.usage()
        crash(postmaster, signal.SIGKILL)
        with ThreadPoolExecutor(1) as pool:
            after = pool.submit(log.usage)
            postmaster.start()
            assert after.result(60).scheduled_pods == before.scheduled_pods


@pytest.mark.row(3)
@pytest.mark.parametrize("how", [signal.SIGQUIT, signal.SIGKILL])
def test_the_database_crashes_under_load(server: tuple[str, Postmaster], how: int) -> None:
    """Six times, and comes back each time: the same process continues."""
    address, postmaster = server
    load, crashes = LOADS[how % 2], 0
    with started("simulate", "--generate", load, "--database", address, "-o", "json") as process:
        try:
            for position in positions(load, 6, random.Random(how)):
                if reaches(process, lambda: address, position, 1):
                    crash(postmaster, how)
                    postmaster.start()
                    crashes += 1
            output, errors = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 0, errors
    assert crashes
    assert_whole(load, output, address)
    with Reader(address, STREAM).connection() as connection:
        epochs = connection.exec_driver_sql("SELECT count(*) FROM eventsched_log.epoch").scalar()
    assert epochs == 1


def test_the_database_stays_down(server: tuple[str, Postmaster]) -> None:
    """After some patience (30 s; less here) the run ends with one line, and the same command goes
    on from the log once the database is back."""
    address, postmaster = server
    load = LOADS[0]
    arguments = ("simulate", "--generate", load, "--database", address, "-o", "json")
    # Longer than a first append takes on a busy machine.
    impatient = "PostgresEventLog.__init__.__kwdefaults__['patience'] = 2.0"
    position = len(uninterrupted(load)[0]) // 3
    with started(*arguments, changes=impatient) as process:
        try:
            assert reaches(process, lambda: address, position, 1)
            crash(postmaster, signal.SIGQUIT)
            output, errors = process.communicate(timeout=120)
        finally:
            process.kill()
    assert (process.returncode, output) == (3, "")
    (line,) = complaints(errors)
    assert line.startswith("eventsched simulate: postgresql://postgres@")
    assert ": no answer for 2 s (" in line
    assert line.endswith(
        "; start the database and run the same command again: it continues from the log"
    )
    code, output, said = ended(*arguments, changes=impatient)
    assert (code, output, len(said)) == (3, "", 1)
    postmaster.start()
    assert Reader(address, STREAM).head.next >= position
    code, output, said = ended(*arguments)
    assert (code, said) == (0, [])
    assert_whole(load, output, address)
