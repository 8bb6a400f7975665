"""An embedded Postgres with little shared memory, or none."""

import sys
from pathlib import Path

import pytest

from eventsched.eventlog.embedded import shared_memory
from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres

PARALLEL = """
create table big as select number from generate_series(1, 200000) number;
analyze big;
set min_parallel_table_scan_size = 0;
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
select count(*) from big a join big b using (number)
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/dev/shm is Linux's")


def _used(place: Path) -> tuple[str, bool]:
    """The kind that a new server uses, and whether its data folder has such memory."""
    with EmbeddedPostgres(place / "data").open() as postgres:
        assert postgres.execute(PARALLEL) == [(200_000,)]
        ((kind,),) = postgres.execute("show dynamic_shared_memory_type")
        return kind, any((place / "data/postgres/pg_dynshmem").iterdir())


def test_without_shared_memory_files_are_used(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_memory, "PLACE", place / "none")
    assert _used(place) == ("mmap", True)


def test_with_little_shared_memory_files_are_used(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_memory, "ENOUGH_BYTES", 2**60)
    assert _used(place) == ("mmap", True)


@pytest.mark.skipif(bool(shared_memory.settings()), reason="there is little of it here")
def test_with_enough_shared_memory_postgres_uses_it(place: Path) -> None:
    assert _used(place) == ("posix", False)
