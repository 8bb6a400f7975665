"""Grafana's dashboard in SQL: each query runs for a login that is only a reader, and finds what a
log has. The macros and variables are filled in as Grafana does it."""

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg.rows import dict_row

from eventsched.eventlog.postgres.writer import PostgresEventLog
from tests.databases import Server, acting_as, migrate
from tests.deploy.boards import BOARDS, panels
from tests.postgres.histories import ODD, odd, simulated
from tests.postgres.test_preemptions import STREAM, UNTIL, simulation

BOARD = BOARDS["decisions"]
PANELS = {panel["title"]: panel for panel in panels("decisions")}
Row = dict[str, Any]
_SPAN = "'1970-01-01T00:00:00Z' AND '2262-01-01T00:00:00Z'"
"""The whole time that a log can have."""
_MACROS = {
    r"\$__timeGroupAlias\((\w+), \$__interval\)": (
        r'floor(extract(epoch from \1)/60)*60 AS "time"'
    ),
    r"\$__timeFilter\((\w+)\)": rf"\1 BETWEEN {_SPAN}",
}


def filled(query: str, **variables: str) -> str:
    """The query as Postgres gets it. A value is quoted, except for that of "All" namespaces."""
    for macro, text in _MACROS.items():
        query = re.sub(macro, text, query)
    for name, text in variables.items():
        query = query.replace(f"${{{name}:sqlstring}}", text)
    assert "$" not in query, query
    return query


class Grafana:
    """The data source: a connection of a login that may take on eventsched_reader only."""

    def __init__(self, url: str) -> None:
        self._url = url

    def asked(self, query: str, *, pod: str = "''", namespace: str = "namespace") -> list[Row]:
        """The rows of a query for all streams, as the board asks it for a pod."""
        with psycopg.connect(self._url, row_factory=dict_row, autocommit=True) as connection:
            streams = _quoted(connection, "SELECT stream AS it FROM eventsched.streams")
            text = filled(query, stream=streams, namespace=namespace, pod=pod)
            return connection.execute(text).fetchall()

    def panel(self, title: str, **variables: str) -> list[Row]:
        """The rows that a panel shows."""
        (target,) = PANELS[title]["targets"]
        return self.asked(target["rawSql"], **variables)


def _quoted(connection: psycopg.Connection[Row], query: LiteralString) -> str:
    rows = connection.execute(query).fetchall()
    return ",".join("'" + row["it"].replace("'", "''") + "'" for row in rows)


@pytest.fixture(scope="module")
def log(one_server: Server) -> Iterator[str]:
    """The URL of a database with three histories, for who may do everything."""

    def prepared(url: str) -> None:
        migrate(url)
        simulated(url)
        odd(url)
        with closing(PostgresEventLog(url, STREAM, holder="test")) as event_log:
            simulation(event_log).run(until=UNTIL)

    with one_server.fresh(prepared) as url:
        yield url


@pytest.fixture(scope="module")
def grafana(log: str) -> Grafana:
    return Grafana(acting_as(log, "eventsched_reader"))


def truth(log: str, query: LiteralString) -> list[Row]:
    with psycopg.connect(log, row_factory=dict_row) as connection:
        return connection.execute(query).fetchall()


@pytest.mark.parametrize("title", PANELS)
def test_every_panel_has_rows(log: str, grafana: Grafana, title: str) -> None:
    """Of a log in which everything happened, and for its most often tried pod."""
    (tried,) = truth(
        log, "SELECT pod FROM eventsched.decisions GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1"
    )
    rows = grafana.panel(title, pod=f"'{tried['pod']}'")
    assert rows
    if PANELS[title]["targets"][0]["format"] == "time_series":
        assert "time" in rows[0]
    named = {
        override["matcher"]["options"] for override in PANELS[title]["fieldConfig"]["overrides"]
    }
    assert named <= rows[0].keys()


def test_the_variables_list_streams_and_namespaces(log: str, grafana: Grafana) -> None:
    queries = {
        variable["name"]: variable["query"]
        for variable in BOARD["templating"]["list"]
        if variable["type"] == "query"
    }
    streams = [row["stream"] for row in grafana.asked(queries["stream"])]
    assert ODD in streams
    assert len(streams) >= 2
    namespaces = [row["namespace"] for row in grafana.asked(queries["namespace"])]
    assert namespaces == [
        row["it"]
        for row in truth(log, "SELECT DISTINCT namespace AS it FROM eventsched.pods_now ORDER BY 1")
    ]


def test_the_numbers_are_those_of_the_log(log: str, grafana: Grafana) -> None:
    (expected,) = truth(log, "SELECT count(*) AS attempts FROM eventsched.decisions")
    assert grafana.panel("Attempts") == [expected]
    by_outcome = grafana.panel("Attempts by outcome")
    assert sum(row["attempts"] for row in by_outcome) == expected["attempts"]
    assert {row["metric"] for row in by_outcome} >= {"scheduled", "unschedulable"}
    waiting = truth(
        log,
        "SELECT count(*) AS pods FROM eventsched.pods_now WHERE waiting_since IS NOT NULL",
    )
    assert grafana.panel("Waiting pods") == waiting
    assert (
        sum(row["pods"] for row in grafana.panel("Waiting pods by owner and reason"))
        == (waiting[0]["pods"])
    )


def test_a_namespace_that_is_chosen_hides_the_others(grafana: Grafana) -> None:
    assert grafana.panel("Attempts", namespace="'no such namespace'") == [{"attempts": 0}]


def test_the_name_of_a_pod_is_a_value(grafana: Grafana) -> None:
    """Grafana's format sqlstring doubles quotes."""
    assert grafana.panel("Attempts of the pod", pod="'x'' OR ''1''=''1'") == []
