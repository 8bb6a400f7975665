"""Committed records as lines for people: what a scheduler that works for a cluster tells of itself.

The core does not log. Whoever has committed records hands them over here afterwards. Pods that were
placed, could not be placed or had to go, and terms, are told at ``info``, what went wrong at
``warning``, all else at ``debug``. Where much happens at once only the first lines of a kind are
told in each second, and how many were left out: everything stands in the database anyway.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import structlog

from eventsched.domain import records
from eventsched.domain.objects import Node, Pod
from eventsched.domain.records import Outcome, Record
from eventsched.domain.records.logged import Logged
from eventsched.domain.units import SECOND
from eventsched.logs import output

MOST = 100
"""Lines of one kind that are told in one second, by the records' own time."""

_SILENT = ("debug", "")
_HEADINGS = {
    records.StreamStarted: ("info", "StreamStarted"),
    records.TermBegan: ("info", "TermBegan"),
    records.HistoryLost: ("warning", "HistoryLost"),
    records.WatchRelisted: ("info", "WatchRelisted"),
    records.PodDecided: ("attempt", ""),
    records.PodBound: ("info", "Scheduled"),
    records.BindFailed: ("warning", "BindFailed"),
    records.BindVoided: ("warning", "BindVoided"),
    records.WriteFailed: ("warning", "WriteFailed"),
    records.PreemptionDecided: ("info", "Preempting"),
    records.EvictionSucceeded: ("info", "Preempted"),
    records.EvictionFailed: ("warning", "EvictionFailed"),
    records.NodeOvercommitted: ("warning", "NodeOvercommitted"),
    records.MemoryForgotten: ("info", "MemoryForgotten"),
    records.PluginOverran: ("warning", "PluginOverran"),
}
"""Kind → level and name of its lines; where there is an event of that meaning at the API server, it
is called as there. All others are told at ``debug``, under their kind's name."""
_ATTEMPTS = {
    Outcome.SCHEDULED: _SILENT,
    Outcome.WAITING: _SILENT,
    Outcome.UNSCHEDULABLE: ("info", "FailedScheduling"),
    Outcome.ERROR: ("warning", "FailedScheduling"),
}
_TOLD = {
    records.PodDecided: ("uid", "attempt", "outcome", "profile", "plugin", "node", "message"),
    records.PreemptionDecided: ("uid", "attempt", "node"),
    records.StreamStarted: ("engine", "format", "seed", "timeline"),
    records.TermBegan: ("epoch",),
}
"""Kinds of which not all plain fields are told."""


class LogLine(NamedTuple):
    """One message: ``fields`` are what stands beside the event's name."""

    level: str
    event: str
    fields: dict[str, Any]


class Narrator:
    """Turns the records of one stream into lines."""

    def __init__(
        self, stream: str, pod_name: Callable[[str], str | None], most: int = MOST
    ) -> None:
        """``pod_name`` gives ``namespace/name`` of a uid, None where it is not known (any more):
        then the uid stands in its place. ``most`` lines of a kind are told in a second."""
        self._stream = stream
        self._pod_name = pod_name
        self._most = most
        self._second = -1
        self._told: Counter[str] = Counter()
        self._logger = structlog.stdlib.get_logger(__name__).bind()

    def tell(self, logged: Iterable[Logged]) -> None:
        """Says what the records mean."""
        for line in self.lines(logged, with_debug=output.told("debug")):
            self._logger.log(_number(line.level), line.event, **line.fields)

    def lines(self, logged: Iterable[Logged], *, with_debug: bool) -> Iterator[LogLine]:
        """The lines of committed records, in their order."""
        for each in logged:
            level, event = _HEADINGS.get(type(each.record), _SILENT)
            if isinstance(each.record, records.ExtenderAnswered) and each.record.problem:
                level, event = "warning", "ExtenderFailed"
            if isinstance(each.record, records.SamplesTaken) and each.record.problem:
                level, event = "warning", "SamplesLacking"
            if level == "attempt":
                level, event = _ATTEMPTS[each.record.outcome]  # type: ignore[attr-defined]
            if level == "debug" and not with_debug:
                continue
            if each.at // SECOND != self._second:
                yield from self._left_out()
                self._second = each.at // SECOND
            event = event or type(each.record).__name__
            self._told[event] += 1
            if self._told[event] <= self._most:
                yield LogLine(level, event, self._fields(each))

    def _left_out(self) -> Iterator[LogLine]:
        """What was not told in the second that is over."""
        for event, count in self._told.items():
            if count > self._most:
                fields = {"stream": self._stream, "lines": event, "count": count - self._most}
                yield LogLine("info", "LeftOut", fields)
        self._told.clear()

    def _fields(self, logged: Logged) -> dict[str, Any]:
        fields = _plain(logged.record)
        place: dict[str, Any] = {"stream": self._stream, "seq": logged.position}
        if uid := fields.pop("uid", ""):
            place["pod"] = self._pod_name(uid) or uid
        if victims := getattr(logged.record, "victims", ()):
            fields["victims"] = [self._pod_name(each) or each for each in victims]
        if isinstance(logged.record, records.NodeOvercommitted):
            fields["by"] = self._pod_name(logged.record.by) or logged.record.by
            fields["resources"] = sorted(logged.record.resources)
        return place | fields


def _plain(record: Record) -> dict[str, Any]:
    """The plain fields of a record that say something; of a pod its uid, of a node its name."""
    found: dict[str, Any] = {}
    for name in _TOLD.get(type(record), record.__struct_fields__):
        value = getattr(record, name)
        if isinstance(value, str | int):
            if value:
                found[name] = value
        elif isinstance(value, Pod):
            found["uid"] = value.uid
        elif isinstance(value, Node):
            found["node"] = value.name
    return found


def _number(level: str) -> int:
    return {"debug": 10, "info": 20, "warning": 30}[level]
