"""The state of a running scheduler as metrics, read at each scrape."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from eventsched.web.status import ProcessStatus, WatchStatus

_NUMBERS: dict[str, tuple[str, Callable[[ProcessStatus], float]]] = {
    "eventsched_log_head_records": (
        "Committed records of the stream.",
        lambda status: status.log_head,
    ),
    "eventsched_log_lag_records": (
        "Committed records that a standby has not applied yet.",
        lambda status: status.log_lag,
    ),
    "eventsched_log_epoch": (
        "Epoch of the last known term; a leader writes with it.",
        lambda status: status.epoch,
    ),
    "eventsched_open_binds": (
        "Intents to bind that have no outcome yet.",
        lambda status: status.open_binds,
    ),
    "eventsched_open_evictions": (
        "Intents to evict that have no outcome yet.",
        lambda status: status.open_evictions,
    ),
    "eventsched_overcommitted_nodes": (
        "Nodes whose pods request more than is allocatable.",
        lambda status: status.overcommitted_nodes,
    ),
    "eventsched_reports_waiting": (
        "Events and pod conditions not yet written to the API server.",
        lambda status: status.reports_waiting,
    ),
}
_WATCH_COUNTS: dict[str, tuple[str, Callable[[WatchStatus], float]]] = {
    "eventsched_watch_events_total": (
        "Watch events received, including bookmarks.",
        lambda watch: watch.events,
    ),
    "eventsched_watch_relists_total": (
        "Times that a resource was listed again because its watch could not resume.",
        lambda watch: watch.relists,
    ),
    "eventsched_watch_reconnects_total": (
        "Times that a watch was resumed.",
        lambda watch: watch.reconnects,
    ),
}
_WATCH_NUMBERS: dict[str, tuple[str, Callable[[WatchStatus], float]]] = {
    "eventsched_watch_lag_seconds": (
        "Time since the last message on a watch.",
        lambda watch: watch.lag,
    ),
    "eventsched_undecodable_objects": (
        "Objects that are skipped because they could not be decoded.",
        lambda watch: watch.undecodable,
    ),
}


class Gauges(Collector):
    """Reads a status at every scrape."""

    def __init__(self, status: ProcessStatus) -> None:
        self._status = status

    def describe(self) -> Iterator[Metric]:
        """Yields nothing, so that registering does not read the status only for the names."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Reads the present values."""
        yield from self._upstream()
        yield _gauge(
            "eventsched_oldest_waiting_timestamp_seconds",
            "When the oldest waiting pod of a queue was created (Unix time).",
            ["queue", "profile"],
            self._status.oldest_waiting,
        )
        for name, (help_text, read) in _NUMBERS.items():
            yield GaugeMetricFamily(name, help_text, read(self._status))
        yield CounterMetricFamily(
            "eventsched_reports_dropped_total",
            "Events and pod conditions that were dropped because too many waited.",
            self._status.reports_dropped,
        )
        yield CounterMetricFamily(
            "eventsched_reports_refused_total",
            "Events and pod conditions that the API server refused.",
            self._status.reports_refused,
        )
        family = CounterMetricFamily(
            "eventsched_divergences_total",
            "Pods that a list of the API server showed otherwise than the log, by kind.",
            labels=["kind"],
        )
        for kind, count in self._status.divergences.items():
            family.add_metric([kind], count)
        yield family
        yield from self._anomalies()
        if (size := self._status.database_size) is not None:
            yield GaugeMetricFamily(
                "eventsched_database_size_bytes",
                "Size of the whole database, measured once a minute by the leader.",
                size,
            )
        yield from self._housekeeping()
        watches = self._status.watches
        for name, (help_text, read_watch) in _WATCH_COUNTS.items():
            family = CounterMetricFamily(name, help_text, labels=["resource"])
            for resource, watch in watches.items():
                family.add_metric([resource], read_watch(watch))
            yield family
        for name, (help_text, read_watch) in _WATCH_NUMBERS.items():
            yield _gauge(
                name,
                help_text,
                ["resource"],
                {(resource,): read_watch(watch) for resource, watch in watches.items()},
            )

    def _anomalies(self) -> Iterator[Metric]:
        """Pods that wait too long, and preemptions that do not help."""
        waits = self._status.long_waits
        yield _gauge(
            "eventsched_starving_pods",
            "Pods that have waited for ten minutes while later ones of their priority or less "
            "were placed, though a node could take them.",
            ["profile"],
            {(profile,): count for profile, count in waits.starving.items()},
        )
        yield _gauge(
            "eventsched_unplaceable_pods",
            "Pods that have waited for ten minutes and that no node would take, even empty.",
            ["profile"],
            {(profile,): count for profile, count in waits.unplaceable.items()},
        )
        if waits.since is not None:
            yield GaugeMetricFamily(
                "eventsched_long_waits_since_timestamp_seconds",
                "From when on the leader has followed the log, in which it counts starving and "
                "unplaceable pods (Unix time). For 15 minutes from then on some may be missing.",
                waits.since,
            )
        family = CounterMetricFamily(
            "eventsched_preemption_anomalies_total",
            "Preemptions that did not help, by kind.",
            labels=["kind"],
        )
        for kind, count in self._status.preemption_anomalies.items():
            family.add_metric([kind], count)
        yield family

    def _housekeeping(self) -> Iterator[Metric]:
        """The metrics of the leader's housekeeping of its log."""
        found = self._status.housekeeping
        if found is None:
            return
        yield GaugeMetricFamily(
            "eventsched_housekeeping_last_success_timestamp_seconds",
            "When the leader last made partitions of the log and dropped old ones (Unix time).",
            found.done_at,
        )
        yield GaugeMetricFamily(
            "eventsched_log_partition_records_ahead",
            "Records for which the tables of the log have partitions.",
            found.records_ahead,
        )
        if found.unarchived_since is not None:
            yield GaugeMetricFamily(
                "eventsched_log_unarchived_timestamp_seconds",
                "When the oldest record was written that is not archived (Unix time).",
                found.unarchived_since,
            )

    def _upstream(self) -> Iterator[Metric]:
        """The metrics that kube-scheduler has too."""
        status = self._status
        yield _gauge(
            "scheduler_pending_pods",
            "Pods that wait, by queue: active, backoff, unschedulable, gated.",
            ["queue"],
            {(queue,): count for queue, count in status.queues.items()},
        )
        yield _gauge(
            "scheduler_queued_entities",
            "Pods that wait, by queue; the type is always pod.",
            ["queue", "type"],
            {(queue, "pod"): count for queue, count in status.queues.items()},
        )
        yield _gauge(
            "scheduler_unschedulable_pods",
            "Unschedulable pods by plugin that refused them; a pod counts for each such plugin.",
            ["plugin", "profile"],
            status.unschedulable,
        )
        cached = {"nodes": status.nodes, "pods": status.pods, "assumed_pods": status.reservations}
        yield _gauge(
            "scheduler_cache_size",
            "Nodes, pods on a node, and pods whose bind has no outcome yet.",
            ["type"],
            {(kind,): count for kind, count in cached.items()},
        )
        if status.lease:
            yield _gauge(
                "leader_election_master_status",
                "1 while this process leads, 0 while it stands by; name is the Lease's.",
                ["name"],
                {(status.lease,): status.leading},
            )


def _gauge(name: str, help_text: str, labels: list[str], values: Mapping[Any, float]) -> Metric:
    gauge = GaugeMetricFamily(name, help_text, labels=labels)
    for key, value in values.items():
        gauge.add_metric(list(key), value)
    return gauge
