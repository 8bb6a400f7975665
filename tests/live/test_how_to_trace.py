"""docs/how-to/trace-attempts.md: its command, its variables, and the spans that it names."""

import re
import shlex
from pathlib import Path

from opentelemetry.sdk import environment_variables
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from eventsched.domain import records
from eventsched.domain.records import MoveCause, Outcome, PodDecided, PodQueued, Queue
from eventsched.domain.records.log_entry import LogEntry
from eventsched.process.replica_status import LiveStatus
from eventsched.process.service_observer import ServiceObserver
from eventsched.process.settings import Settings
from eventsched.process.start_times import StartClock
from eventsched.process.tracing.span_export import Tracing
from eventsched.runtime.assembly import assemble
from eventsched.web.metrics import Metrics

from .test_service import in_effect

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to/trace-attempts.md").read_text(encoding="utf-8")


def test_the_option_is_what_the_setting_is() -> None:
    (command,) = re.findall(r"^\$ eventsched (run .*)$", PAGE, re.MULTILINE)
    assert in_effect(*shlex.split(command)[1:]).tracing.enabled
    assert not Settings().tracing.enabled


def test_the_variables_are_those_of_the_sdk() -> None:
    named = set(re.findall(r"\bOTEL_[A-Z_]+", PAGE))
    assert len(named) > 8
    assert named <= set(vars(environment_variables))


def test_the_spans_are_those_of_a_scheduler() -> None:
    """What the process's observer is given ends up in spans."""
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    status, assembly = LiveStatus(""), assemble(None)
    tracing = Tracing(provider, "s", status.pod_name, status.verdict)
    observer = ServiceObserver(Metrics(), "s", status, assembly, StartClock(), tracing=tracing)
    at = 1_700_000_000_000_000
    logged = [
        PodQueued("p", Queue.ACTIVE, MoveCause.POD_ADD),
        records.ExtenderAnswered("p", 1, 0, "filter", name="e"),
        PodDecided("p", 1, Outcome.WAITING, node="n", counts=((1, 2),)),
        records.PreparationIntended("p", "n", 1),
        records.BindIntended("p", "n", 1),
        records.PodBound("p", "n", 1),
    ]
    observer.batch_committed(0.001, len(logged), 100)
    entries = [LogEntry(i, at + i, 0, record) for i, record in enumerate(logged)]
    observer.records_committed(entries, at + 10_000)
    tracing.close()
    named = re.findall(r"^\| `([a-z A-Z]+)` \|", PAGE, re.MULTILINE)
    sent = [span.name.replace("e filter", "NAME VERB") for span in memory.get_finished_spans()]
    assert sent == [*named[1:], named[0]]
