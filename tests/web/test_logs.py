"""Log lines of the process: their form and level, what is masked, and the lines of records."""

import io
import json
import logging
import warnings
from typing import Any

import pytest
import structlog

from eventsched.domain import records
from eventsched.domain.errors import InputError
from eventsched.domain.records import Outcome, Queue, Record
from eventsched.domain.records.log_entry import LogEntry
from eventsched.process_log import masking, output
from eventsched.process_log.narration import LogLine, Narrator
from tests.builders import SECOND, make_node, make_pod

JWT = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlIn0.c2lnbmF0dXJl"


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def configured(form: str = "json", level: str = "info") -> io.StringIO:
    out = io.StringIO()
    output.configure(form, level, out)
    return out


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    """JSON lines without their times, which must be there."""
    parsed: list[dict[str, Any]] = [json.loads(line) for line in out.getvalue().splitlines()]
    for line in parsed:
        assert line.pop("ts").endswith("Z")
    return parsed


def test_a_line_says_where_it_belongs() -> None:
    out = configured()
    logger = structlog.stdlib.get_logger("eventsched.runtime.live").bind(stream="scheduler")
    logger.info("Scheduled", node="n1", pod="default/p1", seq=17)
    assert out.getvalue().index('"event"') < out.getvalue().index('"stream"')
    assert lines(out) == [
        {
            "level": "info",
            "event": "Scheduled",
            "stream": "scheduler",
            "seq": 17,
            "pod": "default/p1",
            "node": "n1",
            "logger": "eventsched.runtime.live",
        }
    ]


def test_the_level_applies_to_our_lines_and_libraries_are_logged_from_warnings_on() -> None:
    out = configured()
    ours = structlog.stdlib.get_logger("eventsched.x")
    theirs = [logging.getLogger(name) for name in ("uvicorn.error", "aiohttp.client", "sqlalchemy")]

    def logged_events() -> list[str]:
        out.truncate(0)
        out.seek(0)
        ours.debug("detail")
        ours.info("fact")
        for logger in theirs:
            logger.info("chatter")
        theirs[0].warning("trouble at %s", "8:15")
        return [line["event"] for line in lines(out)]

    assert logged_events() == ["fact", "trouble at 8:15"]
    output.set_level("debug")
    assert logged_events() == ["detail", "fact", "trouble at 8:15"]
    output.set_level("error")
    assert logged_events() == ["trouble at 8:15"]


@pytest.mark.parametrize(
    ("text", "level"),
    [("debug", "debug"), (" INFO\n", "info"), ("0", "info"), ("3", "info"), ("4", "debug"),
     ("10", "debug"), ("warning", "warning"), ("error", "error")],
)  # fmt: skip
def test_levels_by_name_and_by_verbosity(text: str, level: str) -> None:
    assert output.set_level(text) == level
    assert output.level() == level


@pytest.mark.parametrize("text", ["", "loud", "-1", "4.5"])
def test_an_unknown_level_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="write one of debug, info, warning, error"):
        output.set_level(text)


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(InputError, match="write one of auto, json, text"):
        output.configure("xml", "info", io.StringIO())


@pytest.mark.parametrize(
    ("form", "out", "is_json"),
    [
        ("auto", io.StringIO(), True),
        ("auto", Terminal(), False),
        ("json", Terminal(), True),
        ("text", io.StringIO(), False),
    ],
)
def test_json_unless_the_output_is_a_terminal(form: str, out: io.StringIO, is_json: bool) -> None:
    output.configure(form, "info", out)
    structlog.stdlib.get_logger("eventsched").info("hello")
    assert out.getvalue().startswith("{") is is_json
    assert "hello" in out.getvalue()


def test_configuring_again_does_not_log_each_line_twice() -> None:
    configured()
    out = configured()
    structlog.stdlib.get_logger("eventsched").info("hello")
    assert len(lines(out)) == 1


