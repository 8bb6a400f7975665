"""The SQL of a union's database: foreign servers and tables, and views and functions over them.

Schema ``eventsched`` has the views and functions for people, ``member_NAME`` the foreign tables of
one server, ``eventsched_union`` what the functions need. Readers get ``eventsched`` alone; views
and functions reach the servers with the login that belongs to the owner of the union.
"""

from collections.abc import Iterator, Mapping, Sequence

from psycopg import sql

from eventsched.eventlog.union.member_facts import LogFunction
from eventsched.eventlog.union.union_members import UnionMember

Statement = sql.SQL | sql.Composed

_FETCH_SIZE = "1000"
"""Rows that are fetched at a time."""
_NO_PASSWORD = {"password_required": "false"}
"""The server's own means, such as a password file or a certificate, are allowed."""

EXTENSIONS = (
    "CREATE EXTENSION IF NOT EXISTS postgres_fdw",
    "CREATE SCHEMA IF NOT EXISTS eventsched_union",
    "CREATE EXTENSION IF NOT EXISTS dblink SCHEMA eventsched_union",
)
"""In a schema that readers may not use, because dblink keeps connections with the owner's login."""

_CONNECTION = """
CREATE FUNCTION eventsched_union.connection(p_server text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_name   text := 'eventsched ' || p_server;
    v_detail text;
BEGIN
    IF NOT EXISTS (SELECT FROM eventsched_union.member m WHERE m.server = p_server) THEN
        RAISE EXCEPTION 'there is no server %', p_server
            USING ERRCODE = '22023', HINT = 'eventsched.members lists the servers';
    END IF;
    IF v_name = ANY ({dblink}.dblink_get_connections()) THEN
        BEGIN
            PERFORM FROM {dblink}.dblink(v_name, 'SELECT 1') AS t (one integer);
            RETURN v_name;
        EXCEPTION WHEN OTHERS THEN  -- the server was restarted, for example
            PERFORM {dblink}.dblink_disconnect(v_name);
        END;
    END IF;
    PERFORM {dblink}.dblink_connect(v_name, p_server);
    RETURN v_name;
EXCEPTION WHEN sqlclient_unable_to_establish_sqlconnection THEN
    GET STACKED DIAGNOSTICS v_detail = PG_EXCEPTION_DETAIL;
    RAISE EXCEPTION 'could not connect to server "%"', p_server
        USING ERRCODE = '08001', DETAIL = v_detail;
END $$
"""
_SERVER_OF = """
CREATE FUNCTION eventsched_union.server_of(p_stream text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_servers text[] := ARRAY(SELECT server FROM eventsched.streams WHERE stream = p_stream);
BEGIN
    IF cardinality(v_servers) > 1 THEN
        RAISE EXCEPTION 'stream % is on several servers: %', p_stream,
                        array_to_string(v_servers, ', ')
            USING ERRCODE = '22023',
                  HINT = 'name the server as the first argument: function(server, stream, …)';
    END IF;
    RETURN v_servers[1];
END $$
"""
_ON_SERVER = """
CREATE FUNCTION eventsched.{name}(p_server text, {arguments}) RETURNS TABLE {columns}
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF p_server IS NOT NULL THEN
        RETURN QUERY SELECT * FROM {dblink}.dblink(
            eventsched_union.connection(p_server),
            format({query}, {inputs})
        ) AS t {columns};
    END IF;
END $$
"""
_BY_STREAM = """
CREATE FUNCTION eventsched.{name}({arguments}) RETURNS TABLE {columns}
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM eventsched.{name}(eventsched_union.server_of({stream}), {inputs})
$$
"""


def removal(servers: Sequence[str]) -> Iterator[Statement]:
    """Removes an earlier union with these servers."""
    yield sql.SQL("DROP SCHEMA IF EXISTS eventsched CASCADE")
    for name in servers:
        yield sql.SQL("DROP SERVER IF EXISTS {} CASCADE").format(sql.Identifier(name))
        yield sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(f"member_{name}"))
    yield sql.SQL("DROP FUNCTION IF EXISTS eventsched_union.connection(text)")
    yield sql.SQL("DROP FUNCTION IF EXISTS eventsched_union.server_of(text)")
    yield sql.SQL("DROP TABLE IF EXISTS eventsched_union.member")


