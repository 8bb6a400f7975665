"""Checks of roles and rights: who could write the log other than by appending to it."""

from collections import defaultdict
from collections.abc import Iterator

from eventsched.eventlog.inspection.access_facts import WRITER, Privilege
from eventsched.eventlog.inspection.database_facts import DatabaseFacts
from eventsched.eventlog.inspection.database_findings import DatabaseFinding, refuse, warn

_MIGRATOR, _TENANT = "eventsched_migrator", "eventsched_tenant"
_MOST_OBJECTS = 3
"""Objects that a finding names; more are counted."""


def writers(facts: DatabaseFacts) -> Iterator[DatabaseFinding]:
    """Logins that write the log and could also rewrite it."""
    if facts.schema is None:
        return
    access = facts.schema.access
    why = (
        "a user who has its password can rewrite the log: a superuser or an owner can switch the "
        "triggers off that deny it"
    )
    logins = [login for login in access.logins if WRITER in login.roles]
    for login in logins:
        if login.is_superuser:
            problem = f"role {login.name} is a superuser and a member of {WRITER}"
            yield warn(problem, why, f"ALTER ROLE {login.name} NOSUPERUSER")
        elif login.owns_schema:
            if login.name == access.owner:
                remedy = "ALTER SCHEMA eventsched_log OWNER TO eventsched_owner"
            else:
                role = _MIGRATOR if _MIGRATOR in login.roles else access.owner
                remedy = f"REVOKE {role} FROM {login.name}"
            problem = f"role {login.name} owns the schema and is a member of {WRITER}"
            yield warn(problem, why, remedy)
    if not logins and access.owner_can_login:
        yield warn(
            f"the schema belongs to {access.owner}, which can log in, and no login is a "
            f"member of {WRITER}",
            why,
            "use roles (docs/deploy.md#postgres), or keep signed checkpoints elsewhere "
            "(docs/verification.md#checkpoints)",
        )


def tenants(facts: DatabaseFacts) -> Iterator[DatabaseFinding]:
    """Tenants who see more than their namespaces, and grants of tenants that do not exist."""
    if facts.schema is None:
        return
    for login in facts.schema.access.logins:
        if _TENANT not in login.roles:
            continue
        why = "it sees the decisions about all namespaces"
        others = [role for role in login.roles if role != _TENANT]
        if login.is_superuser:
            problem = f"role {login.name} is a superuser and a member of {_TENANT}"
            yield warn(problem, why, f"ALTER ROLE {login.name} NOSUPERUSER")
        elif others:
            roles = ", ".join(others)
            problem = f"role {login.name} is a member of {_TENANT} and of {roles}"
            yield warn(problem, why, f"REVOKE {roles} FROM {login.name}")
    for role, namespace in facts.schema.access.lost_grants:
        yield warn(
            f"role {role}, which does not exist, is granted namespace {namespace}",
            "a role of that name that is created later sees that namespace",
            f"eventsched db grant --role {role} --namespace {namespace} --revoke",
        )


def privileges(facts: DatabaseFacts) -> Iterator[DatabaseFinding]:
    """Rights that the migrations do not give: of PUBLIC and of eventsched's roles."""
    if facts.schema is None:
        return
    groups: dict[tuple[str, str, bool], list[Privilege]] = defaultdict(list)
    for right in facts.schema.access.privileges:
        groups[right.role, right.name, right.may_write].append(right)
    for (role, name, may_write), rights in groups.items():
        objects = [right.object for right in rights]
        shown = ", ".join(objects[:_MOST_OBJECTS])
        if len(objects) > _MOST_OBJECTS:
            shown += f" and {len(objects) - _MOST_OBJECTS} more"
        who = "every user of the database" if role == "PUBLIC" else f"every member of {role}"
        revoke = "; ".join(f"REVOKE {name} ON {each} FROM {role}" for each in objects)
        if may_write:
            why = f"{who} can change the log, or write it past the fence of the leader's epoch"
            yield refuse(f"{role} has {name} on {shown}", why, revoke)
        else:
            yield warn(f"{role} has {name} on {shown}", f"{who} can read the log", revoke)
