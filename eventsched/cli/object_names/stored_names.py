"""Names from the database for completion, by few and bounded queries.

SQLAlchemy is left out: importing it takes longer than the queries. Only pod groups need it
(``stored_groups``). A session writes nothing, and waits for the server at most SECONDS. libpq never
asks for a password.
"""

import re
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, LiteralString, NamedTuple

import psycopg

from eventsched.cli.object_names.bounded_search import found_in_time
from eventsched.cli.object_names.typed_workloads import typed_workloads
from eventsched.domain.workload_kinds import HASH_PATTERN, POD_GROUP
from eventsched.eventlog.embedded.embedded_server import DATABASE
from eventsched.eventlog.embedded.postmaster import Postmaster

MOST = 200
"""Names that are offered at most."""
_GROUPS_SECONDS = 2.0
"""How long pod groups are looked for: the state of a large cluster takes longer than TAB waits."""
SECONDS = 2
"""The shortest time that libpq waits for a connection; a query may take half of it."""
_ROLE = "eventsched_auditor"
_DRIVER = re.compile(r"^postgres(ql)?(\+psycopg)?://")
_OPTIONS = f"-c default_transaction_read_only=on -c statement_timeout={SECONDS * 500}"

_STREAMS: LiteralString = "SELECT id FROM eventsched_log.stream WHERE %(stream)s IN ('', name)"
_PODS: LiteralString = """
SELECT CASE %(namespace)s WHEN '' THEN namespace || '/' || name ELSE name END AS name
FROM eventsched_log.pod_now
WHERE stream = ANY(%(streams)s) AND %(namespace)s IN ('', namespace)
"""
_UNQUALIFIED_PODS: LiteralString = """
SELECT name FROM eventsched_log.pod_now WHERE stream = ANY(%(streams)s) AND %(namespace)s = ''
"""
_NAMESPACES: LiteralString = """
SELECT namespace AS name FROM eventsched_log.pod_now WHERE stream = ANY(%(streams)s)
"""
_WORKLOADS: LiteralString = """
SELECT w.prefix || CASE w.kind
    WHEN 'Pod' THEN n.name
    WHEN 'Deployment' THEN regexp_replace(n.owner_name, %(hash)s, '')
    ELSE n.owner_name END AS name
FROM unnest(%(prefixes)s::text[], %(kinds)s::text[], %(namespaces)s::text[])
    AS w (prefix, kind, namespace)
JOIN eventsched_log.pod_now n
    ON CASE w.kind
       WHEN 'Pod' THEN true
       WHEN 'Deployment' THEN n.owner_kind = 'ReplicaSet' AND n.owner_name ~ %(hash)s
       ELSE n.owner_kind = w.kind END
   AND w.namespace IN ('', n.namespace)
WHERE n.stream = ANY(%(streams)s) AND %(namespace)s IN ('', n.namespace)
"""
"""What a Deployment's ReplicaSets are called is explained in ``history.explain.workloads``; labels
are not looked at here."""
_PRESENT, _FORMER = "eventsched_log.pod_now", "eventsched_log.pod"
_SELECTS: dict[str, tuple[LiteralString, ...]] = {
    # The first of these that finds one; pods that are gone last, as there may be millions.
    "pods": (
        *(_PODS, _UNQUALIFIED_PODS),
        *(each.replace(_PRESENT, _FORMER) for each in (_PODS, _UNQUALIFIED_PODS)),
    ),
    "targets": (
        *(f"{each} UNION ALL {_WORKLOADS}" for each in (_PODS, _UNQUALIFIED_PODS)),
        *(each.replace(_PRESENT, _FORMER) for each in (_PODS, _UNQUALIFIED_PODS)),
    ),
    "nodes": ("SELECT name FROM eventsched_log.node WHERE stream = ANY(%(streams)s)",),
    "namespaces": (_NAMESPACES, _NAMESPACES.replace(_PRESENT, _FORMER)),
    "streams": ("SELECT name FROM eventsched_log.stream WHERE cardinality(%(streams)s) >= 0",),
}
_MATCHING: LiteralString = """
WITH found AS MATERIALIZED (
    SELECT DISTINCT name COLLATE "C" AS name FROM ({names}) n WHERE starts_with(name, %(word)s)
)
(SELECT name FROM found ORDER BY name LIMIT %(most)s)
UNION (SELECT max(name) FROM found HAVING count(*) > 0)
ORDER BY name
"""
"""The first names, and the last one: what all names have in common is what these have in common,
which is what a shell fills in."""
_POSITIONS: LiteralString = """
SELECT d.seq::text, d.outcome || ' ' || coalesce(p.namespace || '/' || p.name, d.pod::text)
FROM (SELECT * FROM eventsched_log.decision WHERE stream = ANY(%(streams)s)
      ORDER BY stream, seq DESC LIMIT 10000) d
LEFT JOIN eventsched_log.pod p ON p.stream = d.stream AND p.uid = d.pod
WHERE starts_with(d.seq::text, %(word)s)
ORDER BY d.seq DESC LIMIT 20
"""
_OF_PRESENT = 2
"""The first selects of ``targets``, those of pods that exist."""
KINDS = (*_SELECTS, "positions")


