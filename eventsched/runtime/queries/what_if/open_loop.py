"""An open loop: each decision of history is decided again from the state that history had at that
attempt, with nothing carried on. Only the choice of a node is decided, by PreFilter, Filter and
Score; what Reserve, Permit and preemption would do is not."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from eventsched.domain.records import PodDecided, Record, StreamStarted, TermBegan
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.runtime.queries.what_if.choice_reasons import reason_of
from eventsched.runtime.queries.what_if.pod_fates import Reason
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import PluginError


class OtherChoice(NamedTuple):
    """A decision that comes out otherwise: the ``attempt`` of a pod at a ``position``, the node
    that history has and the one that it would be now ("" for none)."""

    position: int
    pod: str
    namespace: str
    priority: int
    attempt: int
    before: str
    after: str
    reason: Reason


class OpenLoop:
    """History, and each of its decisions by other rules."""

    def __init__(
        self, engine: Engine, engine_of_record: Callable[[StreamStarted | TermBegan], Engine]
    ) -> None:
        """``engine`` has the state that history begins with; ``engine_of_record`` makes one with
        the other rules when a record puts others in force."""
        self.engine, self._engine_of_record = engine, engine_of_record
        self.decisions = 0
        self.unplaced = 0
        """Decisions that find no node now."""
        self.others: list[OtherChoice] = []

    def take(self, first: int, step: Sequence[tuple[Record, int]]) -> None:
        """The next step of the log, which begins at a position: records and their times (µs).
        Raises CorruptLogError."""
        for position, (record, at) in enumerate(step, first):
            try:
                if isinstance(record, PodDecided) and record.uid in self.engine.state.pods:
                    self._decide(record, position)
                elif isinstance(record, StreamStarted) or (
                    isinstance(record, TermBegan) and record.engine
                ):
                    self._go_on_with(self._engine_of_record(record))
                self.engine.apply(LogEntry(position, at, first, record))
            except (msgspec.MsgspecError, LookupError, AssertionError) as problem:
                raise CorruptLogError(position, f"does not fit: {problem!r}") from problem

    def _go_on_with(self, engine: Engine) -> None:
        if self.engine.position:
            engine.restore(self.engine.snapshot(), self.engine.position)
        self.engine = engine

    def _decide(self, decided: PodDecided, position: int) -> None:
        self.decisions += 1
        state = self.engine.state
        pod = state.pods[decided.uid].pod
        reason, node = None, ""
        try:
            judgement, choice = self.engine.scheduling_cycle.consider(decided.uid)
        except PluginError as error:
            if decided.node:
                reason = Reason(error.plugin, str(error), position)
        except KeyError:
            if decided.node:
                reason = Reason("", f"no profile is named {pod.scheduler_name!r}", position)
        else:
            node = state.nodes.names[choice.row] if choice.row >= 0 else ""
            reason = reason_of(judgement, choice, decided, position)
        self.unplaced += not node
        if reason is not None:
            self.others.append(
                OtherChoice(
                    position, pod.name, pod.namespace, pod.priority, decided.attempt,
                    decided.node, node, reason,
                )
            )  # fmt: skip
