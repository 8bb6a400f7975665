"""The counters that are derived from committed records.

Counting takes a few microseconds per record. For each pod that waits, the start of its wait and its
current attempt are remembered. Earlier terms are unknown: pods that already waited then are left
out of the durations, and the profile of an attempt that began then is "".
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from eventsched.domain import records
from eventsched.domain.records import MoveCause, Outcome, Queue
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.record_catalogue import CATALOGUE
from eventsched.domain.units import SECOND
from eventsched.scheduling.framework import ClusterEvent

_EVENTS: dict[str, str] = {
    MoveCause.POD_ADD: "UnschedulablePodAdd",
    MoveCause.ATTEMPT_FAILED: "ScheduleAttemptFailure",
    MoveCause.PARKED: "ScheduleAttemptFailure",
    MoveCause.OVER_BUDGET: "ScheduleAttemptFailure",
    MoveCause.FLUSH: "UnschedulableTimeout",
    ClusterEvent.POD_UPDATE: "UnschedulablePodUpdate",
    ClusterEvent.NODE_UPDATE_ALLOCATABLE: "NodeUpdateNodeAllocatable",
    ClusterEvent.NODE_UPDATE_LABEL: "NodeUpdateNodeLabel",
    ClusterEvent.NODE_UPDATE_TAINT: "NodeUpdateNodeTaint",
    ClusterEvent.NODE_UPDATE_DECLARED_FEATURE: "NodeUpdateNodeDeclaredFeature",
}
"""Cause of a move → upstream's name for it (pkg/scheduler/framework/events.go), if it differs."""
_LOST = frozenset(
    {
        MoveCause.PERMIT_DENIED,
        MoveCause.BIND_FAILED,
        MoveCause.BINDING_FAILED,
        MoveCause.BIND_VOIDED,
        MoveCause.PREEMPTED,
        MoveCause.NODE_GONE,
    }
)
"""Causes of moves of pods whose reservation was released: their attempt has failed."""
_PREEMPTION = "preemption: "
"""How DefaultPreemption's message begins if it found no victims (upstream: default_preemption.go
PostFilter)."""
_LAST = 15
"""Attempts from which on the label says ``15+`` (upstream: schedule_one.go getAttemptsLabel)."""


class _Attempt(NamedTuple):
    """An attempt that found a node and has not ended."""

    at: int
    profile: str


