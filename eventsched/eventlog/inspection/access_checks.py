"""Checks of roles and rights: who could write the log other than by appending to it."""

from collections import defaultdict
from collections.abc import Iterator

from eventsched.eventlog.inspection.database_facts import DatabaseFacts, Privilege
from eventsched.eventlog.inspection.database_findings import DatabaseFinding, refuse, warn

_MOST_OBJECTS = 3
"""Objects that a finding names; more are counted."""


def writers(facts: DatabaseFacts) -> Iterator[DatabaseFinding]:
    """Logins that write the log and could also rewrite it."""
    if facts.schema is None:
        return
    why = (
        "a user who has its password can rewrite the log: a superuser or an owner can switch the "
        "triggers off that deny it"
    )
    for login in facts.schema.logins:
        if login.is_superuser:
            problem = f"role {login.name} is a superuser and a member of eventsched_writer"
            yield warn(problem, why, f"ALTER ROLE {login.name} NOSUPERUSER")
        elif login.owns_schema:
            owner = facts.schema.owner
            if login.name == owner:
                remedy = "ALTER SCHEMA eventsched_log OWNER TO eventsched_owner"
            else:
                remedy = f"REVOKE {owner} FROM {login.name}"
            problem = f"role {login.name} owns the schema and is a member of eventsched_writer"
            yield warn(problem, why, remedy)
    if not facts.schema.logins and facts.schema.owner_can_login:
        yield warn(
            f"the schema belongs to {facts.schema.owner}, which can log in, and no login is a "
            "member of eventsched_writer",
            why,
            "use roles (docs/deploy.md#postgres), or keep signed checkpoints elsewhere "
            "(docs/verification.md#checkpoints)",
        )


def privileges(facts: DatabaseFacts) -> Iterator[DatabaseFinding]:
    """Rights that the migrations do not give: of PUBLIC, of readers, of writers."""
    if facts.schema is None:
        return
    groups: dict[tuple[str, str, bool], list[Privilege]] = defaultdict(list)
    for right in facts.schema.privileges:
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
