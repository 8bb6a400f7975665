"""Tests that need a real Postgres; where it comes from is in tests/databases.py."""

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from tests.contract.proxy import Proxy, between
from tests.databases import (
    Server,
    database,
    each_database,
    each_server,
    embedded_programs,
    migrate,
    one_server,
    open_place,
)
from tests.postgres.asked_views import address, ask, truth
from tests.postgres.diagnosed import poor, sound
from tests.postgres.failing_commands import says
from tests.postgres.replays import replay, taste
from tests.postgres.tampered_logs import TamperedLog, tight, two_streams

__all__ = [
    "address", "ask", "database", "each_database", "each_server", "one_server", "poor", "replay",
    "says", "sound", "taste", "truth",
]  # fmt: skip

PROGRAMS = embedded_programs()


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> None:
    """A script that runs the tests in the background has them, and all that they start, ignore
    SIGINT; some of what they start is interrupted."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module", params=PROGRAMS)
def programs(request: pytest.FixtureRequest) -> Path:
    """The programs of each version, one after the other."""
    return PROGRAMS[request.param]


@pytest.fixture
def place() -> Iterator[Path]:
    """An empty folder that all accounts may enter; servers below it are stopped in the end."""
    folder = Path(tempfile.mkdtemp(prefix="evs-", dir=open_place()))
    folder.chmod(0o755)
    yield folder
    for log in folder.rglob("postgres.log"):
        EmbeddedPostgres(log.parent).stop_unused()
    shutil.rmtree(folder)


@pytest.fixture
def proxy(database: str) -> Iterator[Proxy]:
    """A way to the database that can lose things."""
    with between(database) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def made(programs: Path) -> Iterator[Path]:
    """A folder with a database, at rest."""
    place = Path(tempfile.mkdtemp(prefix="evs-", dir=open_place()))
    place.chmod(0o755)
    EmbeddedPostgres(place / "data", binaries=programs).open().close()
    yield place / "data"
    shutil.rmtree(place)


@pytest.fixture
def postgres(made: Path, place: Path, programs: Path) -> Callable[[], EmbeddedPostgres]:
    """Users of one folder that has a database."""
    subprocess.run(["cp", "-a", made, place / "data"], check=True, timeout=60)
    return lambda: EmbeddedPostgres(place / "data", binaries=programs)


@pytest.fixture
def tight_log(one_server: Server) -> Iterator[TamperedLog]:
    """A fresh copy of the tight log."""
    with one_server.fresh(tight) as url, closing(TamperedLog(url)) as log:
        yield log


@pytest.fixture
def two_streams_log(one_server: Server) -> Iterator[TamperedLog]:
    """A fresh database with two streams."""
    with one_server.fresh(two_streams) as url, closing(TamperedLog(url)) as log:
        yield log


@pytest.fixture(scope="module")
def four_days(one_server: Server) -> Iterator[str]:
    """The URL of a database with stream archives.STREAM, which was written on four days, and its
    history as two other streams (histories.py)."""
    from tests.postgres import archives, histories  # archives needs pyarrow

    with one_server.fresh(migrate) as url:
        histories.simulated(url)
        histories.odd(url)
        archives.spread(url, histories.TIGHT, archives.STREAM)
        yield url


@pytest.fixture(scope="module")
def whole_archive(four_days: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of the four days, which tests only read."""
    from tests.postgres import archives

    folder = tmp_path_factory.mktemp("archives") / "whole"
    archives.archived(four_days, archives.STREAM, folder)
    return folder


@pytest.fixture
def own_archive(whole_archive: Path, tmp_path: Path) -> Path:
    """A copy of the archive."""
    return Path(shutil.copytree(whole_archive, tmp_path / "archive"))
