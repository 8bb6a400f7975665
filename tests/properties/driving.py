"""Operations on an engine, drawn beforehand and read against its state when they are made.

Which node or pod an operation means is a number modulo those there are, so every list of
operations fits every state, and two engines in equal states are given equal stimuli.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import strategies as st

from eventsched.domain import records
from eventsched.domain.objects import Pod
from eventsched.domain.records import Stimulus
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.units import SECOND
from eventsched.scheduling.engine import Engine

from . import strategies

Operation = tuple[Any, ...]

_index = st.integers(0, 30)
_name = st.sampled_from(strategies.NODE_NAMES)
node_operations = st.one_of(
    _name.flatmap(lambda name: st.tuples(st.just("node"), strategies.roomy_nodes(name))),
    st.tuples(st.just("node gone"), _index),
)
usage_operations = st.one_of(
    st.tuples(st.just("foreign"), _index, st.sampled_from([*strategies.NODE_NAMES, "nowhere"])),
    st.tuples(st.just("pod gone"), _index),
    st.tuples(st.just("burst"), _index, st.integers(1, 12)),
)
engine_operations = st.one_of(
    st.tuples(st.just("pod"), _index, st.sampled_from([0, 0, 5])),
    st.tuples(st.just("gated"), _index),
    st.tuples(st.just("update"), _index, st.sampled_from(["label", "spec", "gates", "bind"])),
    st.tuples(st.just("bound"), _index),
    st.tuples(st.just("bind failed"), _index),
    st.tuples(st.just("time"), st.sampled_from([0.5, 1, 3, 11, 301])),
)


class Driver:
    """Makes operations on an engine; ``shapes`` are the specs that its pods have."""

    def __init__(self, engine: Engine, shapes: list[Any]) -> None:
        self.engine = engine
        self.shapes = shapes
        self.now = 0
        self._born = 0

    def stimuli(self, operation: Operation) -> Iterator[Stimulus]:
        """What an operation means now."""
        state, kind = self.engine.state, operation[0]
        match kind:
            case "node":
                known = operation[1].name in state.nodes.rows
                yield (records.NodeUpdated if known else records.NodeAdded)(node=operation[1])
            case "node gone":
                if name := self._pick(state.nodes.rows, operation[1]):
                    yield records.NodeDeleted(name=name)
            case "burst":
                # One row touched many times: a journal's limit is soon passed.
                for _ in range(operation[2]):
                    if name := self._pick(state.nodes.rows, operation[1]):
                        yield records.PodAdded(pod=self._pod(0, node_name=name))
            case "time":
                self.now += int(operation[1] * SECOND)
                yield records.TimePassed()
            case "bound" | "bind failed":
                if uid := self._pick(state.reservations, operation[1]):
                    yield self._outcome(uid, kind)
            case _:
                yield from self._pod_stimuli(operation)

    def _pod_stimuli(self, operation: Operation) -> Iterator[Stimulus]:
        match operation[0]:
            case "foreign":
                yield records.PodAdded(pod=self._pod(operation[1], node_name=operation[2]))
            case "pod":
                yield records.PodAdded(pod=self._pod(operation[1], priority=operation[2]))
            case "gated":
                yield records.PodAdded(pod=self._pod(operation[1], gates=("g",)))
            case "pod gone":
                if uid := self._pick(self.engine.state.pods, operation[1]):
                    yield records.PodDeleted(uid=uid)
            case "update":
                if uid := self._pick(self.engine.state.pods, operation[1]):
                    yield records.PodUpdated(pod=self._updated(uid, operation[2]))

    def observe(self, operation: Operation) -> list[LogEntry]:
        """Makes an operation."""
        logged: list[LogEntry] = []
        for stimulus in self.stimuli(operation):
            logged += self.engine.observe(stimulus, self.now)
        return logged

    def play(self, operation: Operation, attempts: int = 2) -> list[LogEntry]:
        """Makes an operation, then some attempts."""
        logged = self.observe(operation)
        for _ in range(attempts):
            logged += self.engine.schedule_next()
        return logged

    def _outcome(self, uid: str, kind: str) -> Stimulus:
        node = self.engine.state.reservations[uid].node
        if kind == "bound":
            return records.BindSucceeded(uid=uid, node=node)
        return records.BindFailed(uid=uid, node=node, message="no")

    def _updated(self, uid: str, what: str) -> Pod:
        state = self.engine.state
        pod = state.pods[uid].pod
        if what == "spec":
            return msgspec.structs.replace(pod, spec=self.shapes[len(uid + pod.name) % 3])
        if what == "gates":
            return msgspec.structs.replace(pod, gates=())
        if what == "bind" and not pod.node_name and state.nodes.rows:
            held = state.reservations.get(uid)
            node = held.node if held else next(iter(state.nodes.rows))
            return msgspec.structs.replace(pod, node_name=node)
        return msgspec.structs.replace(pod, labels={"seen": str(self.now)})

    def _pod(self, shape: int, **more: Any) -> Pod:
        self._born += 1
        uid = f"pod-{self._born}"
        return Pod(uid=uid, name=uid, spec=self.shapes[shape % len(self.shapes)], **more)

    @staticmethod
    def _pick(among: Any, number: int) -> str:
        names = list(among)
        return names[number % len(names)] if names else ""
