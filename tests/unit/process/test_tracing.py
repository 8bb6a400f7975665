"""Traces of attempts, by the SDK's own exporter in memory and by a collector on a local port."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Decision, Sampler, SamplingResult

from eventsched.cli.run import require_tracing
from eventsched.domain import records
from eventsched.domain.errors import InputError
from eventsched.domain.records import MoveCause, Outcome, PodDecided, PodQueued, Queue, Record
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.verdicts import Code, Verdict
from eventsched.process.tracing.attempt_spans import AttemptRecorder
from eventsched.process.tracing.span_export import Tracing, provider_of_environment
from tests.waiting import LIMIT, joined

TAINTED = Verdict("TaintToleration", Code.UNRESOLVABLE, ("a taint",))
T = 1_700_000_000_000_000
"""µs; times below count from here."""


class Traced:
    """Tracing into memory. Each batch is durable 30 µs after its last record's time, 10 µs after it
    was sent."""

    def __init__(self, sampler: Sampler = ALWAYS_ON) -> None:
        self.memory = InMemorySpanExporter()
        provider = TracerProvider(sampler, shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.memory))
        verdicts = {1: TAINTED}
        self.tracing = Tracing(provider, "s", lambda uid: f"default/{uid}", verdicts.get)
        self._position = 0

    def commit(self, *logged: tuple[int, Record]) -> None:
        entries = []
        for at, record in logged:
            entries.append(LogEntry(self._position, T + at, 0, record))
            self._position += 1
        self.tracing.batch_committed(10e-6)
        self.tracing.records_committed(entries, T + logged[-1][0] + 30)

    @property
    def spans(self) -> list[tuple[str, int, int]]:
        return [
            (span.name, (span.start_time or 0) // 1000 - T, (span.end_time or 0) // 1000 - T)
            for span in self.memory.get_finished_spans()
        ]

    @property
    def attempts(self) -> list[ReadableSpan]:
        return [span for span in self.memory.get_finished_spans() if span.name == "attempt"]


def queued(queue: Queue = Queue.ACTIVE, cause: str = MoveCause.POD_ADD) -> PodQueued:
    return PodQueued("p", queue, cause)


def placed(outcome: Outcome = Outcome.SCHEDULED, attempt: int = 1) -> PodDecided:
    return PodDecided("p", attempt, outcome, node="n", feasible=2, evaluated=3, score=90)


REFUSED = PodDecided(
    "p", 1, Outcome.UNSCHEDULABLE, evaluated=3, counts=((1, 3), (9, 1)), message="0/3 nodes"
)


def test_a_placed_pod() -> None:
    traced = Traced()
    traced.commit((0, queued()), (100, placed()))
    assert traced.spans == [], "the attempt is under way"
    traced.commit((500, records.PodBound("p", "n", 1)))
    assert traced.spans == [
        ("queue wait", 0, 100), ("plugins", 100, 120), ("commit", 120, 130), ("bind", 130, 500),
        ("attempt", 0, 500),
    ]  # fmt: skip
    (attempt,) = traced.attempts
    assert attempt.attributes == {
        "eventsched.stream": "s", "eventsched.position": 1, "eventsched.attempt": 1,
        "eventsched.outcome": "scheduled", "eventsched.profile": "default-scheduler",
        "k8s.pod.name": "default/p", "k8s.pod.uid": "p", "k8s.node.name": "n",
    }  # fmt: skip
    assert attempt.parent is None
    assert {span.context.trace_id for span in traced.memory.get_finished_spans()} == {
        attempt.context.trace_id
    }


def test_of_an_attempt_that_is_left_out_only_the_root_is_made() -> None:
    """Its parts would not be sent."""
    asked: list[str] = []

    class LeavesOut(Sampler):
        def should_sample(
            self, parent_context: Any, trace_id: int, name: str, *more: Any, **others: Any
        ) -> SamplingResult:
            asked.append(name)
            return SamplingResult(Decision.DROP)

        def get_description(self) -> str:
            return "none"

    traced = Traced(LeavesOut())
    traced.commit((0, queued()), (100, placed()), (500, records.PodBound("p", "n", 1)))
    assert (asked, traced.spans) == (["attempt"], [])


def test_a_refused_pod_and_its_next_attempt() -> None:
    traced = Traced()
    traced.commit((0, queued()), (100, REFUSED))
    traced.commit((200, queued(Queue.UNSCHEDULABLE, MoveCause.ATTEMPT_FAILED)))
    traced.commit((300, queued(cause="NodeAdd")), (400, placed(attempt=2)))
    traced.commit((500, records.PodBound("p", "n", 2)))
    first, second = traced.attempts
    assert (first.status.description, second.status.description) == ("0/3 nodes", None)
    assert (first.links, [link.context for link in second.links]) == ((), [first.context])
    plugins, wait = (
        next(span for span in traced.memory.get_finished_spans()[i:] if span.name == name)
        for i, name in ((0, "plugins"), (4, "queue wait"))
    )
    assert [dict(event.attributes or {}) for event in plugins.events] == [
        {
            "plugin": "TaintToleration",
            "code": "UnschedulableAndUnresolvable",
            "nodes": 3,
            "reasons": ("a taint",),
        }
    ], "a verdict of unknown meaning is left out"
    assert [(event.name, event.timestamp // 1000 - T) for event in wait.events] == [
        ("unschedulable", 200), ("active", 300),
    ]  # fmt: skip


def test_permit_prebind_and_a_reservation_that_is_given_up() -> None:
    traced = Traced()
    traced.commit(
        (0, queued()),
        (5, records.ExtenderAnswered("p", 1, 0, "filter", name="e", duration=4, problem="down")),
        (10, placed(Outcome.WAITING)),
    )
    traced.commit((200, records.PreparationIntended("p", "n", 1)))
    traced.commit((300, records.BindIntended("p", "n", 1)))
    traced.commit((400, records.PodUnreserved("p", "n", "VolumeBinding", "no volume")))
    assert traced.spans == [
        ("queue wait", 0, 10), ("extender e filter", 1, 5), ("plugins", 10, 30), ("commit", 30, 40),
        ("permit", 40, 200), ("prebind", 200, 300), ("bind", 300, 400), ("attempt", 0, 400),
    ]  # fmt: skip
    assert traced.attempts[0].status.description == "no volume"


def test_nothing_is_kept_of_pods_that_are_gone() -> None:
    recorder = AttemptRecorder("s", str, lambda _: None)

    def commit(*logged: Record) -> list[str]:
        entries = [LogEntry(i, T, 0, record) for i, record in enumerate(logged)]
        return [each.attempt.failure for each in recorder.committed(entries, T, T)]

    def kept() -> int:
        return len(recorder._waits) + len(recorder._attempts)

    assert commit(queued(), records.PodDeleted("p")) == []
    assert commit(queued(), placed(), records.PodDeleted("p")) == ["the pod was deleted"]
    assert commit(queued(), placed(), records.PodBound("p", "n", 1)) == [""]
    assert kept() == 0
    assert (
        commit(queued(), placed(), records.TermBegan(2, "t"), records.PodBound("p", "n", 1)) == []
    )
    assert kept() == 0


@pytest.mark.parametrize("gone", [
    records.PodDeleted("p"), records.PodBound("p", "n", 1), records.TermBegan(2, "t"),
])  # fmt: skip
def test_no_attempt_is_kept_of_a_pod_that_is_gone(gone: Record) -> None:
    traced = Traced()
    traced.commit((0, queued()), (100, REFUSED))
    assert list(traced.tracing._earlier) == ["p"]
    traced.commit((200, queued(Queue.UNSCHEDULABLE, MoveCause.ATTEMPT_FAILED)), (300, gone))
    assert traced.tracing._earlier == {}


@contextmanager
def collector(
    status: int, answers: threading.Event | None = None
) -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """The address of an OTLP collector that answers with a status, once ``answers`` is set, and
    what it has received."""
    received: list[ExportTraceServiceRequest] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append(ExportTraceServiceRequest.FromString(body))
            if answers is not None:
                answers.wait(LIMIT)
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Writes no access log."""

    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", received
        finally:
            server.shutdown()
            joined(thread)