class OfferedName(NamedTuple):
    """A name, and a few words about it or none."""

    name: str
    about: str = ""


def stored_names(
    kind: str, word: str, database: str | None, data_dir: Path | None, stream: str, namespace: str
) -> list[OfferedName]:
    """The names of a kind that begin with a word. An empty stream or namespace means any.
    Positions are those of the newest decisions, the newest first; with several streams there are
    none. Raises psycopg.Error, and OSError for a folder that cannot be read."""
    address = _address(database, data_dir)
    if address is None:
        return []
    with closing(
        psycopg.connect(address, connect_timeout=SECONDS, options=_OPTIONS, autocommit=True)
    ) as connection:
        streams = [number for (number,) in _readable(connection, {"stream": stream})]
        values: dict[str, Any] = {"streams": streams, "word": word, "namespace": namespace}
        values |= {"most": MOST, **_workload_values(word if kind == "targets" else "")}
        if kind == "positions":
            rows = connection.execute(_POSITIONS, values).fetchall() if len(streams) == 1 else []
            return [OfferedName(*row) for row in rows]
        named = _group_names(kind, word, database, data_dir, stream, namespace)
        found: set[str] = set()
        for names in _SELECTS[kind][:_OF_PRESENT] if named else _SELECTS[kind]:
            query = _MATCHING.replace("{names}", names)
            if found := {name for (name,) in connection.execute(query, values)}:
                break
    return list(map(OfferedName, sorted(found | named)))


def _group_names(
    kind: str, word: str, database: str | None, data_dir: Path | None, stream: str, namespace: str
) -> set[str]:
    """The pod groups that a word may become: the first of them, and the last one. None if they take
    too long, or if the log cannot be read: pods are offered in any case."""
    typed = [each for each in typed_workloads(word) if each.kind == POD_GROUP]
    if kind != "targets" or not typed:
        return set()

    def matching_groups() -> list[str]:
        from eventsched.cli.object_names.stored_groups import stored_groups  # slow

        names = stored_groups(typed, database, data_dir, stream, namespace)
        return sorted(name for name in names if name.startswith(word))

    matching = found_in_time(matching_groups, _GROUPS_SECONDS)
    return {*matching[:MOST], *matching[-1:]}


def _workload_values(word: str) -> dict[str, Any]:
    """What _WORKLOADS asks for."""
    typed = [each for each in typed_workloads(word) if each.kind != POD_GROUP]
    return {
        "prefixes": [each.prefix for each in typed],
        "kinds": [each.kind for each in typed],
        "namespaces": [each.namespace for each in typed],
        "hash": f"-{HASH_PATTERN}$",
    }


def _readable(
    connection: psycopg.Connection[tuple[Any, ...]], values: dict[str, str]
) -> Sequence[tuple[int]]:
    """The numbers of the streams; as the role that reads logs if the user's own rights do not."""
    try:
        return connection.execute(_STREAMS, values).fetchall()
    except psycopg.errors.InsufficientPrivilege:
        connection.execute(f"SET ROLE {_ROLE}")
        return connection.execute(_STREAMS, values).fetchall()


def _address(database: str | None, data_dir: Path | None) -> str | None:
    """The address for libpq. None if no database is named, or if an embedded one does not run: TAB
    starts no server."""
    if data_dir is None:
        return None if database is None else _DRIVER.sub("postgresql://", database)
    folder = data_dir.expanduser().resolve()
    if not (folder / "postgres").exists():
        return None
    running = Postmaster(folder).running()
    if running is None:
        return None
    return psycopg.conninfo.make_conninfo(
        host=str(running.socket_folder), port=running.port, user=_ROLE, dbname=DATABASE
    )
