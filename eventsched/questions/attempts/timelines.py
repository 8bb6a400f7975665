"""A pod's way as bars over time: queues, attempts, waits, reservations, preemptions, the bind."""

from collections.abc import Sequence

import msgspec

from eventsched.domain import records
from eventsched.domain.records import Outcome, PodDecided, PodQueued
from eventsched.history.evidence_until import explain_newest
from eventsched.history.explain.evidence import Evidence, uid_key
from eventsched.history.explain.explanation import Explanation, Step
from eventsched.history.explain.record_text import pods_named_in
from eventsched.history.explain.waits import waits_of_attempt
from eventsched.output.headline_output import headline_text, story_lines
from eventsched.output.time_format import iso
from eventsched.questions.attempts.attempt_answers import (
    StoryLineAnswer,
    Timeline,
    TimelineBar,
    TimelineLane,
)
from eventsched.questions.attempts.pod_demands import demands_of
from eventsched.questions.explanations import with_nodes_to_open
from eventsched.questions.past.positions import record_time
from eventsched.questions.streams import LoggedStream
from eventsched.questions.visibility import Visibility, evidence_before

LANES = ("queues", "attempts", "preemption", "reservation", "waits", "bind")
_LEAVING_QUEUE = (PodDecided, records.PodSkipped, records.PodDeleted)
_WAITING = ("scheduled", "waiting")


def pod_timeline(
    stream: LoggedStream, sees: Visibility, pod: str, end: int | None = None
) -> Timeline:
    """The timeline of a pod (``namespace/name``, or a uid), with ``end`` up to that position; of a
    pod with very many records the newest. Raises InputError, also NoPodError and
    NotVisibleError."""
    evidence = evidence_before(stream, sees, end)
    explained = with_nodes_to_open(explain_newest(evidence, pod), stream, end)
    now = stream.present if end is None else record_time(stream, end - 1)
    named = _named(evidence, explained)
    return _timeline(explained, named, now or 0, evidence)


def _named(evidence: Evidence, explained: Explanation) -> list[str]:
    """The names of other pods that the story has, of those that may be seen."""
    uids = {uid for step in explained.steps for uid in pods_named_in(step.record)}
    names = set(evidence.names(uids).values())
    names |= {name for step in explained.steps if step.origin for name in step.origin.pods}
    return sorted(name for name in names - {explained.pod.full_name} if "/" in name)


def _timeline(explained: Explanation, pods: list[str], now: int, evidence: Evidence) -> Timeline:
    """The timeline of an explained pod. ``now`` (µs) is the time at the log's end, or the clock's:
    up to there a pod has waited that has no node. ``pods`` are the others that its story names."""
    bars, resumed = _Bars(explained.pod.uid), {gap.position for gap in explained.gaps}
    for before, step in zip((None, *explained.steps), explained.steps, strict=False):
        if before is not None and step.position in resumed:
            bars.interrupt(before.at)
        bars.take(step)
    begin, last = explained.steps[0].at, explained.steps[-1].at
    lanes = {**bars.lanes, "waits": _waits(explained.steps)}
    end = max(now, last) if bars.is_waiting else last
    return Timeline(
        stream=explained.stream,
        namespace=explained.pod.namespace,
        name=explained.pod.name,
        uid=explained.pod.uid,
        begin=begin,
        end=end,
        headline=headline_text(explained, now),
        demands=demands_of(explained.steps),
        newest=_newest(evidence, explained),
        lanes=[TimelineLane(name=name, bars=lanes[name]) for name in LANES if lanes.get(name)],
        story=[
            StoryLineAnswer(position=line.position, at=iso(line.at), text=line.text)
            for line in story_lines(explained)
        ],
        pods=pods,
    )


def _newest(evidence: Evidence, explained: Explanation) -> str | None:
    """The uid of the newest pod of the name, unless that is the explained one."""
    newest = max(evidence.pods(explained.pod.full_name), key=lambda pod: pod.position)
    return None if newest.uid == explained.pod.uid else newest.uid


