"""Generates a small history to run a plugin over: a cluster with every kind of change.

The scheduler itself produces it with its default plugins, from random changes with a fixed seed.
Labels and annotations are texts from the plugin's own code, so that the plugin has something to
react to.
"""

import ast
import inspect
import random
from collections.abc import Sequence
from types import ModuleType

import msgspec

from eventsched.domain import records
from eventsched.domain.behaviours import CURRENT
from eventsched.domain.objects import CPU, MEMORY, PODS, Container, Node, Pod, PodSpec, Taint
from eventsched.domain.records import Outcome, PodDecided, Stimulus
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.units import SECOND
from eventsched.plugins import IN_TREE
from eventsched.runtime.assembly import assemble_loaded
from eventsched.scheduling.config import configuration

NAME = "a generated history"
NODE_COUNT, STEP_COUNT = 20, 80
_GIB = 1024**3
_MAX_WORDS = 12
_ZONE, _HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_VALUES = ("a", "b", "1", "20", "true")


def label_words(module: ModuleType | None) -> list[str]:
    """The texts in a module's code that may be keys or values of labels, at most 12; those with a
    slash come first."""
    try:
        tree = ast.parse(inspect.getsource(module)) if module is not None else ast.parse("")
    except (OSError, TypeError, SyntaxError):
        return []
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docstrings
    ]
    words = [
        text
        for text in dict.fromkeys(texts)
        if 0 < len(text) <= 63 and not set(text) & set(" \n{}()%,;:'")
    ]
    return sorted(words, key=lambda word: "/" not in word)[:_MAX_WORDS]


def generated_history(words: Sequence[str]) -> list[LogEntry]:
    """The records of the history. ``words`` are the keys and values of labels and annotations on
    some nodes and pods."""
    return _HistoryGenerator(words).run()


