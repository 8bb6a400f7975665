"""Verifies that functions, views, triggers, constraints, grants and roles are those that this
version's migrations create.

``schema.json`` holds a digest of each object; ``make schema-facts`` writes it from migrated
databases. Sources of functions are compared as they were written. Objects that Postgres deparses
(views, constraints, indexes, triggers) may look different on another major version, and are
compared only on the versions that the file was made on.
"""

import json
from collections.abc import Iterator
from hashlib import sha256
from importlib.resources import files
from typing import Any

import psycopg

SCHEMAS = ("eventsched", "eventsched_log")
_ROLES = (
    "eventsched_owner", "eventsched_migrator", "eventsched_writer", "eventsched_reader",
    "eventsched_auditor", "eventsched_archiver", "eventsched_tenant",
)  # fmt: skip
_FACTS = r"""
WITH ours AS (SELECT oid, nspname FROM pg_namespace
              WHERE nspname IN ('eventsched', 'eventsched_log')),
rel AS (SELECT c.*, n.nspname || '.' || CASE WHEN c.relispartition
               THEN regexp_replace(c.relname, '_\d+_\d+$', '_#') ELSE c.relname END AS name
        FROM pg_class c JOIN ours n ON n.oid = c.relnamespace)
SELECT 'owner of schema', n.nspname::text, false, pg_get_userbyid(s.nspowner)::text
FROM ours n JOIN pg_namespace s ON s.oid = n.oid
UNION ALL
SELECT 'function', p.oid::regprocedure::text, false,
       concat_ws(' ', l.lanname, p.prosecdef, p.provolatile, p.proconfig,
                 pg_get_userbyid(p.proowner), p.prosrc)
FROM pg_proc p JOIN ours n ON n.oid = p.pronamespace JOIN pg_language l ON l.oid = p.prolang
UNION ALL
SELECT 'view', name, true, concat_ws(' ', pg_get_userbyid(relowner), reloptions,
       pg_get_viewdef(oid)) FROM rel WHERE relkind IN ('v', 'm')
UNION ALL
SELECT 'table', name, false, concat_ws(' ', relkind, relpersistence, relrowsecurity,
       pg_get_userbyid(relowner),
       (SELECT string_agg(concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod),
                                    a.attnotnull, a.attidentity,
                                    pg_get_expr(d.adbin, d.adrelid)), ', ' ORDER BY a.attname)
        FROM pg_attribute a
        LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE a.attrelid = rel.oid AND a.attnum > 0 AND NOT a.attisdropped))
FROM rel WHERE relkind NOT IN ('v', 'm', 'i', 'I', 't', 'S', 'c')
UNION ALL
SELECT 'index', name, true, pg_get_indexdef(oid) FROM rel
WHERE relkind IN ('i', 'I') AND NOT relispartition
UNION ALL
SELECT 'constraint', r.name || '.' || c.conname, true,
       concat_ws(' ', c.convalidated, pg_get_constraintdef(c.oid))
FROM pg_constraint c JOIN rel r ON r.oid = c.conrelid WHERE c.contype IN ('p', 'u', 'f', 'c', 'x')
AND NOT r.relispartition
UNION ALL
SELECT 'trigger', r.name || '.' || t.tgname, true,
       concat_ws(' ', t.tgenabled, CASE WHEN r.relispartition
           THEN regexp_replace(pg_get_triggerdef(t.oid), '_\d+_\d+ ', '_# ')
           ELSE pg_get_triggerdef(t.oid) END)
FROM pg_trigger t JOIN rel r ON r.oid = t.tgrelid WHERE NOT t.tgisinternal
AND (NOT r.relispartition OR pg_get_triggerdef(t.oid) IS NOT NULL)  -- dropped meanwhile
UNION ALL
SELECT 'rule', r.name || '.' || w.rulename, true, pg_get_ruledef(w.oid)
FROM pg_rewrite w JOIN rel r ON r.oid = w.ev_class
WHERE NOT (w.rulename = '_RETURN' AND r.relkind IN ('v', 'm'))
UNION ALL
SELECT 'policy', r.name || '.' || p.polname, true, pg_get_expr(p.polqual, p.polrelid)
FROM pg_policy p JOIN rel r ON r.oid = p.polrelid
UNION ALL
SELECT 'type', n.nspname || '.' || t.typname, false,
       (SELECT string_agg(e.enumlabel, ',' ORDER BY e.enumsortorder) FROM pg_enum e
        WHERE e.enumtypid = t.oid)
FROM pg_type t JOIN ours n ON n.oid = t.typnamespace WHERE t.typtype IN ('e', 'd', 'r')
"""
_GRANTS = r"""
SELECT what, coalesce(r.rolname, 'PUBLIC')::text,
       a.privilege_type || CASE WHEN a.is_grantable THEN '*' ELSE '' END
FROM (
    SELECT 'schema ' || nspname AS what, nspacl AS acl, nspowner AS owner FROM pg_namespace
    WHERE nspname IN ('eventsched', 'eventsched_log')
    UNION ALL
    SELECT 'function ' || p.oid::regprocedure, coalesce(p.proacl, acldefault('f', p.proowner)),
           p.proowner
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname IN ('eventsched', 'eventsched_log')
    UNION ALL
    SELECT n.nspname || '.' || CASE WHEN c.relispartition
               THEN regexp_replace(c.relname, '_\d+_\d+$', '_#') ELSE c.relname END,
           c.relacl, c.relowner
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname IN ('eventsched', 'eventsched_log') AND c.relkind NOT IN ('i', 'I', 'S', 't')
    UNION ALL
    SELECT n.nspname || '.' || c.relname || '.' || t.attname, t.attacl, c.relowner
    FROM pg_attribute t JOIN pg_class c ON c.oid = t.attrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname IN ('eventsched', 'eventsched_log') AND t.attacl IS NOT NULL
) o CROSS JOIN LATERAL aclexplode(o.acl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
WHERE a.grantee <> o.owner
"""
_ATTRIBUTES = """
SELECT rolname::text, concat_ws(' ',
       CASE WHEN rolsuper THEN 'SUPERUSER' END, CASE WHEN rolcreaterole THEN 'CREATEROLE' END,
       CASE WHEN rolcreatedb THEN 'CREATEDB' END, CASE WHEN rolreplication THEN 'REPLICATION' END,
       CASE WHEN rolbypassrls THEN 'BYPASSRLS' END,
       CASE WHEN rolcanlogin AND rolname = 'eventsched_owner' THEN 'LOGIN' END)
FROM pg_roles WHERE rolname = ANY(%s)
"""

