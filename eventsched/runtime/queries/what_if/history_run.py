"""Reads a stretch of a log once, and decides it again in a closed or an open loop."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import msgspec

from eventsched.domain.errors import InputError
from eventsched.domain.objects import Node, Pod, PodSpec
from eventsched.domain.records import (
    NodeAdded,
    NodeDeleted,
    PodAdded,
    PodDecided,
    PodUpdated,
    Record,
    Stimulus,
    StreamStarted,
)
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.domain.state.state_snapshot import StateSnapshot, copied
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.eventlog.port import StoredLog
from eventsched.runtime import gc_tuning
from eventsched.runtime.queries.state_at import FoldedState, Opening, decoded
from eventsched.runtime.queries.what_if.closed_loop import ClosedLoop
from eventsched.runtime.queries.what_if.cluster_measures import (
    ClusterMeasures,
    ClusterUse,
    CommonPods,
)
from eventsched.runtime.queries.what_if.node_changes import NodeChanges
from eventsched.runtime.queries.what_if.open_loop import OpenLoop
from eventsched.runtime.queries.what_if.pod_fates import TAKEN, Fates, LifeRecorder
from eventsched.runtime.queries.what_if.pod_runs import recorded_runs, run_records
from eventsched.runtime.queries.what_if.rules import OtherRules
from eventsched.scheduling.engine import Engine

_MOST_LOOKED_AT = 100_000
"""Records after and before a range without decisions in which one is looked for."""
_SAMPLES = 60
"""Samples of fragmentation and spread, spread evenly over the records."""
_MOST_SPECS = 10_000
"""Specs of the other side that are remembered at most. Pods of a further one get an object each,
which the state replaces by that of an earlier pod."""
Progress = Callable[[int, int], None]
"""Called with the records that were read, and how many there are."""
Watch = Callable[[Sequence[LogEntry]], None]


class HistoryStep(NamedTuple):
    """A step of a log: the position of its first record, and its records with their times (µs)."""

    position: int
    records: Sequence[tuple[Record, int]]


@dataclass(frozen=True)
class Stretch:
    """A stretch of a log: the state before the record at ``folded.position``, and the records from
    there to before ``end``."""

    log: StoredLog
    folded: FoldedState
    end: int

    @property
    def first(self) -> int:
        """The position of the first record."""
        return self.folded.position

    def steps(self, progress: Progress = lambda done, total: None) -> Iterator[HistoryStep]:
        """The records grouped by step; a step that ends after ``end`` is left out. Raises
        CorruptLogError."""
        first = begin = position = self.first
        end, length = self.end, self.end - first
        step: list[tuple[Record, int]] = []
        for at, cause, _, record in decoded(self.log, first, end + 1):
            if step and cause != begin:
                yield HistoryStep(begin, step)
                progress(position - first, length)
                begin, step = position, []
            if position >= end:
                return
            step.append((record, at))
            position += 1
        if step:
            yield HistoryStep(begin, step)


@dataclass(frozen=True)
class SideOutcome:
    """One side of a closed loop: its decisions, its preemptions, and how the cluster was used."""

    decisions: int
    preemptions: int
    use: ClusterUse


@dataclass(frozen=True)
class ClosedOutcome:
    """A closed loop to its end. ``fates`` are the pods', up to the time ``now`` (µs).
    ``unscheduled`` counts, by schedulerName, the pods that history decided and for which the other
    rules have no profile; ``profiles`` are those that the other rules have, () if they are
    history's."""

    before: SideOutcome
    after: SideOutcome
    fates: Fates
    now: int
    first: int
    end: int
    unscheduled: Mapping[str, int]
    profiles: tuple[str, ...] = ()


