"""Facts about access to the log: roles, their members, and rights that no migration gives."""

from typing import Any, NamedTuple

import psycopg

WRITER = "eventsched_writer"
_OWNER = """
SELECT quote_ident(r.rolname), r.rolcanlogin
FROM pg_namespace n JOIN pg_roles r ON r.oid = n.nspowner
WHERE n.nspname = 'eventsched_log'
"""
# Postgres 16 adds members who may neither use nor take on the role: those who created it.
_LOGINS = """
WITH RECURSIVE edge AS (
    SELECT m.roleid, m.member FROM pg_auth_members m
    WHERE coalesce((to_jsonb(m) ->> 'inherit_option')::boolean, true)
       OR coalesce((to_jsonb(m) ->> 'set_option')::boolean, true)
), membership AS (
    SELECT oid AS role, oid AS member FROM pg_roles
    WHERE rolname = ANY(%s) OR oid = (SELECT nspowner FROM pg_namespace
                                      WHERE nspname = 'eventsched_log')
    UNION SELECT m.role, e.member FROM membership m JOIN edge e ON e.roleid = m.member
)
SELECT quote_ident(r.rolname), r.rolsuper,
       coalesce(bool_or(m.role = (SELECT nspowner FROM pg_namespace
                                  WHERE nspname = 'eventsched_log')), false),
       coalesce(array_agg(g.rolname::text ORDER BY g.rolname)
                FILTER (WHERE g.rolname = ANY(%s)), '{}')
FROM pg_roles r JOIN membership m ON m.member = r.oid JOIN pg_roles g ON g.oid = m.role
WHERE r.rolcanlogin AND r.rolname <> ALL(%s) GROUP BY r.rolname, r.rolsuper ORDER BY 1
"""
_OBJECTS = """
WITH ours AS (SELECT * FROM pg_namespace WHERE nspname IN ('eventsched', 'eventsched_log')),
object AS (
    SELECT 'SCHEMA ' || nspname AS name, nspacl AS acl, true AS is_powerful FROM ours
    UNION ALL
    SELECT 'TABLE ' || n.nspname || '.' || c.relname, c.relacl, true
    FROM pg_class c JOIN ours n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'v', 'm')
    UNION ALL
    SELECT 'FUNCTION ' || p.oid::regprocedure, coalesce(p.proacl, acldefault('f', p.proowner)),
           p.prosecdef AND p.provolatile = 'v'
    FROM pg_proc p JOIN ours n ON n.oid = p.pronamespace
)
"""
_PUBLIC = f"""
{_OBJECTS}
SELECT 'PUBLIC', a.privilege_type, o.name,
       a.privilege_type NOT IN ('SELECT', 'USAGE', 'EXECUTE')
       OR (a.privilege_type = 'EXECUTE' AND o.is_powerful)
FROM object o CROSS JOIN LATERAL aclexplode(o.acl) a WHERE a.grantee = 0 ORDER BY 3, 2
"""
# Rights to change the log that the migrations give to no role except the owner. A function that is
# not volatile cannot write.
_WRITES = """
SELECT r.rolname::text, p.name, 'TABLE ' || c.relnamespace::regnamespace || '.' || c.relname, true
FROM pg_roles r CROSS JOIN pg_class c
CROSS JOIN unnest(ARRAY['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE']) WITH ORDINALITY p (name, n)
WHERE r.rolname = ANY(%(all)s) AND c.relkind IN ('r', 'p')
AND c.relnamespace = 'eventsched_log'::regnamespace AND has_table_privilege(r.oid, c.oid, p.name)
AND NOT (r.rolname = 'eventsched_migrator' AND c.relname = 'migration')
UNION ALL
SELECT r.rolname::text, 'EXECUTE', 'FUNCTION ' || p.oid::regprocedure, true
FROM pg_roles r CROSS JOIN pg_proc p
WHERE r.rolname = ANY(%(all)s) AND r.rolname <> 'eventsched_writer'
AND p.prosecdef AND p.provolatile = 'v'
AND p.pronamespace = 'eventsched_log'::regnamespace
AND has_function_privilege(r.oid, p.oid, 'EXECUTE')
AND NOT (r.rolname = 'eventsched_archiver'
         AND p.proname IN ('note_archived', 'prune', 'prune_names'))
ORDER BY 1, 3, 2
"""
# Rights to read that the migrations do not give: readers have no table with records, tenants none.
_READS = """
SELECT r.rolname::text, 'SELECT', 'TABLE ' || n.nspname || '.' || c.relname, false
FROM pg_roles r CROSS JOIN pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm') AND n.nspname IN ('eventsched', 'eventsched_log')
AND (r.rolname = 'eventsched_tenant' OR r.rolname = 'eventsched_reader' AND (
         n.nspname = 'eventsched_log' AND c.relname NOT IN ('migration', 'stream')
         OR n.nspname = 'eventsched' AND c.relname = 'events'))
AND has_table_privilege(r.oid, c.oid, 'SELECT')
UNION ALL
SELECT r.rolname::text, 'EXECUTE', 'FUNCTION ' || p.oid::regprocedure, false
FROM pg_roles r CROSS JOIN pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname IN ('eventsched', 'eventsched_log') AND r.rolname = 'eventsched_tenant'
AND NOT (n.nspname = 'eventsched' AND starts_with(p.proname, 'tenant_'))
AND NOT (p.prosecdef AND p.provolatile = 'v')
AND has_function_privilege(r.oid, p.oid, 'EXECUTE')
ORDER BY 1, 3, 2
"""
_LOST_GRANTS = """
SELECT quote_ident(g.role), g.namespace FROM eventsched_log.tenant_grant g
WHERE NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = g.role)
GROUP BY g.role, g.namespace ORDER BY 1, 2
"""
_ROLES = [
    f"eventsched_{name}"
    for name in ("migrator", "writer", "reader", "auditor", "archiver", "tenant")
]

