"""PodTopologySpread over columns and counts that follow each placement says what upstream's rules
say about the pods that are there, counted again; also of rows with pods more or less.

An engine is driven through seeded random steps; after each some pod is judged. SPREAD_STEPS sets
how many steps are made in all.
"""

import os
import random
from typing import Any

import numpy as np
import pytest

from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import (
    Node,
    NodeSelectorTerm,
    Owner,
    Pod,
    PodSpec,
    Requirement,
    SpreadConstraint,
    Taint,
    Toleration,
)
from eventsched.domain.objects.registry import (
    ClusterObject,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from eventsched.domain.records.verdicts import IGNORED
from eventsched.plugins.pod_topology_spread import PodTopologySpread
from eventsched.scheduling.config.pluginargs import DefaultConstraint, PodTopologySpreadArgs
from eventsched.scheduling.framework import Code, Cycle
from tests.builders import make_node

from . import naive_spread as naive
from .naive_selectors import MalformedError
from .neighbourhood import Neighbourhood

STEPS = int(os.environ.get("SPREAD_STEPS", "10000"))
RUNS = 20
NAMESPACES = ["default", "default", "other"]
KEYS = [naive.ZONE, naive.ZONE, naive.HOSTNAME, "disk", "absent"]
SETS = {"ReplicaSet": ReplicaSet, "StatefulSet": StatefulSet, "RC": ReplicationController}


class World(Neighbourhood):
    """An engine with PodTopologySpread."""

    unresolvable = naive.MISSING

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
        super().__init__(r, PodTopologySpread(args), specs=20)

    # --- values ---------------------------------------------------------------------------

    def _default(self) -> DefaultConstraint:
        r = self.random
        return DefaultConstraint(
            max_skew=r.randint(1, 3), topology_key=r.choice(KEYS),
            when_unsatisfiable=r.choice([naive.HARD, naive.SOFT]),
            min_domains=r.choice([None, None, 2]), node_taints_policy=r.choice([None, "Honor"]),
        )  # fmt: skip

    def spec(self) -> PodSpec:
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
            selector=None if r.random() < 0.05 else self.selector(["app", "tier"], ["a", "b"]),
            min_domains=r.choice([None, None, None, 0, 1, 2, 3, 4]),
            node_affinity_policy=r.choice(["Honor", "Honor", "Ignore"]),
            node_taints_policy=r.choice(["Ignore", "Honor"]),
            match_label_keys=tuple(r.sample(["app", "tier", "none"], r.choice([0, 0, 0, 1, 2]))),
        )

    def labels(self) -> dict[str, str]:
        pairs = {"app": self.random.choice(["a", "b", "c"]), "tier": self.random.choice("ab")}
        return {key: value for key, value in pairs.items() if self.random.random() < 0.7}

    def pod(self, **fields: object) -> Pod:
        r = self.random
        owner = None
        if r.random() < 0.5:
            kind = r.choice(["ReplicaSet", "StatefulSet", "ReplicationController", "Job"])
            owner = Owner(kind=kind, name=r.choice(["s1", "s2"]), foreign=r.random() < 0.1)
        return self.new_pod(**{"namespace": r.choice(NAMESPACES), "owner": owner, **fields})

    def node(self, name: str) -> Node:
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

    def an_object(self) -> ClusterObject:
        r, namespace = self.random, self.random.choice(NAMESPACES)
        if r.random() < 0.5:
            selector = r.choice([{"app": "a"}, {"app": "b", "tier": "a"}, {"tier": "b"}, {}])
            return Service(name=r.choice("stu"), namespace=namespace, selector=selector)
        kind: Any = r.choice(list(SETS.values()))
        found = self.selector(["app", "tier"], ["a", "b"]) if r.random() < 0.9 else None
        if kind is ReplicationController:
            found = (Requirement(key="app", operator="In", values=(r.choice("ab"),)),)
        return kind(name=r.choice(["s1", "s2"]), namespace=namespace, selector=found)

    # --- comparisons ----------------------------------------------------------------------

    def check(self) -> None:
        """A pod's verdicts and scores, here and there."""
        pod, cycle, registry = self.pod(), self.cycle(), self.state.registry
        sets: list[Any] = [each for kind in SETS.values() for each in registry.all(kind).values()]
        world = naive.World(self.places(), list(registry.all(Service).values()), sets)
        theirs = naive.Attempt(world, pod, self.defaults)
        signed = self.plugin.sign(pod) is not None
        answer = self.plugin.pre_filter(cycle, pod, NodeView(self.state.nodes))
        try:
            hard = theirs.constraints(naive.HARD)
        except MalformedError:
            assert answer is not None
            assert answer.code is Code.ERROR
            begun = "get constraints from pod: obtaining pod's hard topology spread constraints: "
            assert answer.reasons[0].startswith(begun)
        else:
            if hard:
                assert answer is None
                self.check_refusals(cycle, pod, theirs.refusals)
            else:
                assert answer is not None
                assert answer.code is Code.SKIP
            assert not (signed and hard)
        self._check_scores(cycle, pod, theirs, signed=signed)

    def _check_scores(self, cycle: Cycle, pod: Pod, theirs: naive.Attempt, *, signed: bool) -> None:
        live = self.live()
        rows = sorted(self.random.sample(live, self.random.choice([len(live), len(live) // 2])))
        view = NodeView(self.state.nodes, np.array(rows, dtype=np.intp))
        answer = self.plugin.pre_score(cycle, pod, view)
        try:
            soft = theirs.constraints(naive.SOFT)
        except MalformedError:
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
            expected = theirs.scores([self.at(row) for row in rows])
            assert found == [IGNORED if each is None else each for each in expected]


@pytest.mark.parametrize("seed", range(RUNS))
def test_columns_say_what_the_rules_say(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS // RUNS):
        world.step()
        world.check()
