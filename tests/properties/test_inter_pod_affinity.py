"""InterPodAffinity over columns and counts that follow each placement says what upstream's rules
say about the pods that are there, counted again; also of rows with pods more or less.

An engine is driven through seeded random steps; after each some pod is judged. AFFINITY_STEPS sets
how many steps are made in all.
"""

import os
import random
from typing import Any

import numpy as np
import pytest

from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import (
    AffinityTerm,
    Node,
    Pod,
    PodSpec,
    Selector,
    WeightedAffinityTerm,
)
from eventsched.domain.objects.registry import Namespace
from eventsched.plugins.inter_pod_affinity import InterPodAffinity
from eventsched.scheduling.config.pluginargs import InterPodAffinityArgs
from eventsched.scheduling.framework import Code, Cycle
from tests.builders import make_node

from . import naive_affinity as naive
from .neighbourhood import Neighbourhood

STEPS = int(os.environ.get("AFFINITY_STEPS", "10000"))
RUNS = 20
NAMESPACES = ["default", "other", "third", "unknown"]


class World(Neighbourhood):
    """An engine with InterPodAffinity."""

    unresolvable = naive.AFFINITY

    def __init__(self, seed: int) -> None:
        r = random.Random(seed)
        self.args = InterPodAffinityArgs(
            hard_pod_affinity_weight=r.choice([0, 1, 1, 7]),
            ignore_preferred_terms_of_existing_pods=r.random() < 0.3,
        )
        super().__init__(r, InterPodAffinity(self.args), specs=15)

    # --- values ---------------------------------------------------------------------------

    def spec(self) -> PodSpec:
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
            selector = r.choice([(), self.selector(["team"], ["red", "blue"]), ()])
        return AffinityTerm(
            topology_key=r.choice(["host", "zone", "zone", "disk", "absent"]),
            selector=None if r.random() < 0.05 else self.selector(["app"], ["a", "b"]),
            namespaces=namespaces,
            namespace_selector=selector,
        )

    def labels(self) -> dict[str, str]:
        pairs = {"app": self.random.choice(["a", "b", "c"]), "tier": "x"}
        return {key: value for key, value in pairs.items() if self.random.random() < 0.8}

    def pod(self, **fields: object) -> Pod:
        return self.new_pod(**{"namespace": self.random.choice(NAMESPACES), **fields})

    def node(self, name: str) -> Node:
        r = self.random
        pairs = {"host": name, "zone": r.choice("xyz"), "disk": r.choice(["ssd", "hdd"])}
        labels = {key: value for key, value in pairs.items() if r.random() < 0.85}
        return make_node(name, labels=labels)

    def an_object(self) -> Namespace:
        r = self.random
        labels = {"team": r.choice(["red", "blue"])} if r.random() < 0.8 else {}
        return Namespace(name=r.choice(NAMESPACES[:3]), labels=labels)

    # --- comparisons ----------------------------------------------------------------------

    def check(self) -> None:
        """A pod's verdicts and scores, here and there."""
        pod, args, cycle = self.pod(), self.args, self.cycle()
        namespaces = self.state.registry.all(Namespace).values()
        world = naive.World(self.places(), {each.name: each.labels for each in namespaces})
        theirs = naive.Attempt(
            world, pod,
            args.hard_pod_affinity_weight, args.ignore_preferred_terms_of_existing_pods,
        )  # fmt: skip
        answer = self.plugin.pre_filter(cycle, pod, NodeView(self.state.nodes))
        if theirs.pre_filter == naive.MALFORMED:
            assert answer.code is Code.UNRESOLVABLE
            assert answer.reasons[0].startswith("parsing pod: ")
        elif theirs.pre_filter == naive.SKIP:
            assert answer.code is Code.SKIP
        else:
            assert answer is None
            self.check_refusals(cycle, pod, theirs.tried)
        self._check_scores(cycle, pod, theirs)
        owners = [other for _, pods in world.places for other in pods]
        owning = any(naive.info_of(other).has_terms for other in owners)
        assert self.state.nodes.tallies.owning == owning

    def _check_scores(self, cycle: Cycle, pod: Pod, theirs: naive.Attempt) -> None:
        live = self.live()
        rows = sorted(self.random.sample(live, (len(live) + 1) // 2))
        view = NodeView(self.state.nodes, np.array(rows, dtype=np.intp))
        answer = self.plugin.pre_score(cycle, pod, view)
        worth: Any = theirs.worth()
        if worth == naive.MALFORMED:
            assert answer.code is Code.ERROR
        elif worth == naive.SKIP:
            assert answer.code is Code.SKIP
        else:
            assert answer is None
            found = self.plugin.score(cycle, pod, view).tolist()
            assert found == [naive.score(worth, self.at(row)) for row in rows]


@pytest.mark.parametrize("seed", range(RUNS))
def test_columns_say_what_the_rules_say(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS // RUNS):
        world.step()
        world.check()
