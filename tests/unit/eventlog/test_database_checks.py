"""The checks of ``eventsched db doctor`` on given facts: what no server here can be brought to."""

from typing import Any

import pytest

from eventsched.eventlog.inspection.database_checks import CHECKS, diagnose
from eventsched.eventlog.inspection.database_facts import (
    DatabaseFacts,
    RoleSetting,
    ServerFacts,
    Slot,
)
from eventsched.eventlog.schema import migrations
from eventsched.eventlog.schema.migrations import StoredVersion

SOUND = ServerFacts(
    version=18_0001,
    is_in_recovery=False,
    database="eventsched",
    settings={"data_checksums": "on", "max_slot_wal_keep_size": "-1", "synchronous_commit": "on"},
    role_settings=[],
    standbys=[],
    slots=[],
    prepared=[],
    transactions=[],
    clock_offset=0.0,
    clock_error=0.0,
)


def found(**changes: Any) -> list[str]:
    """The problems of a server with some other facts."""
    version = StoredVersion(migrations.newest(), migrations.newest())
    facts = DatabaseFacts(SOUND._replace(**changes), True, version, None)
    return [finding.problem for _, finding in diagnose(facts).findings]


def test_nothing_is_found_of_a_sound_server() -> None:
    assert found() == []


def test_names_of_checks_differ() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (14_0010, ["the server is Postgres 14"]),
        (15_0000, []),
        (18_0003, []),
        (19_0000, ["the server is Postgres 19"]),
    ],
)
def test_versions_that_are_not_tested(version: int, said: list[str]) -> None:
    assert found(version=version) == said


def test_data_checksums() -> None:
    assert found(settings={"data_checksums": "off"}) == ["data checksums are off"]


def test_a_difference_of_clocks_within_the_round_trip_is_none() -> None:
    assert found(clock_offset=3.0, clock_error=2.5) == []
    problem = "the server's clock is 3.0 s ahead of this host's"
    assert found(clock_offset=3.0, clock_error=0.5) == [problem]


def test_slots_in_use_may_hold_some_wal() -> None:
    used, late = Slot("used", True, 2**20), Slot("late", True, 3 * 2**30)
    problem = (
        "the active replication slot late holds 3,072 MiB of WAL, and max_slot_wal_keep_size sets "
        "no bound"
    )
    assert found(slots=[used, late]) == [problem]
    assert found(slots=[used, late], settings={"max_slot_wal_keep_size": "10240"}) == []


def test_synchronous_replication() -> None:
    assert found(standbys=["b", ""]) == [
        "replicas are attached (b, (unnamed)), but synchronous_standby_names is empty"
    ]
    assert found(standbys=["b"], settings={"synchronous_standby_names": "ANY 1 (*)"}) == []


def test_settings_of_all_roles() -> None:
    """Without a schema it is unknown which roles write."""
    setting = RoleSetting(None, False, "synchronous_commit", "off")
    other = RoleSetting("ada", False, "synchronous_commit", "off")
    problem = "synchronous_commit is off for all databases"
    assert found(role_settings=[setting, other]) == [problem]
