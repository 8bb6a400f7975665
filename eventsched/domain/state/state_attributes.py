"""What the scheduler's state consists of, besides nodes, pods and where they are."""

from typing import Any

from eventsched.domain import records
from eventsched.domain.records.verdicts import ScoreColumn, Verdict, VerdictCode
from eventsched.domain.state.parts.consultation import Consultation
from eventsched.domain.state.parts.memory_use import MemoryUse
from eventsched.domain.state.parts.preemptions import Preemptions
from eventsched.domain.state.parts.reservations import Reservation
from eventsched.domain.state.pod_places import PodPlaces


class StateAttributes(PodPlaces):
    """The attributes of a state; all that decisions depend on is in them. The base class of
    SchedulerState, which alone changes them."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.seed = ""
        self.timeline = ""
        """The timeline of the database that holds the log; "" for a log without one."""
        self.in_force = ""
        """Digest of the configuration, plugins and engine that make the decisions."""
        self.flags: tuple[int, ...] = ()
        """The behaviours in force (behaviours.py)."""
        self.serves = ""
        """The profile that answers other schedulers as an extender. If set, no pod is scheduled
        here."""
        self.shadows: tuple[str, ...] = ()
        """The schedulers that are followed, by schedulerName. If set, nothing here has an
        effect."""
        self.work_budget = 0
        """The most units of work that one attempt may take; 0 for no limit."""
        self.order = 0
        """Moves between queues so far."""
        self.position = 0
        """Records applied so far."""
        self.next_start = 0
        """Where the next search that may stop early begins (upstream: nextStartNodeIndex)."""
        self.preemptions = Preemptions()
        self.consultation: Consultation | None = None
        """Questions to extenders, and their answers, of the attempt under way."""
        self.overruns: list[records.PluginOverran] = []
        """Plugin calls that took too long and are not repeated (see PluginOverran)."""
        self.reservations: dict[str, Reservation] = {}
        self.memory: dict[str, dict[str, Any]] = {}
        self.memory_use = MemoryUse()
        self.verdicts: list[Verdict | None] = [None]
        self.verdict_numbers: dict[Verdict, VerdictCode] = {}
        self.scorings: list[tuple[ScoreColumn, ...]] = [()]
        self.scoring_numbers: dict[tuple[ScoreColumn, ...], int] = {}
