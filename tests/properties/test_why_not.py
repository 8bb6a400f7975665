"""The remedies of ``explain --why-not``: each works, and no part of one can be left out."""

import os
from collections import Counter
from collections.abc import Mapping

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from eventsched.domain.objects import (
    AffinityTerm,
    Node,
    Pod,
    PodSpec,
    Requirement,
    SpreadConstraint,
)
from eventsched.domain.records import PodDecided
from eventsched.domain.state import snapshot
from eventsched.history.why_not import changes
from eventsched.history.why_not.hypothesis import Hypothesis
from eventsched.history.why_not.search import remedies
from eventsched.scheduling.engine import Engine
from eventsched.testing import STREAM_STARTED, added, attempted, engine_with, observed

from . import strategies
from .strategies import deterministic

_EXAMPLES = int(os.environ.get("EVENTSCHED_EXAMPLES", "100"))
_app = st.sampled_from(["x", "y"])
_selector = _app.map(lambda app: (Requirement(key="app", operator="In", values=(app,)),))
_terms = st.lists(
    st.builds(AffinityTerm, topology_key=st.sampled_from(["zone", "disk"]), selector=_selector),
    max_size=1,
).map(tuple)
_spread = st.lists(
    st.builds(
        SpreadConstraint,
        max_skew=st.sampled_from([1, 2]),
        topology_key=st.sampled_from(["zone", "disk"]),
        selector=_selector,
    ),
    max_size=1,
).map(tuple)


@st.composite
def _cases(draw: st.DrawFn) -> tuple[list[Node], list[Pod], Pod, str]:
    """A cluster with bound pods, a pod, and a node."""
    names = strategies.NODE_NAMES[: draw(st.integers(2, 5))]
    nodes = [draw(strategies.roomy_nodes(name)) for name in names]
    shapes = draw(st.lists(strategies.simple_specs, min_size=1, max_size=3))
    bound = []
    for number in range(draw(st.integers(0, 12))):
        spec = draw(st.sampled_from(shapes))
        if draw(st.booleans()):
            spec = msgspec.structs.replace(spec, required_anti_affinity=draw(_terms))
        bound.append(_pod(f"b{number}", spec, draw(_app), draw(st.sampled_from(names))))
    spec = msgspec.structs.replace(
        draw(strategies.specs | strategies.simple_specs),
        required_affinity=draw(_terms),
        required_anti_affinity=draw(_terms),
        spread=draw(_spread),
    )
    return nodes, bound, _pod("p", spec, draw(_app)), draw(st.sampled_from(names))


def _pod(name: str, spec: PodSpec, app: str, node: str = "") -> Pod:
    priority = len(app) + ord(name[-1]) % 3
    return Pod(
        uid=name, name=name, spec=spec, labels={"app": app}, node_name=node, priority=priority
    )


def _engine(nodes: list[Node], bound: list[Pod], weights: Mapping[str, int]) -> Engine:
    engine = engine_with(weights=weights)
    observed(engine, STREAM_STARTED, *added(*nodes, *bound))
    return engine


def _placed_on(engine: Engine, pod: Pod) -> str:
    """The node on which the scheduler places a pod."""
    observed(engine, *added(pod))
    [decided] = [record for record in attempted(engine) if isinstance(record, PodDecided)]
    return decided.node


def test_each_remedy_works_and_no_part_can_be_left_out() -> None:
    """`make test-examples`, which runs each night, tries EXAMPLES=1000."""
    ends: Counter[str] = Counter()

    @deterministic(_EXAMPLES)
    @given(_cases())
    def proved(case: tuple[list[Node], list[Pod], Pod, str]) -> None:
        nodes, bound, pod, name = case

        def make_engine(weights: Mapping[str, int]) -> Engine:
            return _engine(nodes, bound, weights)

        unchanged = make_engine({})
        digest = unchanged.state.digest()

        def copied_engine(weights: Mapping[str, int]) -> Engine:
            engine = engine_with(weights=weights)
            engine.restore(snapshot.copied(unchanged.state), unchanged.position)
            return engine

        # As for a question about the past: engines with changes are copies of one state.
        found = remedies(Hypothesis(copied_engine, pod, name, unchanged))
        assert unchanged.state.digest() == digest
        for remedy in found:
            if remedy.stuck is not None:
                # The overhead of a runtime class cannot be lowered.
                assert remedy.stuck.plugins == ("NodeResourcesFit",)
                assert pod.spec.overhead
                ends["stuck"] += 1
                continue
            ends[f"{len(remedy.changes)} changes"] += 1
            assert remedy.landing.lands == (not remedy.changes)
            fresh = Hypothesis(make_engine, pod, name)
            assert fresh.landing(remedy.changes).lands
            for change in remedy.changes:
                rest = tuple(each for each in remedy.changes if each != change)
                assert not fresh.landing(rest).lands, change.text
            engine = make_engine(changes.weights(remedy.changes))
            observed(engine, *changes.stimuli(fresh.node, remedy.changes))
            assert _placed_on(engine, changes.changed_pod(pod, remedy.changes)) == name

    proved()
    assert ends["1 changes"] > 5, ends
    assert ends["4 changes"] > 5, ends
