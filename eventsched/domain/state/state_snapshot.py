"""A copy of the scheduler's state, as plain values that never change.

It holds what decisions depend on; columns, bookings and indexes follow from it (snapshot.py). The
state may change while the copy is encoded or its digest is computed.
"""

from operator import attrgetter
from typing import Any

import msgspec

from eventsched.domain.objects import Node
from eventsched.domain.objects.registry import AnyObject, NodeResourceTopology
from eventsched.domain.records import (
    ExtenderAnswered,
    ExtenderAsked,
    PluginOverran,
    SamplesTaken,
)
from eventsched.domain.records.object_writes import Write
from eventsched.domain.records.verdicts import ScoreColumn, Verdict
from eventsched.domain.state.numa_zones import ZoneReport
from eventsched.domain.state.parts.consultation import Consultation
from eventsched.domain.state.parts.memory_use import MemoryUse
from eventsched.domain.state.parts.preemptions import Eviction, Preemptions
from eventsched.domain.state.parts.reservations import Reservation
from eventsched.domain.state.pod_blocks import PodSnapshot
from eventsched.domain.state.state_attributes import StateAttributes


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


class MemoryUseSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """The part of ``MemoryUse`` about one plugin: key → uid of the pod that uses it, and key →
    since when (µs) no pod uses it, in that order."""

    users: dict[str, str]
    unused: dict[str, int]


class StateSnapshot(msgspec.Struct, frozen=True):
    """A whole state. ``nodes`` has for every row the name of its last node, and the node or None
    if that is deleted. ``free_rows`` are the rows of deleted nodes and when they became free, in
    that order. ``resources`` are in the order of their columns, "" for a free one. Of ``pods``
    those with a reservation come first, in the order in which they wait at Permit."""

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
    memory_use: dict[str, MemoryUseSnapshot] = {}
    shadows: tuple[str, ...] = ()


_pod_attributes = attrgetter(*PodSnapshot.__struct_fields__)


def copied(state: StateAttributes) -> StateSnapshot:
    """A copy of the state. It takes less than a microsecond for each pod, because objects, which
    never change, are shared."""
    pods = state.pods
    reserved_first = {**state.reservations, **pods} if state.reservations else pods
    return copied_with(
        state,
        list(zip(state.nodes.names, state.nodes.nodes, strict=True)),
        [PodSnapshot(*_pod_attributes(pods[uid])) for uid in reserved_first],
    )


def copied_with(
    state: StateAttributes, nodes: list[tuple[str, Node | None]], pods: list[PodSnapshot]
) -> StateSnapshot:
    """A copy with other nodes and pods than the state has."""
    return StateSnapshot(
        now=state.now,
        seed=state.seed,
        order=state.order,
        bookings=state.bookings,
        resources=state.nodes.columns.names,
        nodes=nodes,
        free_rows=list(state.nodes.free_rows.items()),
        pods=pods,
        reservations={uid: _reservation(each) for uid, each in state.reservations.items()},
        memory={plugin: dict(values) for plugin, values in state.memory.items()},
        memory_use=_memory_use(state.memory_use),
        verdicts=[verdict for verdict in state.verdicts if verdict is not None],
        scorings=state.scorings[1:],
        timeline=state.timeline,
        in_force=state.in_force,
        next_start=state.next_start,
        position=state.position,
        preemptions=_preemptions(state.preemptions),
        consultation=_consultation(state.consultation),
        overruns=list(state.overruns),
        samples=state.nodes.samples.held(),
        serves=state.serves,
        flags=state.flags,
        work_budget=state.work_budget,
        shadows=state.shadows,
        topologies={node: _zones(report) for node, report in state.topologies.all().items()},
        registry=list(state.registry.everything()),
    )


def _reservation(reservation: Reservation) -> ReservationSnapshot:
    return ReservationSnapshot(
        reservation.node,
        reservation.attempt,
        dict(reservation.carry),
        dict(reservation.waits),
        reservation.intended,
        reservation.preparing,
        reservation.writes,
    )


def _preemptions(preemptions: Preemptions) -> PreemptionsSnapshot:
    nominations = {uid: node for node in preemptions.nodes() for uid in preemptions.on(node)}
    return PreemptionsSnapshot(nominations, dict(preemptions.evicting))


def _consultation(consultation: Consultation | None) -> ConsultationSnapshot | None:
    if consultation is None:
        return None
    return ConsultationSnapshot(list(consultation.asked), list(consultation.answered))


def _memory_use(use: MemoryUse) -> dict[str, MemoryUseSnapshot]:
    return {
        plugin: MemoryUseSnapshot(dict(use.users(plugin)), dict(use.unused(plugin)))
        for plugin in use.plugins()
    }


def _zones(report: ZoneReport) -> ZoneReportSnapshot:
    return ZoneReportSnapshot(report.current, dict(report.uncovered), report.is_settled)
