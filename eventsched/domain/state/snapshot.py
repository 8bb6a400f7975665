"""The scheduler's state as bytes, and back: a restart reads a snapshot instead of all records.

A snapshot holds what decisions depend on; columns, bookings and indexes are rebuilt from it. The
caller compares ``SchedulerState.digest`` with the digest that is stored beside the snapshot.
"""

from typing import Any

import msgspec

from eventsched.domain.objects import Node, Pod
from eventsched.domain.objects.registry import AnyObject, NodeResourceTopology
from eventsched.domain.records import (
    ExtenderAnswered,
    ExtenderAsked,
    PluginOverran,
    Queue,
    SamplesTaken,
)
from eventsched.domain.records.object_writes import Write
from eventsched.domain.records.verdicts import ScoreColumn, Verdict
from eventsched.domain.state.consultation import Consultation
from eventsched.domain.state.numa_zones import ZoneReport
from eventsched.domain.state.preemptions import Eviction, Preemptions
from eventsched.domain.state.reservations import Reservation
from eventsched.domain.state.scheduler_state import PodState, SchedulerState


class PodSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """The attributes of a PodState."""

    pod: Pod
    row: int
    booked_node: str
    booking_order: int
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


class ReservationSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """The attributes of a Reservation."""

    node: str
    attempt: int
    carry: dict[str, Any]
    waits: dict[str, int]
    intended: bool
    preparing: dict[str, int] = {}
    writes: dict[str, tuple[Write, ...]] = {}


class PreemptionsSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """The nominations (uid → node) and the evictions by the victim's uid."""

    nominations: dict[str, str]
    evictions: dict[str, Eviction]


class ConsultationSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """The attributes of a Consultation."""

    asked: list[ExtenderAsked]
    answered: list[ExtenderAnswered]


class ZoneReportSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """The attributes of a ZoneReport."""

    current: NodeResourceTopology
    uncovered: dict[str, bool]
    is_settled: bool


class StateSnapshot(msgspec.Struct, frozen=True):
    """A whole state. ``nodes`` has for every row the name of its last node, and the node or None
    if that is deleted. ``free_rows`` are the rows of deleted nodes and when they became free, in
    that order. ``resources`` are in the order of their columns. Of ``pods`` those with a
    reservation come first, in the order in which they wait at Permit."""

    now: int
    seed: str
    order: int
    bookings: int = msgspec.field(name="housed")
    resources: list[str]
    nodes: list[tuple[str, Node | None]]
    pods: list[PodSnapshot]
    reservations: dict[str, ReservationSnapshot]
    memory: dict[str, dict[str, Any]]
    verdicts: list[Verdict]
    scorings: list[tuple[ScoreColumn, ...]]
    timeline: str = ""
    in_force: str = ""
    registry: list[AnyObject] = []
    next_start: int = 0
    position: int = 0
    preemptions: PreemptionsSnapshot = PreemptionsSnapshot({}, {})
    consultation: ConsultationSnapshot | None = None
    overruns: list[PluginOverran] = []
    samples: list[SamplesTaken] = []
    serves: str = ""
    flags: tuple[int, ...] = ()
    work_budget: int = 0
    topologies: dict[str, ZoneReportSnapshot] = {}
    free_rows: list[tuple[int, int]] | None = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(StateSnapshot)


def encode(state: SchedulerState) -> bytes:
    """The state's bytes (JSON)."""
    reserved_first = {**state.reservations, **state.pods}
    return _encoder.encode(
        StateSnapshot(
            now=state.now,
            seed=state.seed,
            order=state.order,
            bookings=state.bookings,
            resources=list(state.nodes.resource_index),
            nodes=list(zip(state.nodes.names, state.nodes.nodes, strict=True)),
            free_rows=list(state.nodes.free_rows.items()),
            pods=[_attributes(PodSnapshot, state.pods[uid]) for uid in reserved_first],
            reservations={
                uid: _attributes(ReservationSnapshot, reservation)
                for uid, reservation in state.reservations.items()
            },
            memory=state.memory,
            verdicts=[verdict for verdict in state.verdicts if verdict is not None],
            scorings=state.scorings[1:],
            timeline=state.timeline,
            in_force=state.in_force,
            next_start=state.next_start,
            position=state.position,
            preemptions=_preemptions_snapshot(state.preemptions),
            consultation=_consultation_snapshot(state.consultation),
            overruns=state.overruns,
            samples=state.nodes.samples.held(),
            serves=state.serves,
            flags=state.flags,
            work_budget=state.work_budget,
            topologies={
                node: _attributes(ZoneReportSnapshot, report)
                for node, report in state.topologies.all().items()
            },
            registry=list(state.registry.everything()),  # type: ignore[arg-type]
        )
    )


