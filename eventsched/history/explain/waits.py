"""What a pod's bind waited for between the decision and the intent: who asked for it, what it was,
and for how long."""

from collections.abc import Iterable
from dataclasses import dataclass

from eventsched.domain import records
from eventsched.domain.records import PodDecided
from eventsched.history.explain.explanation import Step

PERMIT, PRE_BIND = "Permit", "PreBind"


@dataclass
class PluginWait:
    """A plugin's wait: at which point, since when and until when at most (µs), when it was over
    (None: it is not) and by what, a record's kind. ``writes`` are the changes that it asked the
    cluster for, in words."""

    plugin: str
    point: str
    since: int
    due: int
    writes: tuple[str, ...] = ()
    ended: int | None = None
    ended_by: str = ""

    @property
    def seconds(self) -> float | None:
        """How long it was; None while it lasts."""
        return None if self.ended is None else (self.ended - self.since) / 1_000_000


def waits_of_attempt(steps: Iterable[Step], position: int) -> list[PluginWait]:
    """The waits of the attempt decided at a position, in the order in which they began."""
    found: list[PluginWait] = []
    of_it = False
    for step in steps:
        record = step.record
        if isinstance(record, PodDecided):
            of_it = step.position == position
            found += _begun(PERMIT, step.at, record.deadlines) if of_it else ()
        elif of_it and isinstance(record, records.PreparationIntended):
            words = {plugin: tuple(map(str, each)) for plugin, each in record.writes.items()}
            found += _begun(PRE_BIND, step.at, record.deadlines, words)
        elif of_it:
            _end(found, step)
    return found


def _begun(
    point: str, at: int, deadlines: dict[str, int], writes: dict[str, tuple[str, ...]] | None = None
) -> list[PluginWait]:
    asked = writes or {}
    return [
        PluginWait(name, point, at, due, asked.get(name, ())) for name, due in deadlines.items()
    ]


def _end(found: list[PluginWait], step: Step) -> None:
    record, kind = step.record, type(step.record).__name__
    for each in found:
        granted = isinstance(record, records.PermitGranted) and record.plugin == each.plugin
        over = isinstance(
            record,
            records.BindIntended | records.PodUnreserved | records.PodDeleted | records.PodBound,
        )
        bound = isinstance(record, records.PodUpdated) and record.pod.node_name
        if each.ended is None and (over or bound or (granted and each.point == PERMIT)):
            each.ended, each.ended_by = step.at, kind
