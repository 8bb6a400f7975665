"""Metrics: what is counted of records and facts, and whether names and documentation hold."""

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from eventsched.domain import records
from eventsched.domain.records import Outcome, Queue, Record
from eventsched.domain.records.log_entry import LogEntry
from eventsched.runtime.live.log_housekeeping import HousekeepingStatus
from eventsched.runtime.symptoms.long_waits import LongWaitCounts
from eventsched.web.metrics import Metrics
from eventsched.web.reload_metrics import ReloadMetrics
from tests.builders import SECOND, make_pod
from tests.web.facts import Facts, WatchFacts

DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"
FULL = Facts(
    lease="eventsched",
    leading=True,
    epoch=3,
    log_head=100,
    log_lag=2,
    queues={"active": 1, "backoff": 2, "unschedulable": 3, "gated": 4},
    unschedulable={("NodeResourcesFit", "default-scheduler"): 3},
    oldest_waiting={("unschedulable", "default-scheduler"): 86_400.5},
    long_waits=LongWaitCounts({"default-scheduler": 4}, {"default-scheduler": 2}, 6.5),
    preemption_anomalies={"evicted_again": 3, "nominated_again": 0, "preempted_for_nothing": 1},
    nodes=5,
    pods=7,
    reservations=6,
    open_binds=8,
    open_evictions=9,
    overcommitted_nodes=1,
    reports_waiting=10,
    reports_dropped=11,
    reports_refused=13,
    divergences={"moved": 2, "unbound": 0, "taken": 0, "foreign": 0},
    database_size=4096,
    housekeeping=HousekeepingStatus(done_at=7.5, records_ahead=99, unarchived_since=5.0),
    watches={"Pod": WatchFacts(events=12, relists=1, reconnects=2, lag=0.5, undecodable=1)},
)


class Story(NamedTuple):
    """Records at times (s)."""

    steps: list[tuple[float, Record]]

    @property
    def logged(self) -> list[LogEntry]:
        """As they are when they are committed."""
        return [
            LogEntry(position, round(at * SECOND), position, record)
            for position, (at, record) in enumerate(self.steps)
        ]


def queued(uid: str, queue: Queue, cause: str) -> Record:
    return records.PodQueued(uid=uid, queue=queue, cause=cause)


def decided(uid: str, outcome: Outcome, attempt: int = 1, message: str = "") -> Record:
    return records.PodDecided(uid=uid, attempt=attempt, outcome=outcome, message=message)


def series(metrics: Metrics) -> dict[str, float]:
    """All samples by name and labels, without buckets, zeros and metrics of the process."""
    text = metrics.exposition()[0].decode()
    found = {}
    for line in text.splitlines():
        name, _, value = line.rpartition(" ")
        ours = name.startswith(("scheduler_", "eventsched_", "leader_"))
        if ours and "_bucket" not in name and "_build_" not in name and float(value):
            found[name] = float(value)
    return found


def counted(story: Story, now: float = 0, *, kinds: bool = False) -> dict[str, float]:
    """What a story adds to the metrics."""
    metrics = Metrics()
    metrics.records_committed(story.logged, round(now * SECOND))
    left_out = ("_entities_",) if kinds else ("_entities_", "_records_")
    return {
        name: value
        for name, value in series(metrics).items()
        if not any(part in name for part in left_out)
    }


def families(metrics: Metrics) -> list[Metric]:
    return list(text_string_to_metric_families(metrics.exposition()[0].decode()))


def test_a_pod_that_is_placed_at_once() -> None:
    story = Story(
        [
            (1.0, records.PodAdded(pod=make_pod("p"))),
            (1.0, queued("p", Queue.ACTIVE, "PodAdd")),
            (1.5, decided("p", Outcome.SCHEDULED)),
            (2.0, records.BindSucceeded(uid="p", node="n")),
            (2.0, records.PodBound(uid="p", node="n", attempt=1)),
        ]
    )
    of = '{profile="default-scheduler",result="scheduled"}'
    assert counted(story, kinds=True) == {
        'scheduler_queue_incoming_pods_total{event="UnschedulablePodAdd",queue="active"}': 1,
        f"scheduler_schedule_attempts_total{of}": 1,
        f"scheduler_scheduling_attempt_duration_seconds_count{of}": 1,
        f"scheduler_scheduling_attempt_duration_seconds_sum{of}": 0.5,
        'scheduler_pod_scheduling_sli_duration_seconds_count{attempts="1"}': 1,
        'scheduler_pod_scheduling_sli_duration_seconds_sum{attempts="1"}': 1.0,
        "scheduler_pod_scheduling_attempts_count": 1,
        "scheduler_pod_scheduling_attempts_sum": 1,
        'eventsched_log_records_total{kind="PodAdded"}': 1,
        'eventsched_log_records_total{kind="PodQueued"}': 1,
        'eventsched_log_records_total{kind="PodDecided"}': 1,
        'eventsched_log_records_total{kind="BindSucceeded"}': 1,
        'eventsched_log_records_total{kind="PodBound"}': 1,
    }