def run_closed(
    stretch: Stretch,
    rules: OtherRules,
    changes: NodeChanges = NodeChanges(),  # noqa: B008 - immutable
    *,
    with_detail: bool = False,
    watch: Watch = lambda logged: None,
    progress: Progress = lambda done, total: None,
) -> ClosedOutcome:
    """Decides a stretch again, and lets the decisions carry on. ``watch`` is called with the
    records of the other side; ``with_detail`` they have their vectors and digests. Raises
    InputError for a range without decisions, and CorruptLogError."""
    new_nodes = changes.new_nodes(*_named_nodes(stretch, changes))
    with gc_tuning.paused():
        run = _ClosedRun(stretch, rules, changes, with_detail=with_detail, watch=watch)
    if stretch.first:
        run.begin(new_nodes)
    gc_tuning.freeze(collect=False)
    first = stretch.first
    every = max(1, (stretch.end - first) // _SAMPLES)
    for step in stretch.steps(progress):
        run.take(step)
        if not first and step.position == 0:
            run.add_nodes(new_nodes)
        if step.position // every != (step.position + len(step.records)) // every:
            run.sample()
    return run.outcome()


def run_open(
    stretch: Stretch, rules: OtherRules, progress: Progress = lambda done, total: None
) -> OpenLoop:
    """Decides each decision of a stretch again, from the state that history had. Raises InputError
    for a range without decisions, and CorruptLogError."""
    opening = stretch.folded.opening

    def engine_of(record: Opening) -> Engine:
        return rules.engine(record, with_detail=False)

    loop = OpenLoop(_first_engine(stretch, rules), engine_of)
    if opening is not None:
        with gc_tuning.paused():
            loop.engine.restore(copied(stretch.folded.state), stretch.first)
    gc_tuning.freeze(collect=False)
    for step in stretch.steps(progress):
        loop.take(step.position, step.records)
    if not loop.decisions:
        raise _without_decisions(stretch)
    return loop


class _ClosedRun:
    """A closed loop with its measures."""

    def __init__(
        self, stretch: Stretch, rules: OtherRules, changes: NodeChanges, *, with_detail: bool,
        watch: Watch,
    ) -> None:  # fmt: skip
        self._stretch, self._rules, self._with_detail = stretch, rules, with_detail
        self._stored = watch
        history, engine = (
            stretch.folded.state,
            _first_engine(stretch, rules, with_detail=with_detail),
        )
        self._specs = _OwnSpecs()
        if stretch.first:
            engine.restore(self._specs.of_state(history), stretch.first)
        runs = recorded_runs(history, run_records(stretch.log, stretch.first, stretch.end))
        self._loop = ClosedLoop(
            history, engine, self._engine_of, runs=runs, removed=changes.removed, watch=self._made
        )
        self._removed = changes.removed
        self._pods = CommonPods(history)
        self._fates = Fates(history)
        self._before = LifeRecorder(self._fates, is_history=True)
        self._after = LifeRecorder(self._fates, is_history=False)
        self._old = ClusterMeasures(history, self._pods)
        self._new = ClusterMeasures(engine.state, self._pods)
        self._measured = engine

    def _engine_of(self, record: Opening) -> tuple[Engine, Stimulus]:
        adopted = self._rules.opening(record)
        return self._rules.engine(record, with_detail=self._with_detail), adopted

    def begin(self, new_nodes: Sequence[Node]) -> None:
        """Puts other rules and nodes in force in the middle of a history."""
        opening = self._stretch.folded.opening
        assert opening is not None
        state = self._loop.engine.state
        if not self._rules.are(opening):
            made = self._loop.put(self._rules.term(opening, state.flags))
            self._loop.in_step &= len(made) == 1
        for name in sorted(self._removed):
            self._loop.put(NodeDeleted(name=name))
        self.add_nodes(new_nodes)

    def add_nodes(self, nodes: Sequence[Node]) -> None:
        """Adds nodes on the other side."""
        for node in nodes:
            self._loop.in_step = False
            self._loop.put(NodeAdded(node=node))

    def take(self, step: HistoryStep) -> None:
        """The next step."""
        first, at = step.records[0]
        self._old.advance(at)
        self._new.advance(at)
        try:
            self._loop.take(step.position, self._specs.of_record(first), step.records)
        except (msgspec.MsgspecError, LookupError, AssertionError) as problem:
            raise CorruptLogError(step.position, f"does not fit: {problem!r}") from problem
        records = [each for each in step.records if type(each[0]) in TAKEN]
        if not records:
            return
        self._before.take(records, self._loop.history)
        for record, _ in records:
            if type(record) is PodAdded:
                # The state's pod: equal specs are one object there, whose requests are known.
                added = self._loop.history.pods[record.pod.uid]
                self._pods.take(added.pod, is_ours=added.queue is not None)
        self._old.take(records)

    def sample(self) -> None:
        """Takes a sample of both sides."""
        self._old.sample()
        self._new.sample()

    def outcome(self) -> ClosedOutcome:
        """What came of it. Raises InputError if history has no decisions there."""
        self._loop.finish()
        if not self._before.decisions:
            raise _without_decisions(self._stretch)
        state = self._loop.history
        for uid, reason in self._loop.reasons.items():
            if (fate := self._fates.get(uid)) is not None:
                fate.reason = reason
        return ClosedOutcome(
            SideOutcome(
                self._before.decisions, self._before.preemptions, self._old.report(state.now)
            ),
            SideOutcome(
                self._after.decisions, self._after.preemptions, self._new.report(state.now)
            ),
            self._fates, state.now, self._stretch.first, state.position, self._unscheduled(),
            () if self._rules.chosen is None else tuple(self._rules.chosen.profiles),
        )  # fmt: skip

    def _unscheduled(self) -> Mapping[str, int]:
        chosen = self._rules.chosen
        if chosen is None:
            return {}
        fates = map(self._fates.get, self._before.decided)
        names = Counter(fate.scheduler_name for fate in fates if fate is not None)
        return {name: names[name] for name in sorted(names) if name not in chosen.profiles}

    def _made(self, logged: Sequence[LogEntry]) -> None:
        if not logged:
            return
        state = self._loop.engine.state
        if self._measured is not self._loop.engine:
            self._measured = self._loop.engine
            self._new.go_on(state)
        records = [(entry.record, entry.at) for entry in logged if type(entry.record) in TAKEN]
        if records:
            self._after.take(records, state)
            self._new.take(records)
        self._stored(logged)


class _OwnSpecs:
    """Makes the other side's pods, whose specs are objects of its own, one for equal ones: a spec
    caches what it requests of the nodes of one state, and both sides would do that in turn."""

    def __init__(self) -> None:
        self._by_key: dict[bytes, PodSpec] = {}

    def of_state(self, state: SchedulerState) -> StateSnapshot:
        """A copy of history's state for the other side."""
        copy = copied(state)
        pods = [msgspec.structs.replace(each, pod=self._of_pod(each.pod)) for each in copy.pods]
        return msgspec.structs.replace(copy, pods=pods)

    def of_record(self, record: Record) -> Record:
        """A record of history for the other side."""
        if isinstance(record, (PodAdded, PodUpdated)):
            return type(record)(pod=self._of_pod(record.pod))
        return record

    def _of_pod(self, pod: Pod) -> Pod:
        key = pod.spec.key
        spec = self._by_key.get(key)
        if spec is None:
            spec = msgspec.structs.replace(pod.spec)
            spec.__dict__["key"] = key  # cached there: computing it takes longer
            if len(self._by_key) < _MOST_SPECS:
                self._by_key[key] = spec
        return msgspec.structs.replace(pod, spec=spec)


def _first_engine(stretch: Stretch, rules: OtherRules, *, with_detail: bool = False) -> Engine:
    """An engine with the rules at the beginning of a stretch. Raises InputError for an empty
    log."""
    opening = stretch.folded.opening
    if opening is None:
        first = next(stretch.log.read(0), None)
        if first is None or not isinstance(first.record, StreamStarted):
            raise CorruptLogError(0, "is not there, or does not begin a stream")
        opening = first.record
    return rules.engine(opening, with_detail=with_detail)


def _named_nodes(stretch: Stretch, changes: NodeChanges) -> tuple[dict[str, Node], set[str]]:
    """The nodes of history that the changes name, as they are when the stretch begins or as they
    join; and the names of those that were looked at."""
    nodes = stretch.folded.state.nodes
    names = set(nodes.rows)
    found: dict[str, Node] = {}
    for name in changes.names:
        row = nodes.rows.get(name)
        if row is not None and (node := nodes.nodes[row]) is not None:
            found[name] = node
    missing = changes.names - found.keys()
    for stored in stretch.log.read(stretch.first) if missing else ():
        if not missing or stored.position >= stretch.end:
            break
        if stored.kind != NodeAdded.__name__:
            continue
        added = stored.record
        if not isinstance(added, NodeAdded):
            continue
        names.add(added.node.name)
        if added.node.name in missing:
            found[added.node.name] = added.node
            missing -= {added.node.name}
    return found, names


def _without_decisions(stretch: Stretch) -> InputError:
    problem = f"holds no decision from position {stretch.first} to {stretch.end}"
    found = _decision_after(stretch)
    where = "after it" if found is not None else "before it"
    if found is None:
        found = _decision_before(stretch)
    nearest = "" if found is None else f"; the next one {where} is at position {found}"
    return InputError("the range", problem + nearest, "choose another --from or --until")


def _decision_after(stretch: Stretch) -> int | None:
    """The position of the first decision after a stretch, if it is near."""
    for stored in islice(stretch.log.read(stretch.end), _MOST_LOOKED_AT):
        if stored.kind == PodDecided.__name__:
            return stored.position
    return None


def _decision_before(stretch: Stretch) -> int | None:
    """The position of the last decision before a stretch, if it is near."""
    found = None
    for stored in stretch.log.read(max(0, stretch.first - _MOST_LOOKED_AT)):
        if stored.position >= stretch.first:
            break
        if stored.kind == PodDecided.__name__:
            found = stored.position
    return found
