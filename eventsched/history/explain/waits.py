"""The waits between a pod's decision and its bind: which plugin waited, for what, and how long."""

from collections.abc import Iterable
from dataclasses import dataclass

from eventsched.domain import records
from eventsched.domain.records import PodDecided
from eventsched.history.explain.explanation import Step

PERMIT, PRE_BIND = "Permit", "PreBind"


@dataclass
class PluginWait:
    """A plugin's wait at an extension point. ``since`` and ``ended`` are in µs (``ended`` is None
    while it lasts), ``due`` is its time limit, ``ended_by`` the kind of the record that ended it.
    ``writes`` describes the changes that the plugin requested from the cluster."""

    plugin: str
    point: str
    since: int
    due: int
    writes: tuple[str, ...] = ()
    ended: int | None = None
    ended_by: str = ""

    @property
    def seconds(self) -> float | None:
        """How long the wait took; None while it lasts."""
        return None if self.ended is None else (self.ended - self.since) / 1_000_000


def waits_of_attempt(steps: Iterable[Step], position: int) -> list[PluginWait]:
    """The waits of the attempt decided at ``position``, in the order in which they began."""
    waits: list[PluginWait] = []
    is_of_attempt = False
    for step in steps:
        record = step.record
        if isinstance(record, PodDecided):
            is_of_attempt = step.position == position
            waits += _new_waits(PERMIT, step.at, record.deadlines) if is_of_attempt else ()
        elif is_of_attempt and isinstance(record, records.PreparationIntended):
            texts = {plugin: tuple(map(str, writes)) for plugin, writes in record.writes.items()}
            waits += _new_waits(PRE_BIND, step.at, record.deadlines, texts)
        elif is_of_attempt:
            _end(waits, step)
    return waits


def _new_waits(
    point: str, at: int, deadlines: dict[str, int], writes: dict[str, tuple[str, ...]] | None = None
) -> list[PluginWait]:
    texts = writes or {}
    return [
        PluginWait(plugin, point, at, due, texts.get(plugin, ()))
        for plugin, due in deadlines.items()
    ]


def _end(waits: list[PluginWait], step: Step) -> None:
    """Ends the waits that the step's record ends: all of them, or one that is granted."""
    record, kind = step.record, type(step.record).__name__
    is_over = isinstance(
        record,
        records.BindIntended | records.PodUnreserved | records.PodDeleted | records.PodBound,
    )
    is_bound = isinstance(record, records.PodUpdated) and record.pod.node_name
    granted = record.plugin if isinstance(record, records.PermitGranted) else None
    for wait in waits:
        is_granted = wait.point == PERMIT and wait.plugin == granted
        if wait.ended is None and (is_over or is_bound or is_granted):
            wait.ended, wait.ended_by = step.at, kind