class _HistoryGenerator:
    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._draw = random.Random(7)  # a fixed seed: the history is always the same
        loaded = configuration.default()
        self._engine = assemble_loaded(loaded, NAME, IN_TREE).engine(with_detail=False)
        self._log: list[LogEntry] = []
        self._nodes: dict[str, Node] = {}
        self._pods: dict[str, Pod] = {}
        self._created = 0

    def run(self) -> list[LogEntry]:
        started = records.StreamStarted(
            format=records.FORMAT, engine="", seed="rehearsal", flags=CURRENT
        )
        self._observe(started, 0)
        for number in range(NODE_COUNT):
            self._add_node(f"node-{number:02}", 0)
        for step in range(STEP_COUNT):
            now = (step + 1) * SECOND
            self._add_pod(now)
            self._add_pod(now)
            self._change_cluster(now)
            self._schedule(now)
        return self._log

    # --- changes --------------------------------------------------------------------------

    def _add_pod(self, now: int) -> None:
        """Adds a pod; sometimes one with the name of a deleted pod."""
        gone = [f"pod-{n:03}" for n in range(self._created) if not self._exists(f"pod-{n:03}")]
        if gone and self._draw.random() < 0.3:
            name = self._draw.choice(gone)
        else:
            name, self._created = f"pod-{self._created:03}", self._created + 1
        requests = {
            CPU: self._draw.choice((250, 500, 1000, 3000, 9000)),
            MEMORY: self._draw.choice((1, 2, 4)) * _GIB,
        }
        pod = Pod(
            uid=f"{name}-{now}",
            name=name,
            labels={"app": self._draw.choice(("web", "db")), **self._random_labels()},
            annotations=self._random_labels(),
            priority=self._draw.choice((0, 0, 10)),
            created_at=now,
            spec=PodSpec(containers=(Container(requests=requests),)),
        )
        self._pods[pod.uid] = pod
        self._observe(records.PodAdded(pod=pod), now)

    def _change_cluster(self, now: int) -> None:
        """Makes one random change of the cluster."""
        changes = (
            self._relabel_node, self._relabel_node, self._relabel_node, self._annotate_node,
            self._toggle_taint, self._resize, self._toggle_unschedulable, self._delete_node,
            self._rejoin_node, self._delete_pod, self._delete_pod, self._relabel_pod,
            self._relabel_pod,
        )  # fmt: skip
        self._draw.choice(changes)(now)

    def _relabel_node(self, now: int) -> None:
        node = self._some_node()
        topology = {key: node.labels[key] for key in (_ZONE, _HOST)}
        self._update_node(node, now, labels={**topology, **self._random_labels()})

    def _annotate_node(self, now: int) -> None:
        self._update_node(self._some_node(), now, annotations=self._random_labels())

    def _toggle_taint(self, now: int) -> None:
        node = self._some_node()
        taint = Taint(key=self._draw.choice((*self._words, "dedicated")), effect="NoSchedule")
        self._update_node(node, now, taints=() if node.taints else (taint,))

    def _resize(self, now: int) -> None:
        node = self._some_node()
        cpu = self._draw.choice((2000, 4000, 8000))
        self._update_node(node, now, allocatable={**node.allocatable, CPU: cpu})

    def _toggle_unschedulable(self, now: int) -> None:
        node = self._some_node()
        self._update_node(node, now, unschedulable=not node.unschedulable)

    def _delete_node(self, now: int) -> None:
        node = self._some_node()
        del self._nodes[node.name]
        self._observe(records.NodeDeleted(name=node.name), now)

    def _rejoin_node(self, now: int) -> None:
        gone = [f"node-{n:02}" for n in range(NODE_COUNT) if f"node-{n:02}" not in self._nodes]
        self._add_node(gone[0] if gone else f"node-{NODE_COUNT}", now)

    def _delete_pod(self, now: int) -> None:
        bound = [uid for uid in self._pods if self._engine.state.pods[uid].bound]
        if bound:
            uid = self._draw.choice(bound)
            del self._pods[uid]
            self._observe(records.PodDeleted(uid=uid), now)

    def _relabel_pod(self, now: int) -> None:
        waiting = [uid for uid in self._pods if not self._engine.state.pods[uid].bound]
        if waiting:
            pod = self._engine.state.pods[self._draw.choice(waiting)].pod
            labels = {"app": pod.labels["app"], **self._random_labels()}
            changed = msgspec.structs.replace(pod, labels=labels, annotations=self._random_labels())
            self._pods[pod.uid] = changed
            self._observe(records.PodUpdated(pod=changed), now)

    # --- building blocks ------------------------------------------------------------------

    def _random_labels(self) -> dict[str, str]:
        values = (*_VALUES, *self._words)
        chosen = [word for word in self._words if self._draw.random() < 0.5]
        return {word: self._draw.choice(values) for word in chosen}

    def _some_node(self) -> Node:
        return self._nodes[self._draw.choice(sorted(self._nodes))]

    def _exists(self, name: str) -> bool:
        return any(pod.name == name for pod in self._pods.values())

    def _add_node(self, name: str, now: int) -> None:
        zone = f"zone-{'abc'[len(self._nodes) % 3]}"
        labels = {_ZONE: zone, _HOST: name, **self._random_labels()}
        room = {CPU: 4000, MEMORY: 16 * _GIB, PODS: 110}
        node = Node(name=name, labels=labels, annotations=self._random_labels(), allocatable=room)
        self._nodes[name] = node
        self._observe(records.NodeAdded(node=node), now)

    def _update_node(self, node: Node, now: int, **fields: object) -> None:
        changed = msgspec.structs.replace(node, **fields)
        self._nodes[node.name] = changed
        self._observe(records.NodeUpdated(node=changed), now)

    def _schedule(self, now: int) -> None:
        """Runs attempts until none is due. Binds succeed at once; evictions never happen."""
        due = self._engine.due
        if due is not None and due <= now:
            self._observe(records.TimePassed(), now)
        while logged := self._engine.schedule_next():
            self._log += logged
            for entry in logged:
                record = entry.record
                if isinstance(record, PodDecided) and record.outcome is Outcome.SCHEDULED:
                    self._observe(records.BindSucceeded(uid=record.uid, node=record.node), now)

    def _observe(self, stimulus: Stimulus, now: int) -> None:
        self._log += self._engine.observe(stimulus, now)
