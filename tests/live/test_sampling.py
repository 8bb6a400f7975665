"""Samples are asked for while a leader leads, and explained; what Prometheus answers, and what else
may be at its address."""

import asyncio
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from eventsched.domain.errors import InputError
from eventsched.domain.records import SamplesTaken, Stimulus
from eventsched.process import prometheus_samples
from eventsched.process.prometheus_samples import Prometheus, package_of, values_of
from eventsched.runtime.live.sample_source import sample
from eventsched.scheduling.framework.sampling import Sampling, of_nodes
from tests.live.stage import Stage, nodes, until
from tests.waiting import joined


def sampling(address: str = "http://p", **fields: Any) -> Sampling:
    """A source that is asked all the time."""
    given = {"source": "s", "query": "q", "label": "nodename", "interval": 0.001, "max_age": 60.0}
    return Sampling(**{**given, "address": address, **fields})


class Leader:
    """A leader, or a replica that does not lead."""

    def __init__(self) -> None:
        self.elected = True
        self.looks = 0
        """How often ``accepts_stimuli`` was read."""
        self.heard: list[Stimulus] = []

    @property
    def accepts_stimuli(self) -> bool:
        """See the port."""
        self.looks += 1
        return self.elected

    def submit(self, stimulus: Stimulus) -> None:
        """See the port."""
        self.heard.append(stimulus)


def play(
    story: Callable[[Leader, list[str]], Awaitable[None]], *samplings: Sampling
) -> list[Stimulus]:
    """Samples while a story runs; the leader's stimuli. The list has the sources asked."""
    leader, asked = Leader(), list[str]()

    def ask(each: Sampling) -> Callable[[], SamplesTaken]:
        def answer() -> SamplesTaken:
            asked.append(each.source)
            values = {"n1": float(asked.count(each.source))}
            return SamplesTaken(source=each.source, values=values)

        return answer

    async def run() -> None:
        sampled = asyncio.create_task(sample(samplings, ask, leader, lambda: 7_000_000))
        try:
            await story(leader, asked)
        finally:
            sampled.cancel()
            await asyncio.gather(sampled, return_exceptions=True)

    asyncio.run(run())
    return leader.heard


def test_each_source_is_queried_at_its_interval() -> None:
    """And its answers are shown with their time and age."""

    async def story(leader: Leader, asked: list[str]) -> None:
        await until(lambda: asked.count("a") > 2 and asked.count("b") > 2 and len(leader.heard) > 5)

    heard = play(story, sampling(source="a"), sampling(source="b", max_age=5.0))
    told = {"a": 67_000_000, "b": 12_000_000}
    for source, ends in told.items():
        mine = [each for each in heard if getattr(each, "source", "") == source]
        assert mine[:2] == [
            SamplesTaken(source=source, values={"n1": n}, taken=7_000_000, until=ends)
            for n in (1.0, 2.0)
        ]