def test_warnings_and_errors_are_lines_too() -> None:
    out = configured()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    try:
        raise ValueError(f"Bearer {JWT}")
    except ValueError:
        structlog.stdlib.get_logger("eventsched").exception("broken")
        logging.getLogger("asyncio").exception("broken too")
    parsed = lines(out)
    assert [line["event"] for line in parsed if line["logger"] != "py.warnings"] == [
        "broken",
        "broken too",
    ]
    assert all(line["exception"].endswith("ValueError: Bearer ***") for line in parsed[-2:])
    assert "DeprecationWarning: old" in parsed[0]["event"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nothing to hide", "nothing to hide"),
        ("pod default/p1 on https://10.0.0.1:6443/api", None),
        ("postgresql://u:hunter2@db:5432/x", "postgresql://u:***@db:5432/x"),
        ("postgresql://u:hun@ter/2@db/x?sslmode=on", "postgresql://u:***@db/x?sslmode=on"),
        ("at postgresql://db/x?password=hunter2&a=b", "at postgresql://db/x?password=***&a=b"),
        ("host=db password='hun ter2' user=u", "host=db password=*** user=u"),
        ("PGPASSWORD=hunter2 psql", "PGPASSWORD=*** psql"),
        ('{"token": "hun\\"ter2", "a": 1}', '{"token": "***", "a": 1}'),
        ("{'client_secret': 'hunter2'}", "{'client_secret': \"***\"}"),
        ("Authorization: Bearer hunter2", "Authorization: ***"),
        ("authorization: Basic aHVudGVyMg==", "authorization: ***"),
        ("sent bearer hunter2.x", "sent bearer ***"),
        ("bearer tokens are wanted", "bearer tokens are wanted"),
        (f"the token {JWT} is old", "the token *** is old"),
        (
            "key:\n-----BEGIN EC PRIVATE KEY-----\nhunter2\n-----END EC PRIVATE KEY-----\nend",
            "key:\n***\nend",
        ),
        ("-----BEGIN PRIVATE KEY-----\nhunter2", "***"),
    ],
)
def test_secrets_are_masked(text: str, expected: str | None) -> None:
    assert masking.masked(text) == (text if expected is None else expected)


def test_secrets_are_masked_at_any_depth() -> None:
    value = {
        "database": {"url": "postgresql://u:hunter2@db", "password": "hunter2", "port": 5432},
        "users": [{"token": "hunter2"}, ("Bearer hunter2hunter2", None)],
        "tlsConfig": {"keyData": b"hunter2", "keyFile": "/etc/tls.key"},
        "error": OSError("password=hunter2"),
        "secret": "",
        "tokens": True,
    }
    assert masking.masked_value(value) == {
        "database": {"url": "postgresql://u:***@db", "password": "***", "port": 5432},
        "users": [{"token": "***"}, ["Bearer ***", None]],
        "tlsConfig": {"keyData": "***", "keyFile": "/etc/tls.key"},
        "error": "password=***",
        "secret": "",
        "tokens": True,
    }


@pytest.mark.parametrize("form", ["json", "text"])
def test_no_line_contains_a_secret(form: str) -> None:
    out = configured(form)
    logger = structlog.stdlib.get_logger("eventsched")
    logger.info(
        "connecting to postgresql://u:hunter2@db", token="hunter2", spec={"password": "hunter2"}
    )
    logging.getLogger("sqlalchemy").warning("failed: %s", "password=hunter2")
    assert out.getvalue().count("***") == 4
    assert "hunter2" not in out.getvalue()


# --- records ------------------------------------------------------------------------------


def logged(*events: Record, at: float = 1.0) -> list[LogEntry]:
    return [LogEntry(n, round(at * SECOND), n, record) for n, record in enumerate(events)]


def narrator(most: int = 100) -> Narrator:
    return Narrator("s", {"u1": "default/p1", "u2": "default/p2"}.get, most)


def test_lines_of_records() -> None:
    """The stream's beginning, and decisions."""
    entries = logged(
        records.StreamStarted(format=1, engine="0.1.0", seed="x", configuration="profiles: …"),
        records.TermBegan(epoch=2, token="0123abcd"),
        records.NodeAdded(node=make_node("n1")),
        records.PodDecided(uid="u1", attempt=1, outcome=Outcome.SCHEDULED, node="n1"),
        records.PodBound(uid="u1", node="n1", attempt=1),
        records.PodDecided(uid="u2", attempt=3, outcome=Outcome.UNSCHEDULABLE, message="0/1 …"),
        records.PodDecided(uid="gone", attempt=1, outcome=Outcome.ERROR, plugin="X", message="oh"),
    )
    s = {"stream": "s"}
    attempt = {"outcome": "unschedulable", "profile": "default-scheduler"}
    assert list(narrator().lines(entries, with_debug=False)) == [
        LogLine("info", "StreamStarted", {**s, "seq": 0, "engine": "0.1.0", "format": 1,
                                          "seed": "x"}),
        LogLine("info", "TermBegan", {**s, "seq": 1, "epoch": 2}),
        LogLine(
            "info", "Scheduled", {**s, "seq": 4, "pod": "default/p1", "node": "n1", "attempt": 1}
        ),
        LogLine(
            "info",
            "FailedScheduling",
            {**s, "seq": 5, "pod": "default/p2", "attempt": 3, **attempt, "message": "0/1 …"},
        ),
        LogLine(
            "warning",
            "FailedScheduling",
            {**s, "seq": 6, "pod": "gone", "attempt": 1, **attempt, "outcome": "error",
             "plugin": "X", "message": "oh"},
        ),
    ]  # fmt: skip


