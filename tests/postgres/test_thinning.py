"""Thinning deletes old vectors; the others can be read as before."""

from contextlib import closing

import numpy as np
import psycopg
import pytest

from eventsched.domain.errors import UnavailableError
from eventsched.domain.records.verdicts import Detail
from eventsched.eventlog.port import Batch
from eventsched.eventlog.postgres.thinning import thin
from eventsched.eventlog.postgres.writer import PostgresEventLog
from tests.contract.test_eventlog import append, stored
from tests.databases import acting_as

HOUR = 3600
NOW = 10 * HOUR * 1_000_000


def vector(base: int | None = None) -> Detail:
    """Vectors over no nodes."""
    return Detail(0, base, np.zeros(0, dtype=np.uint16), ())


def remaining(database: str) -> list[tuple[str, int]]:
    """(stream, position) of all vectors."""
    query = (
        "SELECT s.name, d.seq FROM eventsched_log.detail d"
        " JOIN eventsched_log.stream s ON s.id = d.stream ORDER BY 1, 2"
    )
    with psycopg.connect(database) as admin:
        return admin.execute(query).fetchall()


def test_the_base_of_a_remaining_delta_is_not_deleted(database: str) -> None:
    """No matter how old it is. Other streams do not change."""
    clock = [0]
    with (
        closing(PostgresEventLog(database, "s", "w", clock=lambda: clock[0])) as log,
        closing(PostgresEventLog(database, "t", "w", clock=lambda: 0)) as other,
    ):
        append(other, Batch(stored(0), {0: vector()}))
        append(log, Batch(stored(0, 4), {0: vector(), 1: vector(0), 2: vector(), 3: vector(2)}))
        clock[0] = 8 * HOUR * 1_000_000
        append(log, Batch(stored(4, 2), {4: vector(1), 5: vector()}))

        assert thin(database, "s", 20 * HOUR, NOW) == 0
        assert remaining(database) == [("s", at) for at in range(6)] + [("t", 0)]
        assert thin(database, "s", 5 * HOUR, NOW) == 2
        assert remaining(database) == [("s", 0), ("s", 1), ("s", 4), ("s", 5), ("t", 0)]
        assert thin(database, "s", 5 * HOUR, NOW) == 0
        assert thin(database, "s", 1 * HOUR, NOW) == 4
        assert remaining(database) == [("t", 0)]
        assert len(list(log.read())) == 6
        assert thin(database, "unknown", 0, NOW) == 0


def test_a_reader_may_not_delete(database: str) -> None:
    """Only a writer may."""
    with pytest.raises(UnavailableError, match="permission denied"):
        thin(acting_as(database, "eventsched_reader"), "s", 1, NOW)
    assert thin(acting_as(database, "eventsched_writer"), "s", 1, NOW) == 0
