"""The load of the year."""

from dataclasses import dataclass

from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.cluster.sources import generated
from eventsched.cluster.sources.load import Source
from eventsched.domain.records.verdicts import DELTA_BLOCK
from eventsched.domain.units import SECOND
from eventsched.process.settings import RetentionSettings

DAY = 86_400 * SECOND
DAYS = 365
_RETENTION = RetentionSettings(detail="24h", records="48h", require_archive=False)


@dataclass(frozen=True)
class Year:
    """A year of a cluster of ``nodes`` nodes in which ``pods`` pods arrive, and what is kept of
    its log (``retention`` of EventschedConfiguration, in simulated time). A partition of the log
    holds ``partition_records`` records: some days."""

    nodes: int = 1_000
    pods: int = 1_000_000
    retention: RetentionSettings = _RETENTION
    partition_records: int = DELTA_BLOCK

    @property
    def load(self) -> generated.Load:
        """Pods in daily waves, each for 3 to 9 hours; nodes that live for 12 hours, are changed
        once a day and flap once a day; each Deployment is rolled once a week."""
        rate = round(self.pods / (DAYS * 86_400), 9)
        return generated.parse(
            f"nodes={self.nodes},pods={self.pods},shape=mixed,seed=1,rate={rate:f},runtime=21600,"
            "node-life=12h,churn=1d,flaps=1d,rollouts=7d,waves=1d"
        )

    @property
    def digests(self) -> dict[str, str]:
        """What identifies the load in the log."""
        return {"generate": str(self.load)}

    def source(self) -> Source:
        """The load, as a simulation takes it."""
        load = self.load
        return Source(
            load.nodes(), load.pods(), churn=load.node_churn(), rollouts=load.pod_rollouts(),
            digests=self.digests,
        )  # fmt: skip

    def cluster(self) -> InMemoryCluster:
        """The simulated cluster at its beginning."""
        source = self.source()
        return InMemoryCluster(
            source.nodes, source.arrivals, churn=source.churn, rollouts=source.rollouts
        )