def traced_to(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One attempt, sent to an address."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
    tracing = Tracing(provider_of_environment(), "s", str, lambda _: None)
    logged = [LogEntry(7, T, 0, queued()), LogEntry(8, T, 0, REFUSED)]
    tracing.records_committed(logged, T)
    tracing.close()


def test_a_collector_receives_the_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    with collector(200) as (endpoint, received):
        traced_to(endpoint, monkeypatch)
    (request,) = received
    (resource,) = request.resource_spans
    names = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert names["service.name"] == "eventsched"
    spans = [span.name for scope in resource.scope_spans for span in scope.spans]
    assert spans == ["queue wait", "plugins", "commit", "attempt"]


@pytest.mark.parametrize(("size", "are_all_sent"), [("", True), ("1000", False)])
def test_the_queue_takes_what_a_slow_collector_leaves(
    monkeypatch: pytest.MonkeyPatch, size: str, are_all_sent: bool
) -> None:
    """More than the SDK's own default, which full speed fills in a third of a second."""
    attempts, answers = 700, threading.Event()
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", size)
    with collector(200, answers) as (endpoint, received):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        tracing = Tracing(provider_of_environment(), "s", str, lambda _: None)
        for first in range(0, 2 * attempts, 2):
            logged = [LogEntry(first, T, 0, queued()), LogEntry(first + 1, T, 0, REFUSED)]
            tracing.records_committed(logged, T)
        answers.set()
        tracing.close()
    scopes = [
        scope for each in received for part in each.resource_spans for scope in part.scope_spans
    ]
    assert (sum(len(scope.spans) for scope in scopes) == 4 * attempts) is are_all_sent


def test_without_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "eventsched.process.tracing.span_export")
    monkeypatch.setitem(sys.modules, "opentelemetry.context", None)
    with pytest.raises(InputError) as caught:
        require_tracing()
    assert str(caught.value) == (
        "tracing: needs the package opentelemetry.context; install it: pip install "
        "'eventsched[otel]'"
    )


def test_a_collector_that_refuses_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with collector(400) as (endpoint, received):
        traced_to(endpoint, monkeypatch)
    assert len(received) == 1
    assert "400" in caplog.text


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc",
         "$OTEL_EXPORTER_OTLP_PROTOCOL: grpc is not supported; use http/protobuf"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "1", "OTEL_* variables: cannot be used: "),
    ],
)  # fmt: skip
def test_variables_that_cannot_be_followed(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(InputError) as caught:
        provider_of_environment()
    assert str(caught.value).startswith(message)