class RecordCounters:
    """Counters and histograms of committed records."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._series = _Series(registry)
        self._waiting: dict[str, int] = {}
        """Uid → when (µs) the pod came into the active queue for the first time."""
        self._attempts: dict[str, _Attempt] = {}
        self._branches: dict[type, Callable[[Any, int, int], None]] = {
            records.PodQueued: self._queued,
            records.PodDecided: self._decided,
            records.PodBound: self._bound,
            records.PodDeleted: self._deleted,
            records.PreemptionDecided: self._preempted,
            records.ExtenderAnswered: self._extender_answered,
            records.ExtenderReplied: self._extender_replied,
            records.SamplesTaken: self._samples_taken,
            records.TermBegan: self._term_began,
            records.PlacementCompared: self._compared,
        }

    def count(self, logged: Iterable[LogEntry], now: int) -> None:
        """Counts committed records; see ``Metrics.records_committed``."""
        kinds: Tally[str] = Tally()
        for _, at, _, record, _ in logged:
            kind = type(record)
            kinds[kind.__name__] += 1
            if (follow := self._branches.get(kind)) is not None:
                follow(record, at, now)
        for name, count in kinds.items():
            self._series.records(name).inc(count)

    def _queued(self, queued: records.PodQueued, at: int, _: int) -> None:
        queue = "unschedulable" if queued.queue is Queue.GATED else queued.queue.value
        event = "ScheduleAttemptFailure" if queued.cause in _LOST else queued.cause
        self._series.incoming(queue, _EVENTS.get(event, event)).inc()
        if queued.cause == MoveCause.OVER_BUDGET:
            self._series.over_budget.inc()
        if queued.queue is Queue.ACTIVE:
            self._waiting.setdefault(queued.uid, at)
        elif queued.cause in _LOST and queued.uid in self._attempts:
            refused = queued.queue is Queue.UNSCHEDULABLE
            self._ended(queued.uid, "unschedulable" if refused else "error", at)

    def _decided(self, decided: records.PodDecided, at: int, now: int) -> None:
        self._attempts[decided.uid] = _Attempt(at, decided.profile)
        if decided.outcome in (Outcome.UNSCHEDULABLE, Outcome.ERROR):
            self._ended(decided.uid, decided.outcome.value, max(at, now))
        if _PREEMPTION in decided.message:
            self._series.preemption_attempts.inc()

    def _bound(self, bound: records.PodBound, at: int, _: int) -> None:
        if bound.uid in self._attempts:
            self._ended(bound.uid, "scheduled", at)
        else:
            self._series.attempts("scheduled", "").inc()
        self._series.attempts_needed.observe(bound.attempt)
        began = self._waiting.pop(bound.uid, None)
        if began is not None:
            attempts = f"{_LAST}+" if bound.attempt >= _LAST else str(bound.attempt)
            self._series.sli_duration(attempts).observe((at - began) / SECOND)

    def _ended(self, uid: str, result: str, at: int) -> None:
        attempt = self._attempts.pop(uid)
        self._series.attempts(result, attempt.profile).inc()
        self._series.attempt_duration(result, attempt.profile).observe((at - attempt.at) / SECOND)

    def _deleted(self, deleted: records.PodDeleted, at: int, now: int) -> None:
        self._waiting.pop(deleted.uid, None)
        self._attempts.pop(deleted.uid, None)

    def _term_began(self, began: records.TermBegan, at: int, now: int) -> None:
        """If this process led before, it does not know what happened since that term."""
        self._waiting.clear()
        self._attempts.clear()

    def _preempted(self, decided: records.PreemptionDecided, at: int, now: int) -> None:
        self._series.preemption_attempts.inc()
        self._series.victims.observe(len(decided.victims))
        if decided.violations:
            self._series.budget_violations.inc(decided.violations)

    def _extender_replied(self, replied: records.ExtenderReplied, at: int, now: int) -> None:
        self._series.inquiries(replied.verb, "error" if replied.problem else "answer").inc()

    def _extender_answered(self, answered: records.ExtenderAnswered, at: int, now: int) -> None:
        result = "error" if answered.problem else "answer"
        self._series.extender_calls(answered.name, answered.verb, result).inc()
        self._series.extender_duration(answered.name, answered.verb).observe(
            answered.duration / SECOND
        )

    def _samples_taken(self, taken: records.SamplesTaken, at: int, now: int) -> None:
        result = "values" if taken.values else "problem"
        self._series.samples(taken.source, result).inc()

    def _compared(self, compared: records.PlacementCompared, at: int, now: int) -> None:
        """A shadow's pod needs no further attempt."""
        self._waiting.pop(compared.uid, None)
        self._attempts.pop(compared.uid, None)
        self._series.comparisons(compared.outcome.value).inc()
        if not compared.feasible and compared.plugin:
            self._series.refused_there(compared.plugin).inc()


