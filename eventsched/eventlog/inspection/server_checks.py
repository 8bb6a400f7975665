"""Checks of the server: durability, replication, upkeep, clock and version."""

from collections.abc import Iterator

from eventsched.eventlog.inspection.access_facts import WRITER
from eventsched.eventlog.inspection.database_facts import (
    DatabaseFacts,
    OpenTransaction,
    RoleSetting,
)
from eventsched.eventlog.inspection.database_findings import DatabaseFinding, refuse, warn

TESTED_VERSIONS = (15, 18)
"""The oldest and the newest major version of Postgres that eventsched is tested with."""
LONG_TRANSACTION = 3600
"""Seconds after which an open transaction is found."""
HELD_WAL = 2**30
"""Bytes of WAL that a replication slot in use may hold before it is found."""
CLOCK_DIFFERENCE = 1.0
"""Seconds that the clocks of the server and of this host may differ."""
_OFF, _ON = ("off", "false", "no", "0"), ("on", "true", "yes", "1")
_RELOAD = "SELECT pg_reload_conf()"


def durable_writes(facts: DatabaseFacts) -> Iterator[DatabaseFinding]:
    """fsync and full_page_writes."""
    losses = {
        "fsync": "a crash of the machine can lose committed decisions or damage the log, and pods "
        "have been bound by decisions that are then unknown",
        "full_page_writes": "a crash of the machine can leave torn pages, which damage the log "
        "without a trace in the WAL",
    }
    for name, why in losses.items():
        if facts.server.settings.get(name) == "off":
            yield refuse(f"{name} is off", why, f"ALTER SYSTEM SET {name} = on; {_RELOAD}")


def synchronous_commit(facts: DatabaseFacts) -> Iterator[DatabaseFinding]:
    """synchronous_commit as the writers' logins get it."""
    why = (
        "the scheduler sets it to on for its own sessions, but other writers of the log, and a "
        "pooler in transaction mode, get this value: a failover or a crash can lose their commits"
    )
    for value, place, remedy in _effective(facts, "synchronous_commit"):
        if value in (*_OFF, "local"):
            yield warn(f"synchronous_commit is {value} for {place}", why, remedy)


def writable(facts: DatabaseFacts) -> Iterator[DatabaseFinding]:
    """Whether a writer can write at all."""
    why = "the scheduler can append nothing here, so it decides nothing"
    if facts.server.is_in_recovery:
        yield refuse(
            "the server is in recovery: it is a standby, or is being restored",
            why,
            "connect to the primary, or promote this server: SELECT pg_promote()",
        )
    for value, place, remedy in _effective(facts, "default_transaction_read_only"):
        if value in _ON:
            yield refuse(f"default_transaction_read_only is on for {place}", why, remedy)


def data_checksums(facts: DatabaseFacts) -> Iterator[DatabaseFinding]:
    """Checksums of pages."""
    if facts.server.settings.get("data_checksums") == "off":
        yield warn(
            "data checksums are off",
            "Postgres does not notice if the disk returns damaged pages; `eventsched verify` finds "
            "that only when it is run",
            "stop the server and run pg_checksums --enable",
        )


def synchronous_replication(facts: DatabaseFacts) -> Iterator[DatabaseFinding]:
    """Replicas without synchronous replication."""
    standbys = facts.server.standbys
    if standbys and not facts.server.settings.get("synchronous_standby_names"):
        names = ", ".join(name or "(unnamed)" for name in standbys)
        yield warn(
            f"replicas are attached ({names}), but synchronous_standby_names is empty",
            "a failover to a replica can lose the last decisions; pods that they bound are then "
            "fenced and decided again",
            f"ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'; {_RELOAD}",
        )


def wal_level(facts: DatabaseFacts) -> Iterator[DatabaseFinding]:
    """A WAL that no replica or backup can use."""
    if facts.server.settings.get("wal_level") == "minimal":
        yield warn(
            "wal_level is minimal",
            "neither replicas nor base backups with archived WAL are possible, only dumps",
            "ALTER SYSTEM SET wal_level = replica, then restart the server",
        )


def autovacuum(facts: DatabaseFacts) -> Iterator[DatabaseFinding]:
    """Upkeep by the server itself."""
    for name in ("autovacuum", "track_counts"):
        if facts.server.settings.get(name) == "off":
            yield warn(
                f"{name} is off",
                "dead rows of the streams' heads pile up, and every append becomes slower; "
                "estimates of the planner become wrong",
                f"ALTER SYSTEM SET {name} = on; {_RELOAD}",
            )


