"""Passes attempts to the OpenTelemetry SDK.

The SDK queues spans and sends them from a thread of its own. A full queue drops spans, and a failed
export is logged; scheduling waits for neither.
"""

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, SpanContext, Status, StatusCode, Tracer, set_span_in_context

from eventsched import __version__
from eventsched.domain.errors import InputError
from eventsched.domain.records import PlacementCompared, PodBound, PodDeleted, TermBegan
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.verdicts import Verdict
from eventsched.process.tracing.attempt_spans import (
    AttemptRecorder,
    AttemptTrace,
    Span,
    sent_at,
)

_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_HTTP = "http/protobuf"
_QUEUE_VARIABLE = "OTEL_BSP_MAX_QUEUE_SIZE"
QUEUE_SIZE = 16_384
"""Spans that wait to be sent at most, unless the variable says another number. They take 45 MB.
The SDK's own default is 2,048: at full speed the attempts of a third of a second."""
_PATIENCE = 5.0
"""Seconds that the end of the process waits for the last spans."""


def provider_of_environment() -> TracerProvider:
    """A provider that sends spans by OTLP over HTTP, as the OTEL_* environment variables say; its
    queue holds QUEUE_SIZE spans by default. Raises InputError if they cannot be followed."""
    for name in _PROTOCOLS:
        if (protocol := os.environ.get(name, _HTTP)) != _HTTP:
            raise InputError(f"${name}", f"{protocol} is not supported", f"use {_HTTP}")
    try:
        resource = Resource.create(_own_name())
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        size = None if os.environ.get(_QUEUE_VARIABLE) else QUEUE_SIZE
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), max_queue_size=size))
    except ValueError as error:
        problem = f"cannot be used: {error}"
        raise InputError("OTEL_* variables", problem, "correct or unset it") from error
    return provider


def _own_name() -> dict[str, str]:
    """Our name for the resource, unless the environment has one."""
    named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    return {} if named else {SERVICE_NAME: "eventsched"}


class Tracing:
    """The traces of one process."""

    def __init__(
        self,
        provider: TracerProvider,
        stream: str,
        pod_name: Callable[[str], str],
        verdict: Callable[[int], Verdict | None],
    ) -> None:
        self._provider = provider
        self._tracer: Tracer = provider.get_tracer("eventsched", __version__)
        self._recorder = AttemptRecorder(stream, pod_name, verdict)
        self._earlier: dict[str, SpanContext] = {}
        """Uid of a pod that waits → its last attempt."""
        self._commit_seconds = 0.0

    def batch_committed(self, seconds: float) -> None:
        """A batch is durable, ``seconds`` after it was first sent; its records come next."""
        self._commit_seconds = seconds

    def records_committed(self, logged: Sequence[LogEntry], now: int) -> None:
        """Passes on the attempts that these records end. ``now`` in µs."""
        for trace in self._recorder.committed(logged, sent_at(now, self._commit_seconds), now):
            self._export(trace)
        for entry in logged:
            match entry.record:
                case PodDeleted() | PodBound() | PlacementCompared():
                    self._earlier.pop(entry.record.uid, None)
                case TermBegan():
                    self._earlier.clear()

    def close(self) -> None:
        """Sends what is queued, and ends; gives up after some seconds."""
        ending = threading.Thread(target=self._provider.shutdown, daemon=True)
        ending.start()
        ending.join(_PATIENCE)

    def _export(self, trace: AttemptTrace) -> None:
        earlier = self._earlier.pop(trace.uid, None)
        links = [] if earlier is None else [Link(earlier, {"relation": "earlier attempt"})]
        root = self._tracer.start_span(
            trace.attempt.name, Context(), attributes=_filled(trace.attempt.attributes),
            links=links, start_time=_nanoseconds(trace.attempt.start),
        )  # fmt: skip
        if root.is_recording():  # or else the sampler leaves the attempt out
            inside = set_span_in_context(root, Context())
            for part in trace.parts:
                self._part(part, inside)
            if trace.attempt.failure:
                root.set_status(Status(StatusCode.ERROR, trace.attempt.failure))
        root.end(_nanoseconds(trace.attempt.end))
        if not trace.is_last:
            self._earlier[trace.uid] = root.get_span_context()

    def _part(self, part: Span, inside: Context) -> None:
        span = self._tracer.start_span(
            part.name, inside, attributes=_filled(part.attributes),
            start_time=_nanoseconds(part.start),
        )  # fmt: skip
        for moment in part.moments:
            span.add_event(moment.name, _filled(moment.attributes), _nanoseconds(moment.at))
        if part.failure:
            span.set_status(Status(StatusCode.ERROR, part.failure))
        span.end(_nanoseconds(part.end))


def _filled(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes that are not empty text."""
    return {name: value for name, value in attributes.items() if value != ""}


def _nanoseconds(micros: int) -> int:
    return micros * 1_000