def test_sources_are_not_queried_before_the_term_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be passed over."""
    monkeypatch.setattr("eventsched.runtime.live.sample_source._POLL_PERIOD", 0.001)

    async def story(leader: Leader, asked: list[str]) -> None:
        leader.elected = False
        await until(lambda: leader.looks > 3)
        assert asked == []
        leader.elected = True
        await until(lambda: leader.heard)

    assert len(play(story, sampling())) >= 1


def test_a_leader_applies_samples() -> None:
    """They are committed."""

    async def run() -> list[str]:
        stage = Stage()
        stage.cluster.put(*nodes(1))
        running = asyncio.create_task(stage.driver.run())
        try:
            await until(lambda: stage.driver.accepts_stimuli and stage.leader.all_committed)
            stage.driver.submit(SamplesTaken(source="s", values={"n0": 1.0}))
            await until(lambda: "SamplesTaken" in stage.database.kinds)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        return stage.database.kinds

    assert asyncio.run(run())[-1] == "SamplesTaken"


@pytest.mark.parametrize(
    ("results", "values", "problem"),
    [
        ([("n1", "3"), ("n2", "0.5")], {"n1": 3.0, "n2": 0.5}, ""),
        ([("n1", "3"), ("n1", "4")], {"n1": 7.0}, ""),
        ([], {}, "no series: is the device named as on the nodes, and are they scraped?"),
        ([("", "3"), ("n1", "1")], {"n1": 1.0}, "1 series have no label nodename"),
        (
            [("n1", "NaN"), ("n2", "+Inf"), ("n3", "1")], {"n3": 1.0},
            "2 series hold no number, such as that of n1, n2",
        ),
    ],
)  # fmt: skip
def test_values_and_problems_of_query_results(
    results: list[tuple[str, str]], values: dict[str, float], problem: str
) -> None:
    """Sums by node, and what could not be read."""
    vector = [
        {"metric": {"nodename": name} if name else {}, "value": [1.5, number]}
        for name, number in results
    ]
    assert values_of(vector, "nodename") == (values, problem)


def test_the_package_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, and how to come by it."""
    monkeypatch.setitem(sys.modules, "prometheus_api_client", None)
    with pytest.raises(InputError) as refused:
        package_of("NetworkTraffic")
    assert "eventsched[prometheus]" in str(refused.value)
    assert "the samples of NetworkTraffic" in str(refused.value)


@contextmanager
def serving(status: int, body: bytes, kind: str = "application/json") -> Iterator[tuple[str, Any]]:
    """Something at an address that gives one answer, and the paths that it was asked for."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", paths
    finally:
        server.shutdown()
        joined(thread)
        server.server_close()


VECTOR = (
    b'{"status":"success","data":{"resultType":"vector","result":['
    b'{"metric":{"nodename":"n1"},"value":[1700000000.1,"42"]}]}}'
)


def asked(address: str) -> SamplesTaken:
    """One answer."""
    pytest.importorskip("prometheus_api_client", reason="prometheus-api-client is not installed")
    client = Prometheus(sampling(address))
    try:
        return client()
    finally:
        client.close()


def test_a_server_that_answers() -> None:
    """Under its path."""
    with serving(200, VECTOR) as (address, paths):
        assert asked(f"{address}/prom") == SamplesTaken(source="s", values={"n1": 42.0})
    assert paths == ["/prom/api/v1/query?query=q"]


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (200, b"<html>Welcome</html>", "the answer is no JSON: is that address Prometheus' own?"),
        (200, b"[]", "the answer is none of Prometheus' kind"),
        (200, b'{"status":"success","data":{"result":[1.5,"3"]}}', "none of Prometheus' kind"),
        (200, VECTOR.replace(b'1700000000.1,"42"', b""), "none of Prometheus' kind"),
        (200, b"[" * 100_000, "the answer is n"),
        (200, b'{"data":{"result":[]}}', "no series: is the device named"),
        (400, b'{"error":"parse error"}', "Prometheus refuses: HTTP Status Code 400"),
        (404, b"not here" * 200, "Prometheus refuses: HTTP Status Code 404"),
        (503, b"", "Prometheus refuses: HTTP Status Code 503"),
    ],
)
def test_an_unusable_answer(status: int, body: bytes, told: str) -> None:
    """No values; what it was, in few words."""
    with serving(status, body) as (address, _):
        found = asked(address)
    assert found.values == {}
    assert told in found.problem
    assert len(found.problem) <= 300


def test_names_that_cannot_be_stored() -> None:
    """Half a surrogate pair is reported as such."""
    odd = VECTOR.replace(b"n1", b"\\ud800")
    with serving(200, odd) as (address, _):
        assert of_nodes(asked(address), {"n1": 0}) == SamplesTaken(
            source="s",
            problem="there are no numbers for nodes of the cluster, but for \\ud800",
        )


def test_an_unreachable_server() -> None:
    """The reason, without the whole address."""
    with serving(200, b"") as (address, _):
        pass
    assert asked(address).problem == "Prometheus cannot be reached: Connection refused"


def test_a_silent_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is not waited for for long."""
    monkeypatch.setattr(prometheus_samples, "TIMEOUT", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert asked(address).problem == "Prometheus does not answer within 0.1 s"
