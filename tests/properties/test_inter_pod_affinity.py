"""InterPodAffinity over columns and counts that follow each placement says what upstream's rules
say of the pods that are there, counted anew; also of rows with pods more or less.

An engine is driven through seeded random steps; after each some pod is judged. AFFINITY_STEPS sets
how many steps are made in all.
"""

import os
import random
from collections.abc import Iterator

import msgspec
import numpy as np
import pytest

from eventsched.domain import records
from eventsched.domain.objects import (
    AffinityTerm,
    Node,
    Pod,
    PodSpec,
    Requirement,
    Selector,
    WeightedAffinityTerm,
)
from eventsched.domain.records import Stimulus
from eventsched.domain.registry import Namespace
from eventsched.domain.views import NodeView, PodStep, TrialView
from eventsched.plugins.inter_pod_affinity import InterPodAffinity
from eventsched.scheduling.config.pluginargs import InterPodAffinityArgs
from eventsched.scheduling.framework import Code, Cycle
from tests.builders import engine_of, make_node

from . import naive_affinity as naive

STEPS = int(os.environ.get("AFFINITY_STEPS", "10000"))
RUNS = 20
NODES = [f"n{number}" for number in range(9)]
NAMESPACES = ["default", "other", "third", "unknown"]
KINDS = [
    "node", "node", "node gone", "bound pod", "bound pod", "bound pod", "pod", "pod", "pod",
    "labels", "deleting", "spec", "gone", "outcome", "outcome", "namespace", "time",
]  # fmt: skip
PODS = 30
"""Where there are more, some go first."""


