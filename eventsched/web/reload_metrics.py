"""Metrics of configuration reloads, with the meaning of Prometheus's own for its configuration."""

from prometheus_client import CollectorRegistry, Counter, Gauge

RESULTS = ("applied", "refused")


class ReloadMetrics:
    """Counts the checks of a changed configuration since the process began."""

    def __init__(self, registry: CollectorRegistry, now: float) -> None:
        """``now`` (s since 1970) is when the configuration of the start was taken."""
        self._reloads = Counter(
            "eventsched_configuration_reloads_total",
            "Changed configurations that were applied, or refused.",
            ["result"],
            registry=registry,
        )
        for result in RESULTS:
            self._reloads.labels(result)
        self._is_successful = Gauge(
            "eventsched_configuration_last_reload_successful",
            "1 if the configuration file is in force as it is, 0 if it was refused.",
            registry=registry,
        )
        self._succeeded_at = Gauge(
            "eventsched_configuration_last_reload_success_timestamp_seconds",
            "When the configuration in force was taken up (Unix time).",
            registry=registry,
        )
        self._is_successful.set(1)
        self._succeeded_at.set(now)

    def applied(self, now: float) -> None:
        """A changed configuration is in force since ``now`` (s since 1970)."""
        self._reloads.labels("applied").inc()
        self._is_successful.set(1)
        self._succeeded_at.set(now)

    def refused(self) -> None:
        """A changed configuration was refused."""
        self._reloads.labels("refused").inc()
        self._is_successful.set(0)

    def restored(self) -> None:
        """The file is again what is in force, after one that was refused."""
        self._is_successful.set(1)