def test_a_pod_that_is_refused_and_finds_no_victim() -> None:
    story = Story(
        [
            (1.0, queued("p", Queue.ACTIVE, "PodAdd")),
            (2.0, decided("p", Outcome.UNSCHEDULABLE, message="0/1 …. preemption: 0/1 …")),
            (2.0, queued("p", Queue.UNSCHEDULABLE, "AttemptFailed")),
            (302.0, queued("p", Queue.ACTIVE, "Flush")),
        ]
    )
    of = '{profile="default-scheduler",result="unschedulable"}'
    moved = "scheduler_queue_incoming_pods_total"
    assert counted(story, now=2.25) == {
        f'{moved}{{event="UnschedulablePodAdd",queue="active"}}': 1,
        f'{moved}{{event="ScheduleAttemptFailure",queue="unschedulable"}}': 1,
        f'{moved}{{event="UnschedulableTimeout",queue="active"}}': 1,
        f"scheduler_schedule_attempts_total{of}": 1,
        f"scheduler_scheduling_attempt_duration_seconds_count{of}": 1,
        f"scheduler_scheduling_attempt_duration_seconds_sum{of}": 0.25,
        "scheduler_preemption_attempts_total": 1,
    }


def test_a_preemption() -> None:
    decision = records.PreemptionDecided(
        uid="p", attempt=1, node="n", row=0, criterion="only", victims=("a", "b"), violations=1
    )
    assert counted(Story([(1.0, decision)])) == {
        "scheduler_preemption_attempts_total": 1,
        "scheduler_preemption_victims_count": 1,
        "scheduler_preemption_victims_sum": 2,
        'scheduler_preemption_pdb_violations_total{preemptor="pod"}': 1,
    }


def test_entities_are_pods() -> None:
    """The names of kube-scheduler 1.37 have the same numbers."""
    metrics = Metrics()
    metrics.attach(FULL)
    metrics.records_committed(Story([(1.0, queued("p", Queue.ACTIVE, "PodAdd"))]).logged, 0)
    found = series(metrics)
    moves = {name: value for name, value in found.items() if "_queue_incoming_" in name}
    labels = 'event="UnschedulablePodAdd",queue="active"'
    assert moves == {
        f"scheduler_queue_incoming_pods_total{{{labels}}}": 1,
        f'scheduler_queue_incoming_entities_total{{{labels},type="pod"}}': 1,
    }
    for queue, count in FULL.queues.items():
        assert found[f'scheduler_queued_entities{{queue="{queue}",type="pod"}}'] == count


@pytest.mark.parametrize(
    ("cause", "queue", "result"),
    [
        ("BindFailed", Queue.BACKOFF, "error"),
        ("BindVoided", Queue.BACKOFF, "error"),
        ("NodeGone", Queue.BACKOFF, "error"),
        ("PermitDenied", Queue.UNSCHEDULABLE, "unschedulable"),
        ("PermitDenied", Queue.BACKOFF, "error"),
    ],
)
def test_a_reservation_that_is_given_up_ends_the_attempt(
    cause: str, queue: Queue, result: str
) -> None:
    story = Story(
        [
            (1.0, decided("p", Outcome.WAITING)),
            (3.0, records.PodUnreserved(uid="p", node="n")),
            (3.0, queued("p", queue, cause)),
        ]
    )
    of = f'{{profile="default-scheduler",result="{result}"}}'
    assert counted(story) == {
        f'scheduler_queue_incoming_pods_total{{event="ScheduleAttemptFailure",queue="{queue}"}}': 1,
        f"scheduler_schedule_attempts_total{of}": 1,
        f"scheduler_scheduling_attempt_duration_seconds_count{of}": 1,
        f"scheduler_scheduling_attempt_duration_seconds_sum{of}": 2.0,
    }


def test_a_pod_from_before_the_term_counts_but_has_no_durations() -> None:
    story = Story(
        [
            (1.0, queued("p", Queue.GATED, "PodAdd")),
            (1.0, queued("p", Queue.ACTIVE, "PodUpdate")),
            (1.0, decided("p", Outcome.SCHEDULED, 20)),
            (2.0, records.TermBegan(epoch=2, token="00000000")),
            (3.0, records.PodBound(uid="p", node="n", attempt=20)),
        ]
    )
    moved = "scheduler_queue_incoming_pods_total"
    assert counted(story) == {
        f'{moved}{{event="UnschedulablePodAdd",queue="unschedulable"}}': 1,
        f'{moved}{{event="UnschedulablePodUpdate",queue="active"}}': 1,
        'scheduler_schedule_attempts_total{profile="",result="scheduled"}': 1,
        "scheduler_pod_scheduling_attempts_count": 1,
        "scheduler_pod_scheduling_attempts_sum": 20,
    }