def _waits(steps: Sequence[Step]) -> list[TimelineBar]:
    """What plugins waited for at Permit and PreBind, of all attempts."""
    return [
        TimelineBar(
            label=wait.plugin, state=wait.point, begin=wait.since, end=wait.ended,
            position=step.position,
            text=f"{wait.plugin} waits at {wait.point} {', '.join(wait.writes)}".rstrip(),
        )
        for step in steps
        if isinstance(step.record, PodDecided) and step.record.outcome.value in _WAITING
        for wait in waits_of_attempt(steps, step.position)
    ]  # fmt: skip


class _Bars:
    """The bars that were begun so far. At most one of each lane but the attempts lasts."""

    def __init__(self, uid: str) -> None:
        self._uid = uid
        self.lanes: dict[str, list[TimelineBar]] = {lane: [] for lane in LANES}

    @property
    def is_waiting(self) -> bool:
        """Whether the pod is in a queue, or on its way to a node."""
        return any(self._lasting(lane) for lane in ("queues", "reservation"))

    def interrupt(self, at: int) -> None:
        """What came after a time is not known until the next step."""
        for lane in LANES:
            self._end(lane, at)

    def take(self, step: Step) -> None:
        """The next step of the pod."""
        record, at = step.record, step.at
        if isinstance(record, PodQueued):
            self._end("queues", at)
            self._begin("queues", step, record.queue.value, record.queue.value)
        elif isinstance(record, _LEAVING_QUEUE):
            self._end("queues", at)
        match record:
            case PodDecided():
                self._decided(step, record)
            case records.PreemptionDecided() if uid_key(record.uid) == self._uid:
                self._begin("preemption", step, record.node, "nominated")
            case records.PreemptionDecided():
                self._begin("preemption", step, record.node, "victim", is_moment=True)
            case records.NominationCleared():
                self._end("preemption", at)
            case records.PodUnreserved():
                self._end("reservation", at)
                self._end("bind", at)
            case records.BindIntended():
                self._end("bind", at)
                self._begin("bind", step, record.node, "binding")
            case records.BindSucceeded() | records.PodBound():
                self._bound(step, record.node)
            case records.PodAdded(pod=pod) | records.PodUpdated(pod=pod) if pod.node_name:
                self._end("queues", at)
                self._bound(step, pod.node_name)
            case records.BindFailed() | records.BindVoided():
                self._end("bind", at)
                self._begin("bind", step, record.node, "failed", is_moment=True)
            case records.PodDeleted():
                for lane in ("preemption", "reservation", "bind"):
                    self._end(lane, at)

    def _decided(self, step: Step, decided: PodDecided) -> None:
        label, outcome = f"attempt {decided.attempt}", decided.outcome
        self._begin("attempts", step, label, outcome.value, is_moment=True)
        if outcome in (Outcome.SCHEDULED, Outcome.WAITING):
            if decided.nominated:
                self._end("preemption", step.at)
            self._end("reservation", step.at)
            self._begin("reservation", step, decided.node, "reserved")
        if outcome is Outcome.SCHEDULED:
            # Without waits, the decision is the intent to bind.
            self._begin("bind", step, decided.node, "binding")

    def _bound(self, step: Step, node: str) -> None:
        """The pod is on a node; further records that say so begin nothing."""
        self._end("reservation", step.at)
        last = self._lasting("bind")
        if last is None or last.state != "bound":
            self._end("bind", step.at)
            self._begin("bind", step, node, "bound")

    def _begin(
        self, lane: str, step: Step, label: str, state: str, *, is_moment: bool = False
    ) -> None:
        self.lanes[lane].append(
            TimelineBar(
                label=label, state=state, begin=step.at, end=step.at if is_moment else None,
                position=step.position, text=step.text,
                cause=None if step.origin is None else step.origin.position,
            )
        )  # fmt: skip

    def _end(self, lane: str, at: int) -> None:
        last = self._lasting(lane)
        if last is not None:
            self.lanes[lane][-1] = msgspec.structs.replace(last, end=at)

    def _lasting(self, lane: str) -> TimelineBar | None:
        """The last bar of a lane, if it has no end."""
        bars = self.lanes[lane]
        return bars[-1] if bars and bars[-1].end is None else None
