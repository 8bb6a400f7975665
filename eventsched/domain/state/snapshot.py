"""The scheduler's state as bytes, and back: a cache of the fold, so that a restart need not begin
at the first record.

A snapshot holds what decisions depend on; columns, books and indexes are built again from it.
Whoever loads one compares ``SchedulerState.digest`` with the digest that was taken beside it.
"""

from typing import Any

import msgspec

from eventsched.domain.objects import Node, Pod
from eventsched.domain.objects.registry import AnyObject, NodeResourceTopology
from eventsched.domain.records import PluginOverran, Queue, SamplesTaken
from eventsched.domain.records.extender_questions import (
    Consultation,
    ExtenderAnswered,
    ExtenderAsked,
)
from eventsched.domain.records.object_writes import Write
from eventsched.domain.records.verdicts import ScoreColumn, Verdict
from eventsched.domain.state.numa_zones import ZoneReport
from eventsched.domain.state.preemptions import Eviction, Preemptions
from eventsched.domain.state.reservations import Reservation
from eventsched.domain.state.scheduler_state import PodState, SchedulerState


class KeptPod(msgspec.Struct, frozen=True, array_like=True):
    """What PodState holds, field by field."""

    pod: Pod
    row: int
    home: str
    came: int
    bound: bool
    queue: Queue | None
    order: int
    since: int
    entered: int
    until: int
    attempts: int
    failures: int
    errors: int
    rejectors: tuple[str, ...]
    pending: tuple[str, ...]
    number: int = 0


class KeptReservation(msgspec.Struct, frozen=True, array_like=True):
    """What Reservation holds, field by field."""

    node: str
    attempt: int
    carry: dict[str, Any]
    waits: dict[str, int]
    intended: bool
    preparing: dict[str, int] = {}
    writes: dict[str, tuple[Write, ...]] = {}


class KeptPreemptions(msgspec.Struct, frozen=True, array_like=True):
    """What Preemptions holds: uid → node, and uid → (node, preemptor)."""

    nominations: dict[str, str]
    evictions: dict[str, Eviction]


class KeptConsultation(msgspec.Struct, frozen=True, array_like=True):
    """What Consultation holds, field by field."""

    asked: list[ExtenderAsked]
    answered: list[ExtenderAnswered]


class KeptReport(msgspec.Struct, frozen=True, array_like=True):
    """What Report holds, field by field."""

    current: NodeResourceTopology
    uncovered: dict[str, bool]
    is_settled: bool


class StateSnapshot(msgspec.Struct, frozen=True):
    """A whole state. ``nodes`` has a name for every row that there ever was, and the node where it
    still exists; ``resources`` are in the order of their columns; of ``pods`` those that hold a
    node come first, in the order in which they came to it: so they wait at Permit."""

    now: int
    seed: str
    order: int
    housed: int
    resources: list[str]
    nodes: list[tuple[str, Node | None]]
    pods: list[KeptPod]
    reservations: dict[str, KeptReservation]
    memory: dict[str, dict[str, Any]]
    verdicts: list[Verdict]
    scorings: list[tuple[ScoreColumn, ...]]
    timeline: str = ""
    in_force: str = ""
    registry: list[AnyObject] = []
    next_start: int = 0
    position: int = 0
    preemptions: KeptPreemptions = KeptPreemptions({}, {})
    consultation: KeptConsultation | None = None
    overruns: list[PluginOverran] = []
    samples: list[SamplesTaken] = []
    serves: str = ""
    flags: tuple[int, ...] = ()
    work_budget: int = 0
    topologies: dict[str, KeptReport] = {}


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(StateSnapshot)


def encode(state: SchedulerState) -> bytes:
    """The state's bytes (JSON)."""
    return _encoder.encode(
        StateSnapshot(
            now=state.now,
            seed=state.seed,
            order=state.order,
            housed=state.housed,
            resources=list(state.nodes.resource_index),
            nodes=list(zip(state.nodes.names, state.nodes.nodes, strict=True)),
            pods=[_kept(KeptPod, state.pods[uid]) for uid in {**state.reservations, **state.pods}],
            reservations={u: _kept(KeptReservation, r) for u, r in state.reservations.items()},
            memory=state.memory,
            verdicts=[verdict for verdict in state.verdicts if verdict is not None],
            scorings=state.scorings[1:],
            timeline=state.timeline,
            in_force=state.in_force,
            next_start=state.next_start,
            position=state.position,
            preemptions=_kept_preemptions(state.preemptions),
            consultation=_kept_consultation(state.consultation),
            overruns=state.overruns,
            samples=state.nodes.samples.held(),
            serves=state.serves,
            flags=state.flags,
            work_budget=state.work_budget,
            topologies={n: _kept(KeptReport, r) for n, r in state.topologies.all().items()},
            registry=list(state.registry.everything()),  # type: ignore[arg-type]
        )
    )


def restore(state: SchedulerState, body: bytes) -> None:
    """Fills an empty state. Raises msgspec.ValidationError or DecodeError for bytes of another
    form."""
    kept = _decoder.decode(body)
    for name in kept.resources:
        state.nodes.resource(name)
    for name, node in kept.nodes:
        state.nodes.add(node or Node(name=name))
        if node is None:
            state.nodes.remove(name)
    for kept_object in kept.registry:
        state.registry.put(kept_object)
    for each in kept.pods:
        state.pods[each.pod.uid] = _filled(PodState.__new__(PodState), each)
    for pod_state in sorted(state.pods.values(), key=lambda each: each.came):
        state.put_back(pod_state)
    for uid, held in kept.reservations.items():
        state.reservations[uid] = _filled(Reservation.__new__(Reservation), held)
    for name, report in kept.topologies.items():
        held_report = ZoneReport(report.current, report.uncovered, is_settled=report.is_settled)
        state.topologies.put_back(name, held_report)
    state.memory.update(kept.memory)
    state.now, state.seed, state.order = kept.now, kept.seed, kept.order
    state.housed = kept.housed
    state.timeline, state.in_force = kept.timeline, kept.in_force
    state.next_start, state.serves = kept.next_start, kept.serves
    state.position, state.flags = kept.position, kept.flags
    state.work_budget = kept.work_budget
    for uid, name in kept.preemptions.nominations.items():
        state.preemptions.nominate(state.pods[uid].pod, name, state.nodes.rows.get(name, -1))
    state.preemptions.evicting.update(kept.preemptions.evictions)
    if kept.consultation is not None:
        state.consultation = Consultation(kept.consultation.asked, kept.consultation.answered)
    state.overruns.extend(kept.overruns)
    state.nodes.samples.advance(kept.now)
    for taken in kept.samples:
        state.nodes.samples.take(taken)
    for verdict in kept.verdicts:
        state.define_verdict(verdict)
    for columns in kept.scorings:
        state.define_scoring(columns)


def _kept_preemptions(found: Preemptions) -> KeptPreemptions:
    nominations = {uid: node for node in found.nodes() for uid in found.on(node)}
    return KeptPreemptions(nominations, dict(found.evicting))


def _kept_consultation(found: Consultation | None) -> KeptConsultation | None:
    return None if found is None else KeptConsultation(found.asked, found.answered)


def _kept(kind: Any, source: PodState | Reservation | ZoneReport) -> Any:
    return kind(*(getattr(source, name) for name in kind.__struct_fields__))


def _filled(target: Any, kept: msgspec.Struct) -> Any:
    for name in kept.__struct_fields__:
        setattr(target, name, getattr(kept, name))
    return target
