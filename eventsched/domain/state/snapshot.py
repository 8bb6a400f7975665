"""The scheduler's state as bytes, and back: a restart reads a snapshot instead of all records.

A snapshot holds what decisions depend on; columns, bookings and indexes are rebuilt from it. It is
a copy: the state may change while ``parts`` encodes it. The caller compares
``SchedulerState.digest`` with the digest that is stored beside the snapshot.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from eventsched.domain.behaviours import Behaviour, require_known
from eventsched.domain.nodes.table_copies import copy_into
from eventsched.domain.state.numa_zones import ZoneReport
from eventsched.domain.state.parts.consultation import Consultation
from eventsched.domain.state.parts.reservations import Reservation
from eventsched.domain.state.pod_blocks import BlockEncoder, PodBlock, SharedParts, decoded_pods
from eventsched.domain.state.pod_state import PodState
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.domain.state.state_snapshot import StateSnapshot, copied, copied_with


class EncodedState(StateSnapshot, frozen=True):
    """A state as it is stored. Its pods are in ``pod_blocks``; in format 1 they were in ``pods``
    (runtime/snapshot_policy.py)."""

    pod_blocks: list[PodBlock] = []
    shared: SharedParts = SharedParts()

    def decoded(self) -> StateSnapshot:
        """With its pods. Raises msgspec.ValidationError for blocks that contradict each other."""
        fields = {name: getattr(self, name) for name in StateSnapshot.__struct_fields__}
        fields["pods"] = self.pods or decoded_pods(self.pod_blocks, self.shared)
        return StateSnapshot(**fields)


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(EncodedState)


def parts(snapshot: StateSnapshot) -> Iterator[bytes]:
    """The snapshot's bytes (JSON) in many parts: one for each node, some pods, or another object.
    ``pods`` is empty and the pods come last, so a reader of the nodes can stop before them
    (runtime/queries/nodes_at.py)."""
    before = b"{"
    for field in msgspec.structs.fields(snapshot):
        yield before + _encoder.encode(field.encode_name) + b":"
        value = [] if field.name == "pods" else getattr(snapshot, field.name)
        if isinstance(value, list):
            yield from _list_parts(value)
        else:
            yield _encoder.encode(value)
        before = b","
    encoder = BlockEncoder()
    yield b',"pod_blocks":'
    yield from _list_parts(encoder.blocks(snapshot.pods))
    yield b',"shared":{"pods":'  # in parts, too: pods may share nothing
    yield from _list_parts(encoder.shared.pods)
    yield b',"texts":'
    yield from _list_parts(encoder.shared.texts)
    yield b"}}"


def _list_parts(values: Iterable[Any]) -> Iterator[bytes]:
    before = b"["
    for value in values:
        yield before + _encoder.encode(value)
        before = b","
    yield b"]" if before == b"," else b"[]"


def encode(state: SchedulerState) -> bytes:
    """The state's bytes (JSON)."""
    return b"".join(parts(copied(state)))


def restore(state: SchedulerState, body: bytes | StateSnapshot) -> None:
    """Fills an empty state from bytes, or from the copy of a state, which any number of states may
    be filled from. Raises msgspec.ValidationError or DecodeError for bytes that are not a snapshot,
    and NewerLogError for one of a newer version."""
    snapshot = body if isinstance(body, StateSnapshot) else _decoder.decode(body).decoded()
    require_known(snapshot.flags, f"the snapshot at position {snapshot.position}")
    _restore_nodes(state, snapshot)
    for registered in snapshot.registry:
        state.registry.put(registered)
    for pod in snapshot.pods:
        state.pods[pod.pod.uid] = PodState(*msgspec.structs.astuple(pod))
    state.put_back(state.pods.values())
    _restore_rest(state, snapshot)


def duplicated(state: SchedulerState) -> SchedulerState:
    """Another state, as ``restore`` of a copy makes it, except that pods have the same order. It
    takes a tenth of the time, because columns and bookings are copied, too."""
    other = type(state)()
    copy_into(other.nodes, state.nodes)
    for uid, pod in state.pods.items():  # copy.copy takes several times as long
        other.pods[uid] = pod.__copy__()  # type: ignore[attr-defined]
    other.take_places(state)
    for registered in state.registry.everything():
        other.registry.put(registered)
    _restore_rest(other, copied_with(state, [], []))
    return other


def _restore_rest(state: SchedulerState, snapshot: StateSnapshot) -> None:
    """What a state has besides nodes, objects, and pods in their places."""
    _restore_reservations(state, snapshot)
    for node, report in snapshot.topologies.items():
        uncovered = dict(report.uncovered)
        restored = ZoneReport(report.current, uncovered, is_settled=report.is_settled)
        state.topologies.put_back(node, restored)
    _restore_memory(state, snapshot)
    state.now, state.seed, state.order = snapshot.now, snapshot.seed, snapshot.order
    state.bookings = snapshot.bookings
    state.timeline, state.in_force = snapshot.timeline, snapshot.in_force
    state.next_start, state.serves = snapshot.next_start, snapshot.serves
    state.position, state.flags = snapshot.position, snapshot.flags
    state.shadows, state.work_budget = snapshot.shadows, snapshot.work_budget
    state.nodes.free_columns(is_on=Behaviour.FREES_COLUMNS in state.flags)
    if snapshot.consultation is not None:
        consultation = snapshot.consultation
        state.consultation = Consultation(list(consultation.asked), list(consultation.answered))
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
    state.nodes.put_back_columns(snapshot.resources)
    for name, node in snapshot.nodes:
        state.nodes.put_back(name, node)
    free_rows = dict(snapshot.free_rows or ())
    if free_rows.keys() != state.nodes.free_rows.keys():
        raise msgspec.ValidationError("the free rows are not those of deleted nodes")
    state.nodes.free_rows = free_rows


def _restore_reservations(state: SchedulerState, snapshot: StateSnapshot) -> None:
    """Reservations, nominations and evictions."""
    for uid, reservation in snapshot.reservations.items():
        restored = _filled(Reservation.__new__(Reservation), reservation)
        restored.carry, restored.waits = dict(restored.carry), dict(restored.waits)
        state.reservations[uid] = restored
    for uid, node in snapshot.preemptions.nominations.items():
        state.preemptions.nominate(state.pods[uid].pod, node, state.nodes.rows.get(node, -1))
    state.preemptions.evicting.update(snapshot.preemptions.evictions)


def _restore_memory(state: SchedulerState, snapshot: StateSnapshot) -> None:
    """The entries of plugins, and their use in a stream that follows it."""
    state.memory.update((plugin, dict(values)) for plugin, values in snapshot.memory.items())
    for plugin, use in snapshot.memory_use.items():
        state.memory_use.put_back(plugin, use.users, use.unused)
    for plugin, memory in state.memory.items() if Behaviour.BOUNDS_MEMORY in snapshot.flags else ():
        keys = state.memory_use.unused(plugin).keys() | state.memory_use.users(plugin).keys()
        if keys != memory.keys():
            raise msgspec.ValidationError(f"the use of the memory of {plugin} is not complete")


def _filled(target: Any, source: msgspec.Struct) -> Any:
    for name in source.__struct_fields__:
        setattr(target, name, getattr(source, name))
    return target
