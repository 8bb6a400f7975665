"""PodTopologySpread over columns and counts that follow each placement says what upstream's rules
say of the pods that are there, counted anew; also of rows with pods more or less.

An engine is driven through seeded random steps; after each some pod is judged. SPREAD_STEPS sets
how many steps are made in all.
"""

import os
import random
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest

from eventsched.domain import records
from eventsched.domain.objects import (
    Node,
    NodeSelectorTerm,
    Owner,
    Pod,
    PodSpec,
    Requirement,
    Selector,
    SpreadConstraint,
    Taint,
    Toleration,
)
from eventsched.domain.records import Stimulus
from eventsched.domain.registry import (
    ClusterObject,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from eventsched.domain.verdicts import IGNORED
from eventsched.domain.views import NodeView, PodStep, TrialView
from eventsched.plugins.pod_topology_spread import PodTopologySpread
from eventsched.scheduling.config.pluginargs import DefaultConstraint, PodTopologySpreadArgs
from eventsched.scheduling.framework import Code, Cycle
from tests.builders import engine_of, make_node

from . import naive_spread as naive

STEPS = int(os.environ.get("SPREAD_STEPS", "10000"))
RUNS = 20
NODES = [f"n{number}" for number in range(9)]
NAMESPACES = ["default", "default", "other"]
KEYS = [naive.ZONE, naive.ZONE, naive.HOSTNAME, "disk", "absent"]
SETS = {"ReplicaSet": ReplicaSet, "StatefulSet": StatefulSet, "RC": ReplicationController}
KINDS = [
    "node", "node", "node gone", "bound pod", "bound pod", "bound pod", "pod", "pod", "pod",
    "labels", "deleting", "spec", "gone", "outcome", "outcome", "object", "time",
]  # fmt: skip
PODS = 30
"""Where there are more, some go first."""


class World:
    """An engine, and what may happen to it."""

    def __init__(self, seed: int) -> None:
        self.random = r = random.Random(seed)
        self.defaults: tuple[SpreadConstraint, ...] = naive.SYSTEM
        args = None
        if r.random() < 0.5:
            listed = tuple(self._default() for _ in range(r.randint(0, 3)))
            unlike = {(each.topology_key, each.when_unsatisfiable): each for each in listed}
            args = PodTopologySpreadArgs(
                default_constraints=tuple(unlike.values()), defaulting_type="List"
            )
            self.defaults = tuple(
                SpreadConstraint(
                    max_skew=each.max_skew, topology_key=each.topology_key,
                    when_unsatisfiable=each.when_unsatisfiable, min_domains=each.min_domains,
                    node_taints_policy=each.node_taints_policy or "Ignore",
                )
                for each in unlike.values()
            )  # fmt: skip
        self.plugin = PodTopologySpread(args)
        self.engine = engine_of(self.plugin)
        self.state = self.engine.state
        self.specs = [PodSpec()] + [self._spec() for _ in range(20)]
        self.now, self.born = 0, 0

    # --- values ---------------------------------------------------------------------------

    def _default(self) -> DefaultConstraint:
        r = self.random
        return DefaultConstraint(
            max_skew=r.randint(1, 3), topology_key=r.choice(KEYS),
            when_unsatisfiable=r.choice([naive.HARD, naive.SOFT]),
            min_domains=r.choice([None, None, 2]), node_taints_policy=r.choice([None, "Honor"]),
        )  # fmt: skip

    def _spec(self) -> PodSpec:
        r = self.random
        number = r.choice([0, 1, 1, 1, 2, 2, 3])
        on_zone = Requirement(key=naive.ZONE, operator=r.choice(["Exists", "DoesNotExist"]))
        tolerated = Toleration(key="k", operator="Exists", effect=r.choice(["", "NoSchedule"]))
        return PodSpec(
            spread=tuple(self._constraint() for _ in range(number)),
            node_selector={"disk": r.choice(["ssd", "hdd"])} if r.random() < 0.2 else {},
            required_node_terms=(NodeSelectorTerm(expressions=(on_zone,)),)
            if r.random() < 0.2
            else None,
            tolerations=(tolerated,) if r.random() < 0.3 else (),
        )

    def _constraint(self) -> SpreadConstraint:
        r = self.random
        hard = r.random() < 0.6
        when = naive.HARD if hard else naive.SOFT
        return SpreadConstraint(
            max_skew=r.choice([0, 1, 1, 2]) if hard else r.choice([1, 1, 2, 4]),
            topology_key=r.choice(KEYS),
            when_unsatisfiable=when if r.random() < 0.97 else "Never",
            selector=None if r.random() < 0.05 else self._selector(),
            min_domains=r.choice([None, None, None, 0, 1, 2, 3, 4]),
            node_affinity_policy=r.choice(["Honor", "Honor", "Ignore"]),
            node_taints_policy=r.choice(["Ignore", "Honor"]),
            match_label_keys=tuple(r.sample(["app", "tier", "none"], r.choice([0, 0, 0, 1, 2]))),
        )

    def _selector(self) -> Selector:
        r = self.random
        if r.random() < 0.02:
            odd = [("Near", ()), ("In", ()), ("Exists", ("a",)), ("NotIn", ())]
            operator, given = r.choice(odd)
            return (Requirement(key="app", operator=operator, values=given),)
        found = []
        for _ in range(r.choice([0, 1, 1, 1, 2])):
            operator = r.choice(["In", "In", "NotIn", "Exists", "DoesNotExist"])
            few = tuple(r.sample(["a", "b"], r.randint(1, 2))) if operator.endswith("In") else ()
            found.append(Requirement(key=r.choice(["app", "tier"]), operator=operator, values=few))
        return tuple(found)

    def _labels(self) -> dict[str, str]:
        pairs = {"app": self.random.choice(["a", "b", "c"]), "tier": self.random.choice("ab")}
        return {key: value for key, value in pairs.items() if self.random.random() < 0.7}

    def pod(self, **fields: object) -> Pod:
        """A new one."""
        r = self.random
        self.born += 1
        uid = f"p{self.born}"
        owner = None
        if r.random() < 0.5:
            kind = r.choice(["ReplicaSet", "StatefulSet", "ReplicationController", "Job"])
            owner = Owner(kind=kind, name=r.choice(["s1", "s2"]), foreign=r.random() < 0.1)
        filled = {"labels": self._labels(), "namespace": r.choice(NAMESPACES), "owner": owner,
                  "spec": r.choice(self.specs), **fields}  # fmt: skip
        return Pod(uid=uid, name=uid, **filled)  # type: ignore[arg-type]

    def _node(self, name: str) -> Node:
        r = self.random
        pairs = {
            naive.HOSTNAME: name,
            naive.ZONE: r.choice(["x", "y", "z", ""]),
            "disk": r.choice(["ssd", "hdd"]),
        }
        labels = {key: value for key, value in pairs.items() if r.random() < 0.9}
        effect = r.choice(["NoSchedule", "NoExecute", "PreferNoSchedule"])
        taints = (Taint(key="k", effect=effect),) if r.random() < 0.25 else ()
        return make_node(name, labels=labels, taints=taints)

    def _object(self) -> ClusterObject:
        r, namespace = self.random, self.random.choice(NAMESPACES)
        if r.random() < 0.5:
            selector = r.choice([{"app": "a"}, {"app": "b", "tier": "a"}, {"tier": "b"}, {}])
            return Service(name=r.choice("stu"), namespace=namespace, selector=selector)
        kind: Any = r.choice(list(SETS.values()))
        found = self._selector() if r.random() < 0.9 else None
        if kind is ReplicationController:
            found = (Requirement(key="app", operator="In", values=(r.choice("ab"),)),)
        return kind(name=r.choice(["s1", "s2"]), namespace=namespace, selector=found)  # type: ignore[no-any-return]

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
        elif kind == "object":
            made = self._object()
            known = self.state.registry.get(type(made), made.name, made.namespace) is not None
            if known and r.random() < 0.3:
                named = {"namespace": made.namespace, "name": made.name}
                yield records.ObjectDeleted(type=type(made).__name__, **named)
            else:
                yield records.ObjectChanged(object=made)
        elif kind == "time":
            self.now += 12_000_000
            yield records.TimePassed()

    def seen(self) -> naive.World:
        """The cluster without any counts."""
        table, registry = self.state.nodes, self.state.registry
        pods: dict[int, list[Pod]] = {}
        for each in self.state.pods.values():
            if each.row >= 0:
                pods.setdefault(each.row, []).append(each.pod)
        places = [(self._at(row), pods.get(row, [])) for row in table.rows.values()]
        sets: list[Any] = [each for kind in SETS.values() for each in registry.all(kind).values()]
        return naive.World(places, list(registry.all(Service).values()), sets)

    def _at(self, row: int) -> Node:
        node = self.state.nodes.nodes[row]
        assert node is not None
        return node

    # --- comparisons ----------------------------------------------------------------------

    def check(self) -> None:
        """A pod's verdicts and scores, here and there."""
        pod = self.pod()
        theirs = naive.Attempt(self.seen(), pod, self.defaults)
        cycle = Cycle(now=0, seed="", registry=self.state.registry)
        signed = self.plugin.sign(pod) is not None
        answer = self.plugin.pre_filter(cycle, pod, NodeView(self.state.nodes))
        try:
            hard = theirs.constraints(naive.HARD)
        except naive.MalformedError:
            assert answer is not None
            assert answer.code is Code.ERROR
            begun = "get constraints from pod: obtaining pod's hard topology spread constraints: "
            assert answer.reasons[0].startswith(begun)
        else:
            if hard:
                assert answer is None
                self._check_verdicts(cycle, pod, theirs)
                self._check_trial(cycle, pod, theirs)
            else:
                assert answer is not None
                assert answer.code is Code.SKIP
            assert not (signed and hard)
        self._check_scores(cycle, pod, theirs, signed=signed)

    def _live(self) -> list[int]:
        return list(self.state.nodes.rows.values())

    def _words(self, cycle: Cycle, pod: Pod, codes: Any, rows: int) -> list[str]:
        found = [0] * rows if codes is None else codes.tolist()
        words = []
        for code in found:
            status = self.plugin.explain(cycle, pod, code) if code else None
            if status is not None:
                missing = status.reasons == (naive.MISSING,)
                assert status.code is (Code.UNRESOLVABLE if missing else Code.UNSCHEDULABLE)
            words.append(status.reasons[0] if status else "")
        return words

    def _check_verdicts(self, cycle: Cycle, pod: Pod, theirs: naive.Attempt) -> None:
        table, live = self.state.nodes, self._live()
        some = sorted(self.random.sample(live, len(live) // 2))
        whole = self.plugin.filter(cycle, pod, NodeView(table))
        words = self._words(cycle, pod, whole, table.size)
        assert [words[row] for row in live] == [theirs.refusals(self._at(row)) for row in live]
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
            theirs.refusals(self._at(row), steps) for row, steps in zip(rows, tried, strict=True)
        ]

    def _check_scores(self, cycle: Cycle, pod: Pod, theirs: naive.Attempt, *, signed: bool) -> None:
        live = self._live()
        rows = sorted(self.random.sample(live, self.random.choice([len(live), len(live) // 2])))
        view = NodeView(self.state.nodes, np.array(rows, dtype=np.intp))
        answer = self.plugin.pre_score(cycle, pod, view)
        try:
            soft = theirs.constraints(naive.SOFT)
        except naive.MalformedError:
            assert answer is not None
            assert answer.code is Code.ERROR
            return
        if not soft:
            assert answer is not None
            assert answer.code is Code.SKIP
            return
        assert answer is None
        assert not signed
        if rows:
            found = self.plugin.score(cycle, pod, view).tolist()
            expected = theirs.scores([self._at(row) for row in rows])
            assert found == [IGNORED if each is None else each for each in expected]


@pytest.mark.parametrize("seed", range(RUNS))
def test_columns_say_what_the_rules_say(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS // RUNS):
        world.step()
        world.check()