def test_lines_of_preemptions() -> None:
    """A pod that has gone is named by its uid."""
    entries = logged(
        records.PreemptionDecided(
            uid="u2", attempt=3, node="n1", row=0, criterion="only", victims=("u1", "gone")
        ),
        records.EvictionSucceeded(uid="u1"),
        records.EvictionFailed(uid="u1", message="no"),
    )
    s = {"stream": "s"}
    assert list(narrator().lines(entries, with_debug=False)) == [
        LogLine(
            "info",
            "Preempting",
            {**s, "seq": 0, "pod": "default/p2", "attempt": 3, "node": "n1",
             "victims": ["default/p1", "gone"]},
        ),
        LogLine("info", "Preempted", {**s, "seq": 1, "pod": "default/p1"}),
        LogLine("warning", "EvictionFailed", {**s, "seq": 2, "pod": "default/p1", "message": "no"}),
    ]  # fmt: skip


def test_lines_of_what_went_wrong() -> None:
    entries = logged(
        records.BindFailed(uid="u2", node="n1", message="conflict"),
        records.BindVoided(uid="u2", node="n1", attempt=3, reason="full"),
        records.HistoryLost(timeline="2"),
        records.WatchRelisted(resource="Pod", since=5, upto=9),
        records.NodeOvercommitted(node="n1", by="u2", resources={"cpu": (9, 8), "a": (2, 1)}),
    )
    s = {"stream": "s"}
    assert list(narrator().lines(entries, with_debug=False)) == [
        LogLine(
            "warning",
            "BindFailed",
            {**s, "seq": 0, "pod": "default/p2", "node": "n1", "message": "conflict"},
        ),
        LogLine(
            "warning",
            "BindVoided",
            {**s, "seq": 1, "pod": "default/p2", "node": "n1", "attempt": 3, "reason": "full"},
        ),
        LogLine("warning", "HistoryLost", {**s, "seq": 2, "timeline": "2"}),
        LogLine("info", "WatchRelisted", {**s, "seq": 3, "resource": "Pod", "since": 5,
                                          "upto": 9}),
        LogLine(
            "warning",
            "NodeOvercommitted",
            {**s, "seq": 4, "node": "n1", "by": "default/p2", "resources": ["a", "cpu"]},
        ),
    ]  # fmt: skip


def test_other_records_are_logged_at_debug() -> None:
    entries = logged(
        records.NodeAdded(node=make_node("n1")),
        records.PodAdded(pod=make_pod("p3", uid="u1")),
        records.PodQueued(uid="u1", queue=Queue.ACTIVE, cause="PodAdd"),
        records.TimePassed(),
    )
    s = {"stream": "s"}
    assert list(narrator().lines(entries, with_debug=True)) == [
        LogLine("debug", "NodeAdded", {**s, "seq": 0, "node": "n1"}),
        LogLine("debug", "PodAdded", {**s, "seq": 1, "pod": "default/p1"}),
        LogLine(
            "debug",
            "PodQueued",
            {**s, "seq": 2, "pod": "default/p1", "queue": "active", "cause": "PodAdd"},
        ),
        LogLine("debug", "TimePassed", {**s, "seq": 3}),
    ]
    assert list(narrator().lines(entries, with_debug=False)) == []


def test_only_the_first_lines_of_a_kind_are_logged_in_a_second() -> None:
    bound = [records.PodBound(uid=f"p{n}", node="n", attempt=1) for n in range(5)]
    refused = records.BindFailed(uid="u1", node="n", message="no")
    limited = narrator(most=2)
    narrated = [*limited.lines(logged(*bound, refused, at=1.0), with_debug=False)]
    narrated += limited.lines(logged(bound[0], at=1.9), with_debug=False)
    narrated += limited.lines(logged(bound[0], at=2.0), with_debug=False)
    assert [(line.event, line.fields.get("count", 1)) for line in narrated] == [
        ("Scheduled", 1),
        ("Scheduled", 1),
        ("BindFailed", 1),
        ("LeftOut", 4),
        ("Scheduled", 1),
    ]
    assert narrated[3].fields == {"stream": "s", "lines": "Scheduled", "count": 4}


def test_records_become_lines_of_the_log() -> None:
    out = configured()
    narrator().log(logged(records.PodBound(uid="u1", node="n1", attempt=2), records.TimePassed()))
    assert lines(out) == [
        {
            "level": "info",
            "event": "Scheduled",
            "stream": "s",
            "seq": 0,
            "pod": "default/p1",
            "node": "n1",
            "attempt": 2,
            "logger": "eventsched.process_log.narration",
        }
    ]