class World:
    """An engine, and what may happen to it."""

    def __init__(self, seed: int) -> None:
        self.random = r = random.Random(seed)
        args = InterPodAffinityArgs(
            hard_pod_affinity_weight=r.choice([0, 1, 1, 7]),
            ignore_preferred_terms_of_existing_pods=r.random() < 0.3,
        )
        self.plugin = InterPodAffinity(args)
        self.args = args
        self.engine = engine_of(self.plugin)
        self.state = self.engine.state
        self.specs = [PodSpec()] + [self._spec() for _ in range(15)]
        self.now, self.born = 0, 0

    # --- values ---------------------------------------------------------------------------

    def _spec(self) -> PodSpec:
        def terms(chance: float) -> tuple[AffinityTerm, ...]:
            number = self.random.choice([1, 1, 1, 2, 3]) if self.random.random() < chance else 0
            return tuple(self._term() for _ in range(number))

        def weighted() -> tuple[WeightedAffinityTerm, ...]:
            weight = self.random.randint(1, 100)
            return tuple(WeightedAffinityTerm(weight=weight, term=each) for each in terms(0.4))

        return PodSpec(
            required_affinity=terms(0.35),
            required_anti_affinity=terms(0.35),
            preferred_affinity=weighted(),
            preferred_anti_affinity=weighted(),
        )

    def _term(self) -> AffinityTerm:
        r = self.random
        namespaces: tuple[str, ...] = ()
        selector: Selector = None
        if r.random() < 0.4:
            namespaces = tuple(r.sample(NAMESPACES, r.randint(0, 2)))
        if r.random() < 0.3:
            selector = r.choice([(), self._selector("team", ["red", "blue"]), ()])
        return AffinityTerm(
            topology_key=r.choice(["host", "zone", "zone", "disk", "absent"]),
            selector=None if r.random() < 0.05 else self._selector("app", ["a", "b"]),
            namespaces=namespaces,
            namespace_selector=selector,
        )

    def _selector(self, key: str, values: list[str]) -> Selector:
        r = self.random
        if r.random() < 0.02:
            odd = [("Near", ()), ("In", ()), ("Exists", ("a",)), ("NotIn", ())]
            operator, given = r.choice(odd)
            return (Requirement(key=key, operator=operator, values=given),)
        found = []
        for _ in range(r.choice([0, 1, 1, 1, 2])):
            operator = r.choice(["In", "In", "NotIn", "Exists", "DoesNotExist"])
            few = tuple(r.sample(values, r.randint(1, 2))) if operator.endswith("In") else ()
            found.append(Requirement(key=key, operator=operator, values=few))
        return tuple(found)

    def _labels(self) -> dict[str, str]:
        pairs = {"app": self.random.choice(["a", "b", "c"]), "tier": "x"}
        return {key: value for key, value in pairs.items() if self.random.random() < 0.8}

    def pod(self, **fields: object) -> Pod:
        """A new one."""
        self.born += 1
        uid = f"p{self.born}"
        filled = {"labels": self._labels(), "namespace": self.random.choice(NAMESPACES),
                  "spec": self.random.choice(self.specs), **fields}  # fmt: skip
        return Pod(uid=uid, name=uid, **filled)

    def _node(self, name: str) -> Node:
        r = self.random
        pairs = {"host": name, "zone": r.choice("xyz"), "disk": r.choice(["ssd", "hdd"])}
        labels = {key: value for key, value in pairs.items() if r.random() < 0.85}
        return make_node(name, labels=labels)

    # --- steps ----------------------------------------------------------------------------

    def step(self) -> None:
        """Something happens; then perhaps an attempt is made."""
        for stimulus in self._happening():
            self.engine.observe(stimulus, self.now)
        if self.random.random() < 0.5:
            self.engine.schedule_next()

    def _happening(self) -> Iterator[Stimulus]:
        r, pods = self.random, list(self.state.pods)
        kind = r.choice(KINDS)
        if len(pods) > PODS:
            kind = "gone"
        if kind == "node":
            yield records.NodeUpdated(node=self._node(r.choice(NODES)))
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
            change = {"labels": self._labels(), "deleting": True, "spec": r.choice(self.specs)}
            yield records.PodUpdated(pod=msgspec.structs.replace(pod, **{kind: change[kind]}))
        elif kind == "outcome" and self.state.reservations:
            uid = r.choice(list(self.state.reservations))
            node = self.state.reservations[uid].node
            if r.random() < 0.8:
                yield records.BindSucceeded(uid=uid, node=node)
            else:
                yield records.BindFailed(uid=uid, node=node, message="no")
        elif kind == "namespace":
            name = r.choice(NAMESPACES[:3])
            if r.random() < 0.2 and self.state.registry.get(Namespace, name):
                yield records.ObjectDeleted(type="Namespace", name=name)
            else:
                labels = {"team": r.choice(["red", "blue"])} if r.random() < 0.8 else {}
                yield records.ObjectChanged(object=Namespace(name=name, labels=labels))
        elif kind == "time":
            self.now += 12_000_000
            yield records.TimePassed()

    def seen(self) -> naive.World:
        """The cluster without any counts."""
        table = self.state.nodes
        pods: dict[int, list[Pod]] = {}
        for each in self.state.pods.values():
            if each.row >= 0:
                pods.setdefault(each.row, []).append(each.pod)
        places = [(table.nodes[row], pods.get(row, [])) for row in table.rows.values()]
        namespaces = self.state.registry.all(Namespace).values()
        return naive.World(places, {each.name: each.labels for each in namespaces})

    # --- comparisons ----------------------------------------------------------------------

    def check(self) -> None:
        """A pod's verdicts and scores, here and there."""
        pod, args = self.pod(), self.args
        theirs = naive.Attempt(
            self.seen(), pod,
            args.hard_pod_affinity_weight, args.ignore_preferred_terms_of_existing_pods,
        )  # fmt: skip
        cycle = Cycle(now=0, seed="", registry=self.state.registry)
        answer = self.plugin.pre_filter(cycle, pod, NodeView(self.state.nodes))
        if theirs.pre_filter == naive.MALFORMED:
            assert answer.code is Code.UNRESOLVABLE
            assert answer.reasons[0].startswith("parsing pod: ")
        elif theirs.pre_filter == naive.SKIP:
            assert answer.code is Code.SKIP
        else:
            assert answer is None
            self._check_verdicts(cycle, pod, theirs)
            self._check_trial(cycle, pod, theirs)
        self._check_scores(cycle, pod, theirs)
        owners = [other for _, pods in theirs.world.places for other in pods]
        owning = any(naive.info_of(other).has_terms for other in owners)
        assert self.state.nodes.tallies.owning == owning

    def _live(self) -> list[int]:
        return list(self.state.nodes.rows.values())

    def _words(self, cycle: Cycle, pod: Pod, codes: np.ndarray | None, rows: int) -> list[str]:
        found = [0] * rows if codes is None else codes.tolist()
        statuses = [self.plugin.explain(cycle, pod, code) if code else None for code in found]
        for each in statuses:
            code = Code.UNRESOLVABLE if each and naive.AFFINITY in each.reasons else None
            assert each is None or each.code is (code or Code.UNSCHEDULABLE)
        return [each.reasons[0] if each else "" for each in statuses]

    def _check_verdicts(self, cycle: Cycle, pod: Pod, theirs: naive.Attempt) -> None:
        table, live = self.state.nodes, self._live()
        some = sorted(self.random.sample(live, len(live) // 2))
        whole = self.plugin.filter(cycle, pod, NodeView(table))
        words = self._words(cycle, pod, whole, table.size)
        assert [words[row] for row in live] == [theirs.refusal(table.nodes[row]) for row in live]
        part = self.plugin.filter(cycle, pod, NodeView(table, np.array(some, dtype=np.intp)))
        assert self._words(cycle, pod, part, len(some)) == [words[row] for row in some]

    def _check_trial(self, cycle: Cycle, pod: Pod, theirs: naive.Attempt) -> None:
        r, table, live = self.random, self.state.nodes, self._live()
        rows = sorted(r.sample(live, len(live) // 2 + 1)) if live else []
        tried: list[list[tuple[Pod, int]]] = []
        for row in rows:
            leaving = [each for each in table.residents[row].values() if r.random() < 0.5]
            steps = [(each, -1) for each in leaving]
            steps += [(self.pod(), 1) for _ in range(r.choice([0, 0, 1, 2]))]
            tried.append(steps)
        flat = [PodStep(at, other, sign) for at, steps in enumerate(tried) for other, sign in steps]
        view = TrialView(table, np.array(rows, dtype=np.intp), flat)
        words = self._words(cycle, pod, self.plugin.filter(cycle, pod, view), len(rows))
        assert words == [
            theirs.tried(table.nodes[row], steps)
            for row, steps in zip(rows, tried, strict=True)
        ]  # fmt: skip

    def _check_scores(self, cycle: Cycle, pod: Pod, theirs: naive.Attempt) -> None:
        table, live = self.state.nodes, self._live()
        rows = sorted(self.random.sample(live, (len(live) + 1) // 2))
        view = NodeView(table, np.array(rows, dtype=np.intp))
        answer, worth = self.plugin.pre_score(cycle, pod, view), theirs.worth()
        if worth == naive.MALFORMED:
            assert answer.code is Code.ERROR
        elif worth == naive.SKIP:
            assert answer.code is Code.SKIP
        else:
            assert answer is None
            found = self.plugin.score(cycle, pod, view).tolist()
            assert found == [naive.score(worth, table.nodes[row]) for row in rows]


@pytest.mark.parametrize("seed", range(RUNS))
def test_columns_say_what_the_rules_say(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS // RUNS):
        world.step()
        world.check()
