"""An engine in which pods come, go and change beside each other, and a plugin that counts them: it
is held against a naive model that counts again, also of rows with pods more or less."""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from eventsched.domain import records
from eventsched.domain.nodes.node_views import NodeView, PodStep, TrialView
from eventsched.domain.objects import Node, Pod, PodSpec, Requirement, Selector
from eventsched.domain.objects.registry import ClusterObject
from eventsched.domain.records import Stimulus
from eventsched.scheduling.framework import Code, Cycle
from tests.builders import engine_of

NODES = [f"n{number}" for number in range(9)]
PODS = 30
"""If there are more, some go first."""
KINDS = [
    "node", "node", "node gone", "bound pod", "bound pod", "bound pod", "pod", "pod", "pod",
    "labels", "deleting", "spec", "gone", "outcome", "outcome", "object", "time",
]  # fmt: skip

Refusal = Callable[[Node, Sequence[tuple[Pod, int]]], str]
"""A model's reason on a node after pods came (1) to it or left (-1) it; "" where it passes."""


class Neighbourhood(ABC):
    """An engine with one plugin, and what may happen to it. ``unresolvable`` is the reason with
    which evictions would not help."""

    unresolvable: str

    def __init__(self, r: random.Random, plugin: Any, specs: int) -> None:
        self.random = r
        self.plugin = plugin
        self.engine = engine_of(plugin)
        self.state = self.engine.state
        self.specs = [PodSpec()] + [self.spec() for _ in range(specs)]
        self.now, self.born = 0, 0

    # --- values ---------------------------------------------------------------------------

    @abstractmethod
    def spec(self) -> PodSpec:
        """What a pod asks for."""

    @abstractmethod
    def labels(self) -> dict[str, str]:
        """A pod's labels."""

    @abstractmethod
    def node(self, name: str) -> Node:
        """A node of that name."""

    @abstractmethod
    def an_object(self) -> ClusterObject:
        """Another object that the plugin reads; it comes, changes and goes."""

    @abstractmethod
    def pod(self, **fields: object) -> Pod:
        """A new pod."""

    def new_pod(self, **fields: object) -> Pod:
        """A new pod with these fields, a spec and labels."""
        self.born += 1
        uid = f"p{self.born}"
        filled = {"labels": self.labels(), "spec": self.random.choice(self.specs), **fields}
        return Pod(uid=uid, name=uid, **filled)  # type: ignore[arg-type]

    def selector(self, keys: Sequence[str], values: Sequence[str]) -> Selector:
        """Some requirements, seldom a malformed one."""
        r = self.random
        if r.random() < 0.02:
            odd = [("Near", ()), ("In", ()), ("Exists", ("a",)), ("NotIn", ())]
            operator, given = r.choice(odd)
            return (Requirement(key=r.choice(keys), operator=operator, values=given),)
        found = []
        for _ in range(r.choice([0, 1, 1, 1, 2])):
            operator = r.choice(["In", "In", "NotIn", "Exists", "DoesNotExist"])
            few = tuple(r.sample(values, r.randint(1, 2))) if operator.endswith("In") else ()
            found.append(Requirement(key=r.choice(keys), operator=operator, values=few))
        return tuple(found)

    # --- steps ----------------------------------------------------------------------------

    def step(self) -> None:
        """Something happens; then perhaps an attempt is made."""
        for stimulus in self._happening():
            self.engine.observe(stimulus, self.now)
        if self.random.random() < 0.5:
            self.engine.schedule_next()

    def _happening(self) -> Iterator[Stimulus]:
        r, pods = self.random, list(self.state.pods)
        kind = "gone" if len(pods) > PODS else r.choice(KINDS)
        if kind == "node":
            yield records.NodeUpdated(node=self.node(r.choice(NODES)))
        elif kind == "node gone" and r.random() < 0.3:
            yield records.NodeDeleted(name=r.choice(NODES))
        elif kind == "bound pod":
            yield records.PodAdded(pod=self.pod(node_name=r.choice([*NODES, "nowhere"])))
        elif kind == "pod":
            yield records.PodAdded(pod=self.pod())
        elif kind == "gone" and pods:
            yield records.PodDeleted(uid=r.choice(pods))
        elif kind in ("labels", "deleting", "spec") and pods:
            pod = self.state.pods[r.choice(pods)].pod
            change = {"labels": self.labels(), "deleting": True, "spec": r.choice(self.specs)}
            yield records.PodUpdated(pod=msgspec.structs.replace(pod, **{kind: change[kind]}))
        elif kind == "outcome" and self.state.reservations:
            uid = r.choice(list(self.state.reservations))
            node = self.state.reservations[uid].node
            if r.random() < 0.8:
                yield records.BindSucceeded(uid=uid, node=node)
            else:
                yield records.BindFailed(uid=uid, node=node, message="no")
        elif kind == "object":
            yield self._object_change()
        elif kind == "time":
            self.now += 12_000_000
            yield records.TimePassed()

    def _object_change(self) -> Stimulus:
        made = self.an_object()
        known = self.state.registry.get(type(made), made.name, made.namespace) is not None
        if known and self.random.random() < 0.3:
            named = {"namespace": made.namespace, "name": made.name}
            return records.ObjectDeleted(type=type(made).__name__, **named)
        return records.ObjectChanged(object=made)  # type: ignore[arg-type]

    # --- what is there --------------------------------------------------------------------

    def places(self) -> list[tuple[Node, list[Pod]]]:
        """The nodes with the pods on them, without any counts."""
        pods: dict[int, list[Pod]] = {}
        for each in self.state.pods.values():
            if each.row >= 0:
                pods.setdefault(each.row, []).append(each.pod)
        return [(self.at(row), pods.get(row, [])) for row in self.live()]

    def at(self, row: int) -> Node:
        """The node of a row."""
        node = self.state.nodes.nodes[row]
        assert node is not None
        return node

    def live(self) -> list[int]:
        """The rows that are nodes'."""
        return list(self.state.nodes.rows.values())

    def cycle(self) -> Cycle:
        """A new attempt."""
        return Cycle(now=0, seed="", registry=self.state.registry)

    # --- comparisons ----------------------------------------------------------------------

    def check_refusals(self, cycle: Cycle, pod: Pod, theirs: Refusal) -> None:
        """The plugin says about all nodes what the model says; also of some of them, and of some
        with pods more or less."""
        r, table, live = self.random, self.state.nodes, self.live()
        some = sorted(r.sample(live, len(live) // 2))
        whole = self.plugin.filter(cycle, pod, NodeView(table))
        words = self._words(cycle, pod, whole, table.size)
        assert [words[row] for row in live] == [theirs(self.at(row), ()) for row in live]
        part = self.plugin.filter(cycle, pod, NodeView(table, np.array(some, dtype=np.intp)))
        assert self._words(cycle, pod, part, len(some)) == [words[row] for row in some]
        rows = sorted(r.sample(live, len(live) // 2 + 1)) if live else []
        tried = [self._steps(row) for row in rows]
        flat = [PodStep(at, other, sign) for at, steps in enumerate(tried) for other, sign in steps]
        view = TrialView(table, np.array(rows, dtype=np.intp), flat)
        words = self._words(cycle, pod, self.plugin.filter(cycle, pod, view), len(rows))
        assert words == [
            theirs(self.at(row), steps) for row, steps in zip(rows, tried, strict=True)
        ]

    def _steps(self, row: int) -> list[tuple[Pod, int]]:
        r = self.random
        there = self.state.nodes.residents[row].values()
        leaving = [(each, -1) for each in there if r.random() < 0.5]
        return leaving + [(self.pod(), 1) for _ in range(r.choice([0, 0, 1, 2]))]

    def _words(self, cycle: Cycle, pod: Pod, codes: Any, rows: int) -> list[str]:
        found = [0] * rows if codes is None else codes.tolist()
        words = []
        for code in found:
            status = self.plugin.explain(cycle, pod, code) if code else None
            if status is not None:
                final = self.unresolvable in status.reasons
                assert status.code is (Code.UNRESOLVABLE if final else Code.UNSCHEDULABLE)
            words.append(status.reasons[0] if status else "")
        return words