Facts = dict[str, str]


def major(connection: psycopg.Connection[Any]) -> str:
    """The server's major version."""
    return str(connection.info.server_version // 10_000)


def facts(connection: psycopg.Connection[Any]) -> Facts:
    """The digests of all objects by kind and name. The names of deparsed objects include the
    server's major version. All partitions of a table share a name, with # for their numbers, and a
    digest that no others have if they are not alike; Postgres itself sees to it that they have the
    indexes and constraints of their table."""
    digests: Facts = {}
    with connection.transaction():
        connection.execute("SET LOCAL search_path = pg_catalog")
        owner = connection.execute(
            "SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = 'eventsched_log'"
        ).fetchone()
        for kind, name, deparsed, text in connection.execute(_FACTS).fetchall():
            suffix = f" on {major(connection)}" if deparsed else ""
            digest, fact = _digest(_with_standard_owner(str(text), owner)), f"{kind} {name}{suffix}"
            alike = digests.get(fact, digest) == digest
            digests[fact] = digest if alike else _digest(digests[fact] + digest)
        grants: dict[str, list[str]] = {}
        if owner is not None and owner[0] == _ROLES[0]:
            for name, role, privilege in connection.execute(_GRANTS).fetchall():
                grants.setdefault(f"grants on {name} to {role}", []).append(privilege)
            for role, attributes in connection.execute(_ATTRIBUTES, [list(_ROLES)]).fetchall():
                digests[f"attributes of role {role}"] = _digest(attributes)
        for name, privileges in grants.items():
            digests[name] = _digest(",".join(sorted(set(privileges))))
    return digests


def differences(connection: psycopg.Connection[Any]) -> list[str]:
    """One line for each object that differs from what the migrations create. Raises
    psycopg.Error."""
    row = connection.execute("SELECT version_num FROM eventsched_log.migration").fetchone()
    revision = row[0] if row else ""
    known = expected()
    if revision != known["revision"]:
        return [
            f"the database is at revision {revision}, expected {known['revision']}; only the "
            "version of that revision can compare it"
        ]
    found = list(_compared(facts(connection), known["facts"], major(connection)))
    if found:  # a scheduler may drop partitions meanwhile, each table in a moment of its own
        again = set(_compared(facts(connection), known["facts"], major(connection)))
        found = [difference for difference in found if difference in again]
    return found


def expected() -> dict[str, Any]:
    """The content of schema.json: ``revision``, and ``facts`` with the digests by name."""
    content: dict[str, Any] = json.loads(files(__package__).joinpath("schema.json").read_text())
    return content


def _compared(actual: Facts, expected_facts: Facts, version: str) -> Iterator[str]:
    has_version = any(name.endswith(f" on {version}") for name in expected_facts)
    has_roles = any(name.startswith("attributes of") for name in actual)
    has_partitions = any("_#" in name for name in actual)
    for name, digest in sorted(expected_facts.items()):
        if "_#" in name and not has_partitions:
            continue
        bare, _, place = name.rpartition(" on ") if _is_deparsed(name) else (name, "", version)
        if place != version or (not has_roles and name.startswith(("grants", "attributes"))):
            continue
        if name not in actual:
            yield f"{bare} is missing"
        elif actual[name] != digest:
            yield f"{bare} was changed"
    for name in sorted(actual.keys() - expected_facts.keys()):
        if _is_deparsed(name) and not has_version:
            continue
        bare = name.rpartition(" on ")[0] if _is_deparsed(name) else name
        yield f"{bare} is not of the migrations"


def _is_deparsed(name: str) -> bool:
    return name.startswith(("view ", "index ", "constraint ", "trigger ", "rule ", "policy "))


def _with_standard_owner(text: str, owner: tuple[str] | None) -> str:
    """The text with the owner's name replaced by eventsched_owner: in a database without roles the
    owner is another user."""
    return text if owner is None or owner[0] == _ROLES[0] else text.replace(owner[0], _ROLES[0])


def _digest(text: str) -> str:
    return sha256(" ".join(text.split()).encode()).hexdigest()[:16]