# Names of roles are quoted as SQL needs it.


class Login(NamedTuple):
    """A role that can log in and is a member of some of eventsched's roles. ``owns_schema``: it is
    the owner of the schema or a member of the owner's role."""

    name: str
    is_superuser: bool
    owns_schema: bool
    roles: tuple[str, ...]


class Privilege(NamedTuple):
    """A right that no migration gives: role, name and object as in GRANT. ``may_write``: it lets
    the role change the log."""

    role: str
    name: str
    object: str
    may_write: bool


class AccessFacts(NamedTuple):
    """Roles and rights. ``lost_grants``: (role, namespace) of tenants' grants whose role does not
    exist."""

    owner: str
    owner_can_login: bool
    logins: list[Login]
    privileges: list[Privilege]
    lost_grants: list[tuple[str, str]]


def read_access(connection: psycopg.Connection[Any]) -> AccessFacts:
    """Reads the facts of a database with this version's schema. Raises psycopg.Error."""
    execute = connection.execute
    public = [Privilege(*row) for row in execute(_PUBLIC).fetchall()]
    of_all = {(right.name, right.object) for right in public}
    own = [
        Privilege(*row)
        for query in (_WRITES, _READS)
        for row in execute(query, {"all": _ROLES}).fetchall()
    ]
    [(owner, can_login)] = execute(_OWNER).fetchall()
    return AccessFacts(
        owner=owner,
        owner_can_login=can_login,
        logins=[
            Login(name, is_superuser, owns_schema, tuple(roles))
            for name, is_superuser, owns_schema, roles in execute(
                _LOGINS, [_ROLES, _ROLES, _ROLES]
            ).fetchall()
        ],
        privileges=public + [right for right in own if (right.name, right.object) not in of_all],
        lost_grants=execute(_LOST_GRANTS).fetchall(),
    )