def replication_slots(facts: DatabaseFacts) -> Iterator[DatabaseFinding]:
    """Slots that hold WAL without a bound."""
    if facts.server.settings.get("max_slot_wal_keep_size") != "-1":
        return
    for slot in facts.server.slots:
        if slot.is_active and slot.held_bytes < HELD_WAL:
            continue
        state = "active" if slot.is_active else "unused"
        yield warn(
            f"the {state} replication slot {slot.name} holds {slot.held_bytes / 2**20:,.0f} MiB of "
            "WAL, and max_slot_wal_keep_size sets no bound",
            "the WAL can fill the disk, and then nothing is decided; an unused slot also keeps "
            "VACUUM from removing dead rows",
            f"SELECT pg_drop_replication_slot('{slot.name}') if nothing needs it; else "
            f"ALTER SYSTEM SET max_slot_wal_keep_size = '10GB'; {_RELOAD}",
        )


def open_transactions(facts: DatabaseFacts) -> Iterator[DatabaseFinding]:
    """Sessions that keep dead rows."""
    for each in facts.server.transactions or ():
        if each.seconds >= LONG_TRANSACTION:
            application = f" ({each.application})" if each.application else ""
            yield _long_transaction(
                each,
                f"session {each.name} of user {each.user}{application}",
                f"SELECT pg_terminate_backend({each.name})",
            )


def prepared_transactions(facts: DatabaseFacts) -> Iterator[DatabaseFinding]:
    """Prepared transactions that were forgotten. They outlive sessions and restarts."""
    for each in facts.server.prepared:
        if each.seconds >= LONG_TRANSACTION:
            yield _long_transaction(
                each,
                f"the prepared transaction {each.name} of user {each.user}",
                f"ROLLBACK PREPARED {each.name}, or COMMIT PREPARED",
            )


def clock(facts: DatabaseFacts) -> Iterator[DatabaseFinding]:
    """The server's clock against this host's."""
    server = facts.server
    if abs(server.clock_offset) - server.clock_error <= CLOCK_DIFFERENCE:
        return
    direction = "ahead of" if server.clock_offset > 0 else "behind"
    yield warn(
        f"the server's clock is {abs(server.clock_offset):,.1f} s {direction} this host's",
        "times of epochs and requests are the server's, times of decisions a replica's, so they "
        "cannot be compared; `--since` and the growth of `db stats` are off by as much",
        "synchronise both clocks, for example with chrony",
    )


def version(facts: DatabaseFacts) -> Iterator[DatabaseFinding]:
    """A Postgres that eventsched is not tested with."""
    oldest, newest = TESTED_VERSIONS
    major = facts.server.version // 10_000
    if not oldest <= major <= newest:
        yield warn(
            f"the server is Postgres {major}",
            f"eventsched is tested with Postgres {oldest} and {newest}",
            f"use Postgres {newest}",
        )


def _long_transaction(transaction: OpenTransaction, what: str, remedy: str) -> DatabaseFinding:
    hours = transaction.seconds / 3600
    return warn(
        f"{what} has been open for {hours:,.1f} h",
        "VACUUM cannot remove what became dead meanwhile, so the streams' heads grow and every "
        "append becomes slower",
        remedy,
    )


def _effective(facts: DatabaseFacts, name: str) -> Iterator[tuple[str, str, str]]:
    """(value, place, statement that resets it) of a setting as the writers' logins get it, each
    place once. The most specific one holds: a role in a database, a role, a database, the server.
    """
    server = facts.server
    access = facts.schema.access if facts.schema else None
    logins = [login.name for login in access.logins if WRITER in login.roles] if access else []
    if access and not logins:
        logins = [access.owner]
    places: dict[tuple[str, str, str], None] = {}
    for login in logins or [""]:
        matching = [
            each
            for each in server.role_settings
            if each.name == name and each.role in (None, login)
        ]
        if matching:
            best = max(matching, key=lambda each: (each.role is not None, each.in_database))
            places[best.value, *_place(best, server.database)] = None
        elif name in server.settings:
            remedy = f"ALTER SYSTEM RESET {name}; {_RELOAD}"
            places[server.settings[name], "the whole server", remedy] = None
    return iter(places)


def _place(setting: RoleSetting, database: str) -> tuple[str, str]:
    """The place of a setting in words, and the statement that resets it."""
    where = f"database {database}" if setting.in_database else "all databases"
    if setting.role is None:
        target = f"DATABASE {database}" if setting.in_database else "ROLE ALL"
        return where, f"ALTER {target} RESET {setting.name}"
    within = f" IN DATABASE {database}" if setting.in_database else ""
    return f"role {setting.role} in {where}", (
        f"ALTER ROLE {setting.role}{within} RESET {setting.name}"
    )