def test_nothing_is_stored_about_deleted_pods() -> None:
    metrics = Metrics()
    steps: list[tuple[float, Record]] = [
        (1.0, queued("bound", Queue.ACTIVE, "PodAdd")),
        (1.0, decided("bound", Outcome.SCHEDULED)),
        (2.0, records.PodBound(uid="bound", node="n", attempt=1)),
        (3.0, queued("deleted", Queue.ACTIVE, "PodAdd")),
        (3.0, decided("deleted", Outcome.WAITING)),
        (4.0, records.PodDeleted(uid="deleted")),
    ]
    metrics.records_committed(Story(steps).logged, 0)
    assert (metrics._record_counters._waiting, metrics._record_counters._attempts) == ({}, {})


def test_every_kind_of_record_is_there_from_the_beginning() -> None:
    [kinds] = [f for f in families(Metrics()) if f.name == "eventsched_log_records"]
    assert {sample.value for sample in kinds.samples} == {0.0}
    assert {"PodBound", "BindVoided", "HistoryLost"} < {s.labels["kind"] for s in kinds.samples}


def test_measurements_that_are_not_in_records() -> None:
    metrics = Metrics()
    metrics.batch_committed(0.5, 256, 100_000)
    metrics.fenced()
    metrics.log_applied(2.0)
    metrics.took_over(3.0)
    metrics.checkpoint_signed()
    metrics.checkpoint_unwritten()
    assert series(metrics) == {
        "eventsched_log_commit_duration_seconds_count": 1,
        "eventsched_log_commit_duration_seconds_sum": 0.5,
        "eventsched_log_batch_records_count": 1,
        "eventsched_log_batch_records_sum": 256,
        "eventsched_log_batch_bytes_count": 1,
        "eventsched_log_batch_bytes_sum": 100_000,
        "eventsched_log_fenced_appends_total": 1,
        "eventsched_log_fold_duration_seconds_count": 1,
        "eventsched_log_fold_duration_seconds_sum": 2.0,
        "eventsched_takeover_duration_seconds_count": 1,
        "eventsched_takeover_duration_seconds_sum": 3.0,
        "eventsched_checkpoints_total": 1,
        "eventsched_checkpoint_write_failures_total": 1,
    }


def test_the_facts_of_a_scheduler_are_read_at_each_scrape() -> None:
    metrics = Metrics()
    metrics.attach(FULL)
    assert series(metrics) == {
        'scheduler_pending_pods{queue="active"}': 1,
        'scheduler_pending_pods{queue="backoff"}': 2,
        'scheduler_pending_pods{queue="unschedulable"}': 3,
        'scheduler_pending_pods{queue="gated"}': 4,
        'scheduler_queued_entities{queue="active",type="pod"}': 1,
        'scheduler_queued_entities{queue="backoff",type="pod"}': 2,
        'scheduler_queued_entities{queue="unschedulable",type="pod"}': 3,
        'scheduler_queued_entities{queue="gated",type="pod"}': 4,
        'scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="default-scheduler"}': 3,
        "eventsched_oldest_waiting_timestamp_seconds"
        '{profile="default-scheduler",queue="unschedulable"}': 86_400.5,
        'eventsched_starving_pods{profile="default-scheduler"}': 4,
        'eventsched_unplaceable_pods{profile="default-scheduler"}': 2,
        "eventsched_long_waits_since_timestamp_seconds": 6.5,
        'eventsched_preemption_anomalies_total{kind="evicted_again"}': 3,
        'eventsched_preemption_anomalies_total{kind="preempted_for_nothing"}': 1,
        'scheduler_cache_size{type="nodes"}': 5,
        'scheduler_cache_size{type="pods"}': 7,
        'scheduler_cache_size{type="assumed_pods"}': 6,
        'leader_election_master_status{name="eventsched"}': 1,
        "eventsched_log_head_records": 100,
        "eventsched_log_lag_records": 2,
        "eventsched_log_epoch": 3,
        "eventsched_open_binds": 8,
        "eventsched_open_evictions": 9,
        "eventsched_overcommitted_nodes": 1,
        "eventsched_reports_waiting": 10,
        "eventsched_reports_dropped_total": 11,
        "eventsched_reports_refused_total": 13,
        'eventsched_divergences_total{kind="moved"}': 2,
        "eventsched_database_size_bytes": 4096,
        "eventsched_housekeeping_last_success_timestamp_seconds": 7.5,
        "eventsched_log_partition_records_ahead": 99,
        "eventsched_log_unarchived_timestamp_seconds": 5,
        'eventsched_watch_events_total{resource="Pod"}': 12,
        'eventsched_watch_relists_total{resource="Pod"}': 1,
        'eventsched_watch_reconnects_total{resource="Pod"}': 2,
        'eventsched_watch_lag_seconds{resource="Pod"}': 0.5,
        'eventsched_undecodable_objects{resource="Pod"}': 1,
    }


