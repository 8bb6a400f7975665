"""Facts about the servers of a union, asked by the union's server, which will ask them later."""

from collections.abc import Sequence
from typing import Any

import msgspec
import psycopg
from psycopg import sql

from eventsched.domain.errors import InputError, UnavailableError
from eventsched.eventlog.union.union_members import UnionMember

_COLLATION = """
SELECT concat_ws(' ', CASE d.datlocprovider WHEN 'i' THEN 'ICU' WHEN 'b' THEN 'builtin'
                           ELSE 'libc' END,
                 CASE d.datlocprovider WHEN 'c' THEN d.datcollate ELSE
                     coalesce(to_jsonb(d) ->> 'datlocale', to_jsonb(d) ->> 'daticulocale') END)
FROM pg_database d WHERE d.datname = current_database()
"""
"""The default collation of a database: the union merges what its servers have sorted by it."""
_FACTS = f"""
SELECT json_build_object(
    'schema', (SELECT version_num FROM eventsched_log.migration),
    'collation', ({_COLLATION}),
    'may_write', has_table_privilege('eventsched_log.batch', 'INSERT') OR EXISTS (
        SELECT FROM pg_roles WHERE rolname = 'eventsched_writer' AND pg_has_role(oid, 'USAGE')),
    'functions', (
        SELECT coalesce(json_agg(json_build_object(
            'name', p.proname, 'inputs', p.proargnames[1:p.pronargs],
            'arguments', pg_get_function_arguments(p.oid),
            'columns', substr(pg_get_function_result(p.oid), length('TABLE') + 1)
        ) ORDER BY p.proname), '[]')
        FROM pg_proc p WHERE p.pronamespace = 'eventsched'::regnamespace AND p.proretset
        AND has_function_privilege(p.oid, 'EXECUTE')  -- those of tenants are for tenants
    ),
    'comments', (
        SELECT coalesce(json_object_agg(c.relname, obj_description(c.oid, 'pg_class')), '{{}}')
        FROM pg_class c WHERE c.relnamespace = 'eventsched'::regnamespace AND c.relkind = 'v')
)::text
"""


class LogFunction(msgspec.Struct, frozen=True):
    """A function of schema eventsched that returns rows: the names of its arguments, its arguments
    and its columns as SQL has them."""

    name: str
    inputs: list[str]
    arguments: str
    columns: str


class MemberFacts(msgspec.Struct, frozen=True):
    """A server's revision of the schema, default collation, functions, and comments of views by
    name; ``may_write``: whether the login could change the log."""

    schema: str
    collation: str
    may_write: bool
    functions: list[LogFunction]
    comments: dict[str, str | None]


def read_member_facts(
    connection: psycopg.Connection[Any], members: Sequence[UnionMember]
) -> list[MemberFacts]:
    """The facts of each member. Raises InputError if they do not fit together, or a login may do
    more than read, and UnavailableError if one cannot be reached."""
    facts = [_facts(connection, member) for member in members]
    own = connection.execute(_COLLATION.encode()).fetchone()
    assert own is not None
    for member, found in zip(members, facts, strict=True):
        where = f"--member {member.name}"
        if found.may_write:
            user = member.login["user"]
            problem = f"user {user} may change the log"
            remedy = "name a login that can only read, such as a member of eventsched_auditor"
            raise InputError(where, problem, remedy)
        if found.schema != facts[0].schema:
            problem = f"has schema {found.schema}, and {members[0].name} has {facts[0].schema}"
            remedy = "bring both to the same one with `eventsched db upgrade`"
            raise InputError(where, problem, remedy)
        if found.collation != own[0]:
            problem = f"sorts text by {found.collation}, and the union's database by {own[0]}"
            remedy = "CREATE DATABASE … TEMPLATE template0 with the locale of the servers"
            raise InputError(where, problem, remedy)
    return facts


def _facts(connection: psycopg.Connection[Any], member: UnionMember) -> MemberFacts:
    where = f"--member {member.name}"
    schema = connection.execute(
        "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'dblink'"
    ).fetchone()
    assert schema is not None
    query = sql.SQL("SELECT facts FROM {}.dblink({}, {}) AS t (facts text)").format(
        sql.Identifier(schema[0]), member.name, _FACTS
    )
    try:
        row = connection.execute(query).fetchone()
    except psycopg.errors.SqlclientUnableToEstablishSqlconnection as problem:
        message = (problem.diag.message_detail or str(problem)).strip().splitlines()[0]
        remedy = "start the server, or correct its address; the union's server connects to it"
        raise UnavailableError(where, message, remedy) from problem
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as problem:
        remedy = "run `eventsched db upgrade` on it, or correct the address"
        raise InputError(where, "has no eventsched schema", remedy) from problem
    except psycopg.errors.InsufficientPrivilege as problem:
        message = problem.diag.message_primary or "it may not read the log"
        remedy = f"GRANT eventsched_auditor TO {member.login['user']} there"
        raise InputError(where, message, remedy) from problem
    except psycopg.Error as problem:
        message = (problem.diag.message_primary or str(problem)).strip().splitlines()[0]
        raise InputError(where, message, "correct its address, or its login") from problem
    assert row is not None
    return msgspec.json.decode(row[0], type=MemberFacts)
