"""Committed records as lines of the process log.

The core does not log: records are passed here after their commit. Pods that were placed, refused or
evicted, and terms, are logged at ``info``, failures at ``warning``, all else at ``debug``. In each
second only the first lines of a kind are logged, and then the number of lines that were left out.
The database has all records.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import structlog

from eventsched.domain import records
from eventsched.domain.objects import Node, Pod
from eventsched.domain.records import Outcome, Record
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.record_catalogue import CATALOGUE, Level
from eventsched.domain.units import SECOND
from eventsched.process_log import output

MAX_LINES_PER_SECOND = 100
"""Lines of one kind that are logged at most for one second of the records' own time."""

_API_EVENTS: dict[type[Record], str] = {
    records.PodBound: "Scheduled",
    records.PreemptionDecided: "Preempting",
    records.EvictionSucceeded: "Preempted",
}
"""Kinds whose lines have the name of the API server's Event with that meaning. All others have the
name of the kind."""
_HEADINGS = {row.record: (row.level, _API_EVENTS.get(row.record, row.name)) for row in CATALOGUE}
"""Kind → level and name of its lines, unless ``_RAISED`` has others."""
_LOGGED_FIELDS = {
    records.NodeAdded: ("node",),
    records.PodDecided: ("uid", "attempt", "outcome", "profile", "plugin", "node", "message"),
    records.PreemptionDecided: ("uid", "attempt", "node"),
    records.StreamStarted: ("engine", "format", "seed", "timeline"),
    records.TermBegan: ("epoch",),
}
"""Kinds of which not all plain fields are logged."""


class LogLine(NamedTuple):
    """One line: the event's name, and its ``fields``."""

    level: str
    event: str
    fields: dict[str, Any]


class Narrator:
    """Turns the records of one stream into lines."""

    def __init__(
        self, stream: str, pod_name: Callable[[str], str | None], most: int = MAX_LINES_PER_SECOND
    ) -> None:
        """``pod_name`` returns ``namespace/name`` for a uid, or None if it is not known (any more);
        the line then has the uid. At most ``most`` lines of a kind are logged for a second."""
        self._stream = stream
        self._pod_name = pod_name
        self._most = most
        self._second = -1
        self._lines_in_second: Counter[str] = Counter()
        self._logger = structlog.stdlib.get_logger(__name__).bind()

    def log(self, logged: Iterable[LogEntry]) -> None:
        """Logs the lines of committed records."""
        for line in self.lines(logged, with_debug=output.is_logged("debug")):
            self._logger.log(_number(line.level), line.event, **line.fields)

    def lines(self, logged: Iterable[LogEntry], *, with_debug: bool) -> Iterator[LogLine]:
        """The lines of committed records, in their order."""
        for entry in logged:
            kind = type(entry.record)
            level, event = _HEADINGS[kind]
            if kind in _RAISED:
                level, event = _RAISED[kind](entry.record) or (level, event)
            if level == "debug" and not with_debug:
                continue
            if entry.at // SECOND != self._second:
                yield from self._left_out()
                self._second = entry.at // SECOND
            self._lines_in_second[event] += 1
            if self._lines_in_second[event] <= self._most:
                yield LogLine(level, event, self._fields(entry))

    def _left_out(self) -> Iterator[LogLine]:
        """A line for each kind of which lines were left out in the second that is over."""
        for event, count in self._lines_in_second.items():
            if count > self._most:
                fields = {"stream": self._stream, "lines": event, "count": count - self._most}
                yield LogLine("info", "LeftOut", fields)
        self._lines_in_second.clear()

    def _fields(self, logged: LogEntry) -> dict[str, Any]:
        fields = _plain(logged.record)
        place: dict[str, Any] = {"stream": self._stream, "seq": logged.position}
        if uid := fields.pop("uid", ""):
            place["pod"] = self._pod_name(uid) or uid
        if victims := getattr(logged.record, "victims", ()):
            fields["victims"] = [self._pod_name(victim) or victim for victim in victims]
        if isinstance(logged.record, records.NodeOvercommitted):
            fields["by"] = self._pod_name(logged.record.by) or logged.record.by
            fields["resources"] = sorted(logged.record.resources)
        return place | fields


def _plain(record: Record) -> dict[str, Any]:
    """The fields of a record that are text or numbers and not empty; the uid of a pod, the name of
    a node."""
    fields: dict[str, Any] = {}
    for name in _LOGGED_FIELDS.get(type(record), record.__struct_fields__):
        value = getattr(record, name)
        if isinstance(value, str | int):
            if value:
                fields[name] = value
        elif isinstance(value, Pod):
            fields["uid"] = value.uid
        elif isinstance(value, Node):
            fields["node"] = value.name
    return fields


def _number(level: str) -> int:
    return {"debug": 10, "info": 20, "warning": 30}[level]


def _attempt(decided: records.PodDecided) -> tuple[Level, str] | None:
    if decided.outcome is Outcome.ERROR:
        return "warning", "FailedScheduling"
    return ("info", "FailedScheduling") if decided.outcome is Outcome.UNSCHEDULABLE else None


def _extender(answered: records.ExtenderAnswered) -> tuple[Level, str] | None:
    return ("warning", "ExtenderFailed") if answered.problem else None


def _samples(taken: records.SamplesTaken) -> tuple[Level, str] | None:
    return ("warning", "SamplesLacking") if taken.problem else None


_RAISED: dict[type[Record], Callable[[Any], tuple[Level, str] | None]] = {
    records.PodDecided: _attempt,
    records.ExtenderAnswered: _extender,
    records.SamplesTaken: _samples,
}
"""Level and name of a record's line if they depend on its fields, mostly because something
failed."""