REFUSED_THERE = records.PlacementCompared(
    uid="r", outcome=records.PlacementMatch.ONLY_THERE, node="n", attempt=1, plugin="NodePorts"
)


def test_what_a_shadow_compares() -> None:
    """By outcome; and the plugins that refuse the other scheduler's node."""
    same = records.PlacementCompared(
        uid="p", outcome=records.PlacementMatch.SAME, node="n", chosen="n", attempt=1, feasible=True
    )
    metrics = Metrics()
    metrics.records_committed(Story([(1.0, same), (2.0, REFUSED_THERE), (3.0, same)]).logged, 0)
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in families(metrics)
        for sample in family.samples
        if sample.name.startswith("eventsched_shadow_") and sample.name.endswith("_total")
    }
    assert found == {
        ("eventsched_shadow_comparisons_total", "same"): 2,
        ("eventsched_shadow_comparisons_total", "only_there"): 1,
        ("eventsched_shadow_refused_nodes_total", "NodePorts"): 1,
    }


def everything() -> Metrics:
    """Metrics with a series of every name."""
    metrics = Metrics()
    metrics.attach(FULL)
    ReloadMetrics(metrics.registry, 1.0)
    pod: list[tuple[float, Record]] = [
        (1.0, queued("p", Queue.ACTIVE, "PodAdd")),
        (1.0, decided("p", Outcome.SCHEDULED)),
        (2.0, records.PodBound(uid="p", node="n", attempt=1)),
        (2.0, records.ExtenderAnswered(uid="q", attempt=1, extender=0, verb="filter", name="x")),
        (2.0, records.SamplesTaken(source="s", values={"n1": 1.0})),
    ]
    pod.append((2.0, records.ExtenderReplied(number=1, uid="q", verb="filter")))
    pod.append((2.0, REFUSED_THERE))
    metrics.records_committed(Story(pod).logged, 0)
    return metrics


class Described(NamedTuple):
    """A metric as the document and the exposition both know it."""

    type: str
    labels: frozenset[str]


def test_the_document_names_every_metric_with_its_type_and_labels() -> None:
    documented = {}
    for line in DOCUMENT.read_text().splitlines():
        if found := re.match(r"\| `(\w+)` \| (\w+) \| ([^|]*)\| (.*\.) \|$", line):
            name, kind, labels, _ = found.groups()
            documented[name] = Described(kind, frozenset(re.findall(r"`(\w+)`", labels)))
    told = {}
    for family in families(everything()):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels}
        told[name] = Described(family.type, frozenset(labels - {"le"}))
    assert documented == told


_UNITS = ("_seconds", "_bytes", "_ratio", "_info", "_total")
_NOT_BASE = r"_(ms|millis\w*|micros\w*|nanos\w*|minutes|hours|days|kilo\w*|mega\w*|kb|mb|percent)\b"


def problems(family: Metric) -> list[str]:
    """What promtool's linter would say (prometheus/util/promlint validations)."""
    name = f"{family.name}_total" if family.type == "counter" else family.name
    labels = {label for sample in family.samples for label in sample.labels}
    rules: dict[str, Any] = {
        "no help": not family.documentation,
        "no unit or a wrong one": re.search(_NOT_BASE, name),
        "a duration without its unit": "duration" in name and not name.endswith(_UNITS),
        "a gauge or histogram called total": family.type != "counter" and name.endswith("_total"),
        "a name that a histogram makes": re.search(r"_(count|sum|bucket)$", name),
        "its type in the name": re.search(r"counter|gauge|histogram|summary", name),
        "not in snake case": re.search(r"[A-Z:]|__", name),
        "labels not in snake case": any(re.search(r"[A-Z:]", each) for each in labels),
        "le outside a histogram": "le" in labels and family.type != "histogram",
        "untyped": family.type in ("unknown", "untyped"),
    }
    return [f"{name}: {problem}" for problem, is_so in rules.items() if is_so]


def test_names_are_as_prometheus_wants_them() -> None:
    assert [found for family in families(everything()) for found in problems(family)] == []


def test_the_exposition_has_no_series_twice_and_no_times_of_creation() -> None:
    lines = everything().exposition()[0].decode().splitlines()
    names = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    assert len(names) == len(set(names))
    assert [name for name in names if "_created" in name] == []