def foreign_server(member: UnionMember) -> Statement:
    """A member's server. Its tables cannot be written, its plans count the costs of the other side,
    so that conditions and joins use the indexes there, and servers are asked at the same time."""
    fixed = {
        "updatable": "false", "use_remote_estimate": "true", "async_capable": "true",
        "fetch_size": _FETCH_SIZE,
    }  # fmt: skip
    return sql.SQL("CREATE SERVER {} FOREIGN DATA WRAPPER postgres_fdw OPTIONS ({})").format(
        sql.Identifier(member.name), _options(member.options | fixed)
    )


def user_mapping(member: UnionMember, *, hide: bool) -> Statement:
    """The login of the union's owner at a member; ``hide`` leaves its passwords out."""
    login = dict(member.login) if "password" in member.login else member.login | _NO_PASSWORD
    if hide:
        login |= {key: "********" for key in login if "password" in key and key in member.login}
    return sql.SQL("CREATE USER MAPPING FOR CURRENT_USER SERVER {} OPTIONS ({})").format(
        sql.Identifier(member.name), _options(login)
    )


def foreign_tables(member: UnionMember) -> Iterator[Statement]:
    """The views of a member, in a schema of its own."""
    schema, server = sql.Identifier(member.schema), sql.Identifier(member.name)
    yield sql.SQL("CREATE SCHEMA {}").format(schema)
    yield sql.SQL("IMPORT FOREIGN SCHEMA eventsched FROM SERVER {} INTO {}").format(server, schema)


def union_schema(members: Sequence[UnionMember], revision: str) -> Iterator[Statement]:
    """The schema for people, and the list of the members."""
    yield sql.SQL("CREATE SCHEMA eventsched")
    yield sql.SQL(
        "CREATE TABLE eventsched_union.member"
        " (server text PRIMARY KEY, address text NOT NULL, schema text NOT NULL)"
    )
    yield sql.SQL("INSERT INTO eventsched_union.member VALUES {}").format(
        sql.SQL(", ").join(
            sql.SQL("({}, {}, {})").format(member.name, member.address, revision)
            for member in members
        )
    )
    yield sql.SQL("CREATE VIEW eventsched.members AS SELECT * FROM eventsched_union.member")
    yield sql.SQL("COMMENT ON VIEW eventsched.members IS {}").format(
        "The servers of this union, and their schema when it was made"
    )


def union_view(
    name: str, columns: Sequence[str], members: Sequence[UnionMember], comment: str | None
) -> Iterator[Statement]:
    """A view over the foreign tables of all members, with the server of each row. The name is a
    constant, so a condition on it leaves the other servers out."""
    view = sql.Identifier(name)
    chosen = sql.SQL(", ").join(map(sql.Identifier, columns))
    yield sql.SQL("CREATE VIEW eventsched.{} AS\n{}").format(
        view,
        sql.SQL("\nUNION ALL\n").join(
            sql.SQL("SELECT {}::text AS server, {} FROM {}.{}").format(
                member.name, chosen, sql.Identifier(member.schema), view
            )
            for member in members
        ),
    )
    if comment:
        yield sql.SQL("COMMENT ON VIEW eventsched.{} IS {}").format(view, comment)


def union_functions(dblink: str, functions: Sequence[LogFunction]) -> Iterator[Statement]:
    """Each function of the members twice: with the server as its first argument, and without, if
    only one server has the stream."""
    schema = sql.Identifier(dblink)
    yield sql.SQL(_CONNECTION).format(dblink=schema)
    yield sql.SQL(_SERVER_OF)
    for function in functions:
        name, inputs = sql.Identifier(function.name), [*map(sql.Identifier, function.inputs)]
        places = ", ".join("%L" for _ in inputs)
        parts: Mapping[str, sql.Composable] = {
            "name": name,
            "dblink": schema,
            "arguments": sql.SQL(function.arguments),
            "columns": sql.SQL(function.columns),
            "inputs": sql.SQL(", ").join(inputs),
            "stream": inputs[0],
            "query": sql.Literal(f'SELECT * FROM eventsched."{function.name}"({places})'),
        }
        yield sql.SQL(_ON_SERVER).format(**parts)
        yield sql.SQL(_BY_STREAM).format(**parts)


def union_grants(readers: Sequence[str]) -> Iterator[Statement]:
    """The rights of those who may ask."""
    for reader in readers:
        role = sql.Identifier(reader)
        yield sql.SQL("GRANT USAGE ON SCHEMA eventsched TO {}").format(role)
        yield sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA eventsched TO {}").format(role)


def _options(options: Mapping[str, str]) -> sql.Composable:
    return sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(key), value) for key, value in options.items()
    )