class _IncomingEntities(Collector):
    """Moves into queues under the name that kube-scheduler has from 1.37 on. Its entities are pods
    and pod groups; here all are pods."""

    def __init__(self, moves: Counter) -> None:
        self._moves = moves

    def describe(self) -> Iterator[Metric]:
        """Yields nothing; see ``Gauges.describe``."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """The same numbers with one more label."""
        family = CounterMetricFamily(
            "scheduler_queue_incoming_entities_total",
            "Moves of pods into a queue, by cause; the type is always pod.",
            labels=["queue", "event", "type"],
        )
        for metric in self._moves.collect():
            for sample in metric.samples:
                labels = sample.labels
                family.add_metric([labels["queue"], labels["event"], "pod"], sample.value)
        yield family


class _Series:
    """The metrics. One with labels is a function from label values to its series."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._of_attempts()
        self._of_queues_and_preemption()
        self._of_extenders()
        self._of_shadows()
        samples = self._counter(
            "eventsched_samples_total",
            "Questions for samples of a source, answered with values or not (problem).",
            *("source", "result"),
        )
        self.samples = cache(samples.labels)
        kinds = self._counter("eventsched_log_records_total", "Committed records, by kind.", "kind")
        self.records = cache(kinds.labels)
        for row in CATALOGUE:
            self.records(row.name)

    def _of_attempts(self) -> None:
        attempts = self._counter(
            "scheduler_schedule_attempts_total",
            "Attempts to place a pod that have ended, by result: scheduled (the pod is bound), "
            "unschedulable (no node for it now), error.",
            *("result", "profile"),
        )
        self.attempts = cache(attempts.labels)
        duration = self._histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "From the beginning of an attempt to its end: pod bound, or refusal durable.",
            exponential(0.001, 2, 15),
            *("result", "profile"),
        )
        self.attempt_duration = cache(duration.labels)
        duration = self._histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From a pod's coming into the active queue for the first time to its being bound.",
            exponential(0.01, 2, 20),
            "attempts",
        )
        self.sli_duration = cache(duration.labels)
        self.attempts_needed = self._histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts that it took to place a pod.",
            exponential(1, 2, 5),
        )

    def _of_queues_and_preemption(self) -> None:
        moves = self._counter(
            "scheduler_queue_incoming_pods_total",
            "Moves of pods into a queue, by cause.",
            *("queue", "event"),
        )
        self.incoming = cache(moves.labels)
        self._registry.register(_IncomingEntities(moves))
        self.over_budget = self._counter(
            "eventsched_over_budget_pods_total",
            "Times that a pod was parked, for it asks for more work than an attempt may take.",
        )
        self.preemption_attempts = self._counter(
            "scheduler_preemption_attempts_total",
            "Attempts to make room for a pod that found no node, successful or not.",
        )
        self.victims = self._histogram(
            "scheduler_preemption_victims",
            "Pods that have to leave for one pod to be nominated.",
            exponential(1, 2, 7),
        )
        violations = self._counter(
            "scheduler_preemption_pdb_violations_total",
            "Disruption budgets that preemption violated, by the kind of preemptor: pod.",
            "preemptor",
        )
        self.budget_violations = violations.labels("pod")

    def _of_extenders(self) -> None:
        calls = self._counter(
            "eventsched_extender_calls_total",
            "Questions to extenders that were answered, or failed to be (error).",
            *("extender", "verb", "result"),
        )
        self.extender_calls = cache(calls.labels)
        inquiries = self._counter(
            "eventsched_extender_inquiries_total",
            "Requests of other schedulers to this one as their extender, by result.",
            *("verb", "result"),
        )
        self.inquiries = cache(inquiries.labels)
        duration = self._histogram(
            "eventsched_extender_duration_seconds",
            "From a question to an extender to its answer, or to what went wrong.",
            exponential(0.001, 2, 15),
            *("extender", "verb"),
        )
        self.extender_duration = cache(duration.labels)

    def _of_shadows(self) -> None:
        comparisons = self._counter(
            "eventsched_shadow_comparisons_total",
            "Pods that another scheduler placed or that are gone, compared with what a shadow "
            "decided.",
            "outcome",
        )
        self.comparisons = cache(comparisons.labels)
        refused = self._counter(
            "eventsched_shadow_refused_nodes_total",
            "Pods that another scheduler placed on a node that this plugin of a shadow refuses.",
            "plugin",
        )
        self.refused_there = cache(refused.labels)

    def _counter(self, name: str, help_text: str, *labels: str) -> Counter:
        return Counter(name, help_text, labels, registry=self._registry)

    def _histogram(
        self, name: str, help_text: str, buckets: list[float], *labels: str
    ) -> Histogram:
        return Histogram(name, help_text, labels, buckets=buckets, registry=self._registry)


def exponential(start: float, factor: float, count: int) -> list[float]:
    """Upper bounds of buckets (upstream: component-base/metrics ExponentialBuckets)."""
    return [start * factor**power for power in range(count)]