def restore(state: SchedulerState, body: bytes) -> None:
    """Fills an empty state. Raises msgspec.ValidationError or DecodeError for bytes that are not a
    snapshot."""
    snapshot = _decoder.decode(body)
    _restore_nodes(state, snapshot)
    for registered in snapshot.registry:
        state.registry.put(registered)
    _restore_pods(state, snapshot)
    for node, report in snapshot.topologies.items():
        restored = ZoneReport(report.current, report.uncovered, is_settled=report.is_settled)
        state.topologies.put_back(node, restored)
    state.memory.update(snapshot.memory)
    state.now, state.seed, state.order = snapshot.now, snapshot.seed, snapshot.order
    state.bookings = snapshot.bookings
    state.timeline, state.in_force = snapshot.timeline, snapshot.in_force
    state.next_start, state.serves = snapshot.next_start, snapshot.serves
    state.position, state.flags = snapshot.position, snapshot.flags
    state.work_budget = snapshot.work_budget
    if snapshot.consultation is not None:
        consultation = snapshot.consultation
        state.consultation = Consultation(consultation.asked, consultation.answered)
    state.overruns.extend(snapshot.overruns)
    state.nodes.samples.advance(snapshot.now)
    for samples in snapshot.samples:
        state.nodes.samples.take(samples)
    for verdict in snapshot.verdicts:
        state.define_verdict(verdict)
    for columns in snapshot.scorings:
        state.define_scoring(columns)


def _restore_nodes(state: SchedulerState, snapshot: StateSnapshot) -> None:
    """Every node gets the row that it had; the rows of deleted nodes stay free."""
    for resource in snapshot.resources:
        state.nodes.resource(resource)
    for name, node in snapshot.nodes:
        state.nodes.put_back(name, node)
    free_rows = dict(snapshot.free_rows or ())
    if free_rows.keys() != state.nodes.free_rows.keys():
        raise msgspec.ValidationError("the free rows are not those of deleted nodes")
    state.nodes.free_rows = free_rows


def _restore_pods(state: SchedulerState, snapshot: StateSnapshot) -> None:
    """Pods with their bookings, reservations, nominations and evictions."""
    for pod in snapshot.pods:
        state.pods[pod.pod.uid] = _filled(PodState.__new__(PodState), pod)
    for pod_state in sorted(state.pods.values(), key=lambda pod_state: pod_state.booking_order):
        state.put_back(pod_state)
    for uid, reservation in snapshot.reservations.items():
        state.reservations[uid] = _filled(Reservation.__new__(Reservation), reservation)
    for uid, node in snapshot.preemptions.nominations.items():
        state.preemptions.nominate(state.pods[uid].pod, node, state.nodes.rows.get(node, -1))
    state.preemptions.evicting.update(snapshot.preemptions.evictions)


def _preemptions_snapshot(preemptions: Preemptions) -> PreemptionsSnapshot:
    nominations = {uid: node for node in preemptions.nodes() for uid in preemptions.on(node)}
    return PreemptionsSnapshot(nominations, dict(preemptions.evicting))


def _consultation_snapshot(consultation: Consultation | None) -> ConsultationSnapshot | None:
    if consultation is None:
        return None
    return ConsultationSnapshot(consultation.asked, consultation.answered)


def _attributes(kind: Any, source: PodState | Reservation | ZoneReport) -> Any:
    return kind(*(getattr(source, name) for name in kind.__struct_fields__))


def _filled(target: Any, source: msgspec.Struct) -> Any:
    for name in source.__struct_fields__:
        setattr(target, name, getattr(source, name))
    return target
