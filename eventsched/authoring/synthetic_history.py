"""A small history to ask a plugin about, where there is none: a cluster to which much happens.

It is made by the scheduler itself with its default plugins, from draws with a fixed seed. Labels
and annotations are those that a plugin's own code names, so that it has something to look at.
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
from eventsched.domain.records.logged import Logged
from eventsched.domain.units import SECOND
from eventsched.plugins import IN_TREE
from eventsched.runtime.assembly import assembled
from eventsched.scheduling.config import configuration

NAME = "a generated history"
NODES, STEPS = 20, 80
_GIB = 1024**3
_MOST_WORDS = 12
_ZONE, _HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_VALUES = ("a", "b", "1", "20", "true")


def words_of(module: ModuleType | None) -> list[str]:
    """The texts in a module's code that may be keys or values of labels: the first ones of those
    with a slash, then the others."""
    try:
        tree = ast.parse(inspect.getsource(module)) if module is not None else ast.parse("")
    except (OSError, TypeError, SyntaxError):
        return []
    told = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    found = [
        each.value
        for each in ast.walk(tree)
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in told
    ]
    plain = [each for each in dict.fromkeys(found) if each and not set(each) & set(" \n{}()%,;:'")]
    short = [each for each in plain if len(each) <= 63]
    return sorted(short, key=lambda each: "/" not in each)[:_MOST_WORDS]


def rehearsed(words: Sequence[str]) -> list[Logged]:
    """The records of the history. ``words`` stand in it as keys and values of labels and
    annotations, on some nodes and pods."""
    return _Rehearsal(words).run()


class _Rehearsal:
    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._draw = random.Random(7)  # a fixed seed: the history is always the same
        loaded = configuration.default()
        self._engine = assembled(loaded, NAME, IN_TREE).engine(with_detail=False)
        self._log: list[Logged] = []
        self._nodes: dict[str, Node] = {}
        self._pods: dict[str, Pod] = {}
        self._made = 0

    def run(self) -> list[Logged]:
        started = records.StreamStarted(
            format=records.FORMAT, engine="", seed="rehearsal", flags=CURRENT
        )
        self._observe(started, 0)
        for number in range(NODES):
            self._join(f"node-{number:02}", 0)
        for step in range(STEPS):
            now = (step + 1) * SECOND
            self._arrive(now)
            self._arrive(now)
            self._happen(now)
            self._schedule(now)
        return self._log

    # --- what happens ---------------------------------------------------------------------

    def _arrive(self, now: int) -> None:
        """A new pod; sometimes one that comes back under its name."""
        gone = [f"pod-{n:03}" for n in range(self._made) if not self._is_there(f"pod-{n:03}")]
        if gone and self._draw.random() < 0.3:
            name = self._draw.choice(gone)
        else:
            name, self._made = f"pod-{self._made:03}", self._made + 1
        requests = {
            CPU: self._draw.choice((250, 500, 1000, 3000, 9000)),
            MEMORY: self._draw.choice((1, 2, 4)) * _GIB,
        }
        pod = Pod(
            uid=f"{name}-{now}",
            name=name,
            labels={"app": self._draw.choice(("web", "db")), **self._marks()},
            annotations=self._marks(),
            priority=self._draw.choice((0, 0, 10)),
            created_at=now,
            spec=PodSpec(containers=(Container(requests=requests),)),
        )
        self._pods[pod.uid] = pod
        self._observe(records.PodAdded(pod=pod), now)

    def _happen(self, now: int) -> None:
        """One change of the cluster."""
        chances = (
            self._mark_node, self._mark_node, self._mark_node, self._note_node, self._taint,
            self._resize, self._cordon, self._leave, self._come, self._end_pod, self._end_pod,
            self._mark_pod, self._mark_pod,
        )  # fmt: skip
        self._draw.choice(chances)(now)

    def _mark_node(self, now: int) -> None:
        node = self._some_node()
        kept = {key: node.labels[key] for key in (_ZONE, _HOST)}
        self._change(node, now, labels={**kept, **self._marks()})

    def _note_node(self, now: int) -> None:
        self._change(self._some_node(), now, annotations=self._marks())

    def _taint(self, now: int) -> None:
        node = self._some_node()
        taint = Taint(key=self._draw.choice((*self._words, "dedicated")), effect="NoSchedule")
        self._change(node, now, taints=() if node.taints else (taint,))

    def _resize(self, now: int) -> None:
        node = self._some_node()
        cpu = self._draw.choice((2000, 4000, 8000))
        self._change(node, now, allocatable={**node.allocatable, CPU: cpu})

    def _cordon(self, now: int) -> None:
        node = self._some_node()
        self._change(node, now, unschedulable=not node.unschedulable)

    def _leave(self, now: int) -> None:
        node = self._some_node()
        del self._nodes[node.name]
        self._observe(records.NodeDeleted(name=node.name), now)

    def _come(self, now: int) -> None:
        gone = [f"node-{n:02}" for n in range(NODES) if f"node-{n:02}" not in self._nodes]
        self._join(gone[0] if gone else f"node-{NODES}", now)

    def _end_pod(self, now: int) -> None:
        bound = [uid for uid in self._pods if self._engine.state.pods[uid].bound]
        if bound:
            uid = self._draw.choice(bound)
            del self._pods[uid]
            self._observe(records.PodDeleted(uid=uid), now)

    def _mark_pod(self, now: int) -> None:
        waiting = [uid for uid in self._pods if not self._engine.state.pods[uid].bound]
        if waiting:
            pod = self._engine.state.pods[self._draw.choice(waiting)].pod
            labels = {"app": pod.labels["app"], **self._marks()}
            changed = msgspec.structs.replace(pod, labels=labels, annotations=self._marks())
            self._pods[pod.uid] = changed
            self._observe(records.PodUpdated(pod=changed), now)

    # --- how ------------------------------------------------------------------------------

    def _marks(self) -> dict[str, str]:
        values = (*_VALUES, *self._words)
        chosen = [word for word in self._words if self._draw.random() < 0.5]
        return {word: self._draw.choice(values) for word in chosen}

    def _some_node(self) -> Node:
        return self._nodes[self._draw.choice(sorted(self._nodes))]

    def _is_there(self, name: str) -> bool:
        return any(pod.name == name for pod in self._pods.values())

    def _join(self, name: str, now: int) -> None:
        zone = f"zone-{'abc'[len(self._nodes) % 3]}"
        labels = {_ZONE: zone, _HOST: name, **self._marks()}
        room = {CPU: 4000, MEMORY: 16 * _GIB, PODS: 110}
        node = Node(name=name, labels=labels, annotations=self._marks(), allocatable=room)
        self._nodes[name] = node
        self._observe(records.NodeAdded(node=node), now)

    def _change(self, node: Node, now: int, **fields: object) -> None:
        changed = msgspec.structs.replace(node, **fields)
        self._nodes[node.name] = changed
        self._observe(records.NodeUpdated(node=changed), now)

    def _schedule(self, now: int) -> None:
        """Attempts, and binds that succeed at once. Evictions are left open: nobody has to go."""
        due = self._engine.due
        if due is not None and due <= now:
            self._observe(records.TimePassed(), now)
        while logged := self._engine.schedule_next():
            self._log += logged
            for each in logged:
                record = each.record
                if isinstance(record, PodDecided) and record.outcome is Outcome.SCHEDULED:
                    self._observe(records.BindSucceeded(uid=record.uid, node=record.node), now)

    def _observe(self, stimulus: Stimulus, now: int) -> None:
        self._log += self._engine.observe(stimulus, now)
