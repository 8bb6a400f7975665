"""Any filters, orders, groups and pages of the pods at a position: what is answered of the present
by a log that ends there. Of the past only what a question needs is read."""

import random
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote

import pytest

from eventsched.api.application import application
from eventsched.api.desk.asked import Desk
from eventsched.api.gates.gate import OpenGate
from eventsched.eventlog.port import Batch
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import DatabaseStreams, opened_streams
from tests.api import test_anomalies
from tests.api.asking import Client
from tests.databases import Server
from tests.postgres.histories import ODD, TIGHT, odd_and_tight

ANOMALIES = "anomalies"
"""A log with preemptions, and pods that starve."""
CUTS = {
    TIGHT: (60, 222, 388, 555, 720),
    ODD: (16, 33, 60, 83),
    ANOMALIES: (30, 52, 57, 66),
}
QUESTIONS = 8
"""About each position."""
FILTERS = {
    "namespace": "namespace", "name": "name", "owner": "owner_name", "state": "state",
    "node": "node", "profile": "profile", "plugin": "plugin", "reason": "reason",
}  # fmt: skip
"""Filter → the field of a pod that has values for it."""
SORTS = ("position", "waiting", "attempts", "node", "owner")


def _written(address: str) -> None:
    """The logs, and their beginnings as streams of their own."""
    odd_and_tight(address)
    test_anomalies.anomalous().write(address, ANOMALIES)
    with opened_streams(address, None) as streams:
        for name, cuts in CUTS.items():
            stored = list(streams.open(name).log.read(0))
            for cut in cuts:
                with closing(PostgresEventLog(address, f"{name}-{cut}", holder="test")) as log:
                    for first in range(0, cut, 7):
                        log.begin(Batch(stored[first : min(first + 7, cut)], {}))
                        log.finish()


@pytest.fixture(scope="module")
def streams(one_server: Server) -> Iterator[DatabaseStreams]:
    with one_server.fresh(_written) as url, opened_streams(url, None) as opened:
        yield opened


def new_client(streams: DatabaseStreams) -> Client:
    """A client of an API that has not folded a state yet."""
    return Client(application(Desk(streams, FoldedStates()), OpenGate(local_only=True)))


def pods_of(client: Client, query: str) -> list[dict[str, Any]]:
    return [each for page in client.pages(f"/pods?{query}", "pods", "cursor") for each in page]


def some_words(draw: random.Random, pods: list[dict[str, Any]], most: int) -> list[str]:
    """Some filters that a pod passes, and perhaps one more that it does not."""
    words = []
    for filter_name in draw.sample(sorted(FILTERS), draw.randrange(most)):
        value = str(draw.choice(pods)[FILTERS[filter_name]] or "nothing")
        value = value[2:12].upper() if filter_name == "reason" else value
        words.append(f"{filter_name}={quote(value, safe='')}")
    if not draw.randrange(4):
        words.append(f"name_contains={draw.choice(pods)['name'][-3:].upper()}")
    return words


@pytest.mark.parametrize(("name", "cut"), [(n, cut) for n, cuts in CUTS.items() for cut in cuts])
def test_pods(streams: DatabaseStreams, name: str, cut: int) -> None:
    """Also if a state is kept of which other columns were read before."""
    draw, kept, present = random.Random(cut), new_client(streams), new_client(streams)
    every = pods_of(present, f"stream={name}-{cut}")
    assert every != []
    for _ in range(QUESTIONS):
        words = [*some_words(draw, every, 3), f"limit={draw.choice((1, 3, 50))}"]
        words.append(f"sort={draw.choice(('', '-'))}{draw.choice(SORTS)}")
        if not draw.randrange(3):
            low = draw.randrange(cut)
            words.append(f"from={low}&until={draw.randrange(low, cut) + 1}")
        query = "&".join(words)
        expected = pods_of(present, f"stream={name}-{cut}&{query}")
        for client in (kept, new_client(streams)):
            found = pods_of(client, f"stream={name}&at={cut}&{query}")
            assert found == _as_known(expected, found), query


@pytest.mark.parametrize(("name", "cut"), [(n, cut) for n, cuts in CUTS.items() for cut in cuts])
def test_groups(streams: DatabaseStreams, name: str, cut: int) -> None:
    """With the pods of each."""
    draw, kept, present = random.Random(cut), new_client(streams), new_client(streams)
    every = pods_of(present, f"stream={name}-{cut}")
    for by in ("owner", "reason"):
        for words in ([], some_words(draw, every, 3)):
            query = "&".join([f"by={by}", *words])
            expected = present.get(f"/pods/groups?stream={name}-{cut}&{query}")
            for client in (kept, new_client(streams)):
                found = client.get(f"/pods/groups?stream={name}&at={cut}&{query}")
                for field in ("groups", "pods", "count", "next"):
                    assert found[field] == expected[field], query
        for group in expected["groups"][:4]:
            key = f"group={quote(group['key'], safe='')}&sort=position"
            found = pods_of(kept, f"stream={name}&at={cut}&{key}")
            whole = pods_of(present, f"stream={name}-{cut}&{key}")
            assert found == _as_known(whole, found), key


@pytest.mark.parametrize(("name", "cut"), [(n, cut) for n, cuts in CUTS.items() for cut in cuts])
def test_orders_by_time(streams: DatabaseStreams, name: str, cut: int) -> None:
    """Of the past some times are unknown: those pods come last, in both orders."""
    client = new_client(streams)
    by_position = pods_of(client, f"stream={name}&at={cut}&sort=position")
    for sign, order in (("", 1), ("-", -1)):
        known = [each for each in by_position if each["since"] is not None]
        known.sort(key=lambda each: (each["since"], each["position"]), reverse=order < 0)
        unknown = [each for each in by_position if each["since"] is None][::order]
        found = pods_of(new_client(streams), f"stream={name}&at={cut}&limit=7&sort={sign}since")
        assert found == [*known, *unknown]
    first = new_client(streams).get(f"/now?stream={name}&at={cut}")
    assert client.get(f"/now?stream={name}&at={cut}") == first


def _as_known(present: list[dict[str, Any]], past: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The pods of the present without times that the past does not know."""
    unknown = {each["uid"] for each in past if each["since"] is None}
    return [each | {"since": None} if each["uid"] in unknown else each for each in present]
