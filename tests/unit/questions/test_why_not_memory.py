"""How many states of the cluster are in memory while ``--why-not`` searches."""

import weakref
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from eventsched.history.why_not import hypothesis
from eventsched.history.why_not.changes import AnyChange
from eventsched.questions.what_ifs import why_not_search
from eventsched.runtime import gc_tuning
from eventsched.runtime.assembly import assemble
from eventsched.scheduling.engine import Engine
from eventsched.testing import added, make_node, make_pod, observed

PODS = 100


def test_states_of_engines_that_were_dropped_do_not_pile_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pod as large as a node, whose pods are removed one by one to see which of them can stay."""
    assembly = assemble()
    before = assembly.engine(with_detail=False)
    observed(before, *added(make_node("n1", cpu=4000), make_node("n2", cpu=4000)))
    for number in range(PODS):
        pod = make_pod(f"p{number}", cpu=4000 // PODS)
        observed(before, *added(replace(pod, node_name="n1")))
    states: list[weakref.ref[Any]] = []
    most = 0
    changed_engine = hypothesis.Hypothesis._changed_engine

    def watched(self: hypothesis.Hypothesis, elsewhere: tuple[AnyChange, ...]) -> Engine:
        nonlocal most
        engine = changed_engine(self, elsewhere)
        states.append(weakref.ref(engine.state))
        most = max(most, sum(state() is not None for state in states))
        return engine

    monkeypatch.setattr(hypothesis.Hypothesis, "_changed_engine", watched)
    with gc_tuning.paused():
        found: Sequence[Any]
        found, _, _ = why_not_search._search(
            before.state, assembly, make_pod("big", cpu=4000), "n1", "n2"
        )
    assert any(remedy.changes for remedy in found)
    assert len(states) > PODS // 2
    assert most <= hypothesis._ENGINES + 1
