"""All checks of ``eventsched db doctor``. A new check is a function in one of the modules of checks
and a row here."""

from typing import NamedTuple

from eventsched.eventlog.inspection import access_checks, log_checks, server_checks
from eventsched.eventlog.inspection.database_facts import DatabaseFacts
from eventsched.eventlog.inspection.database_findings import Check, DatabaseFinding, Severity


def _lacks_schema(facts: DatabaseFacts) -> str:
    if not facts.is_readable:
        return "this user may not read the log: GRANT eventsched_auditor to it"
    return "" if facts.schema is not None else "the schema is not of this version"


def _lacks_revision(facts: DatabaseFacts) -> str:
    return "" if facts.is_readable else _lacks_schema(facts)


def _lacks_activity(facts: DatabaseFacts) -> str:
    if facts.server.transactions is None:
        return "this user may not see other sessions: GRANT pg_read_all_stats to it"
    return ""


CHECKS = (
    Check("durable writes", server_checks.durable_writes),
    Check("synchronous commit", server_checks.synchronous_commit),
    Check("writable", server_checks.writable),
    Check("schema revision", log_checks.revision, _lacks_revision),
    Check("head", log_checks.head, _lacks_schema),
    Check("append only", log_checks.append_only, _lacks_schema),
    Check("partitions", log_checks.partitions, _lacks_schema),
    Check("privileges", access_checks.privileges, _lacks_schema),
    Check("writers", access_checks.writers, _lacks_schema),
    Check("tenants", access_checks.tenants, _lacks_schema),
    Check("data checksums", server_checks.data_checksums),
    Check("synchronous replication", server_checks.synchronous_replication),
    Check("WAL level", server_checks.wal_level),
    Check("autovacuum", server_checks.autovacuum),
    Check("dead rows", log_checks.dead_rows, _lacks_schema),
    Check("open transactions", server_checks.open_transactions, _lacks_activity),
    Check("prepared transactions", server_checks.prepared_transactions),
    Check("replication slots", server_checks.replication_slots),
    Check("clock", server_checks.clock),
    Check("Postgres version", server_checks.version),
)


class Diagnosis(NamedTuple):
    """The findings by check, the worst first, and the checks that could not be made, with why."""

    findings: list[tuple[str, DatabaseFinding]]
    unchecked: dict[str, str]

    @property
    def is_refused(self) -> bool:
        """Whether the scheduler must not be trusted to run on this database."""
        return any(finding.severity is Severity.REFUSE for _, finding in self.findings)


def diagnose(facts: DatabaseFacts) -> Diagnosis:
    """Makes all checks whose facts are there."""
    unchecked = {check.name: reason for check in CHECKS if (reason := check.lacks(facts))}
    findings = [
        (check.name, finding)
        for check in CHECKS
        if check.name not in unchecked
        for finding in check.find(facts)
    ]
    findings.sort(key=lambda item: item[1].severity is not Severity.REFUSE)
    return Diagnosis(findings, unchecked)
