"""What tracing costs a leader that only schedules (docs/how-to/trace-attempts.md).

Runs the leader of benchmarks.loops with and without traces of its attempts, in turn. Spans go by
OTLP over HTTP to a collector that only answers, a process of its own. Prints the attempts per
second of each run, CPU time for each attempt, and the share of attempts whose spans were sent:
beyond the SDK's queue (OTEL_BSP_MAX_QUEUE_SIZE) they are dropped. Usage:

    python -m benchmarks.traced SHAPE NODES PODS ROUNDS
"""

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from statistics import median
from typing import NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.loops import led
from benchmarks.runs import Load, generated_load
from eventsched.domain.records import PodDecided
from eventsched.domain.records.log_entry import LogEntry
from eventsched.process.tracing.span_export import Tracing, provider_of_environment
from eventsched.runtime.assembly import assemble


class Measured(NamedTuple):
    """One run: attempts, seconds, and seconds of CPU of all threads."""

    attempts: int
    seconds: float
    cpu: float

    @property
    def rate(self) -> float:
        """Attempts per second."""
        return self.attempts / self.seconds


class Collector(BaseHTTPRequestHandler):
    """Keeps what was sent, for after the measurement."""

    protocol_version = "HTTP/1.1"
    bodies: list[bytes] = []

    def do_POST(self) -> None:
        """Answers at once."""
        self.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def collect(asked: Connection) -> None:
    """Runs the collector: sends its port, and, when asked, how many attempts it has."""
    import gzip
    import threading

    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    asked.send(server.server_port)
    while asked.recv():
        attempts = 0
        for body in Collector.bodies:
            plain = gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body
            for resource in ExportTraceServiceRequest.FromString(plain).resource_spans:
                for scope in resource.scope_spans:
                    attempts += sum(not span.parent_span_id for span in scope.spans)
        Collector.bodies.clear()
        asked.send(attempts)


def measured(load: Load, observe: Callable[[Sequence[LogEntry]], None] | None) -> Measured:
    """A run of the leader, without the end of the export."""
    attempts = 0

    def committed(logged: Sequence[LogEntry]) -> None:
        nonlocal attempts
        attempts += sum(isinstance(entry.record, PodDecided) for entry in logged)
        if observe is not None:
            observe(logged)

    began, used = time.monotonic(), time.process_time()
    led(load, assemble(), on_committed=committed)
    return Measured(attempts, time.monotonic() - began, time.process_time() - used)


def traced(load: Load) -> Measured:
    """A run with tracing, as ``run --tracing`` sets it up."""
    tracing = Tracing(provider_of_environment(), "memory", lambda uid: uid, lambda number: None)

    def observe(logged: Sequence[LogEntry]) -> None:
        tracing.batch_committed(0.0)
        tracing.records_committed(logged, logged[-1].at)

    run = measured(load, observe)
    tracing.close()
    return run


def main() -> None:
    """Prints each pair of runs, and the medians."""
    shape, nodes, pods, rounds = sys.argv[1], *map(int, sys.argv[2:5])
    load = generated_load(shape, nodes, pods)
    asking, asked = multiprocessing.get_context("spawn").Pipe()
    collector = multiprocessing.get_context("spawn").Process(
        target=collect, args=(asked,), daemon=True
    )
    collector.start()
    os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{asking.recv()}"
    pairs, shares = [], []
    for _ in range(rounds):
        pairs.append((measured(load, None), traced(load)))
        asking.send(True)
        shares.append(asking.recv() / pairs[-1][1].attempts)
        plain, with_spans = pairs[-1]
        print(f"{plain.rate:,.0f} and {with_spans.rate:,.0f} attempts/s, {shares[-1]:.0%} sent")
    asking.send(False)
    for name, column in zip(("without", "traced"), zip(*pairs, strict=True), strict=True):
        micros = median(run.cpu / run.attempts for run in column) * 1e6
        rate = median(run.rate for run in column)
        print(f"{name:8}{rate:8,.0f} attempts/s{micros:8.0f} µs of CPU an attempt")
    ratio = median(with_spans.rate / plain.rate for plain, with_spans in pairs)
    print(f"median ratio of attempts/s {ratio:.2f}, median share sent {median(shares):.0%}")


if __name__ == "__main__":
    main()
