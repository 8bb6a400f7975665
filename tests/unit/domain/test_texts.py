"""Texts that a database cannot hold: they neither stop the scheduler nor get into the log."""

from typing import Any

import pytest

from eventsched.domain import records
from eventsched.domain.objects import canonical
from eventsched.domain.records import Outcome
from eventsched.scheduling.framework import Cycle, Status
from tests.builders import added, attempted, engine_of, make_node, make_pod, observed

HALF = "half \ud800"
"""The first half of a surrogate pair: no UTF-8 for it."""


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("a\0b", '"a\ufffdb"'),
        ("\0\0", '"\ufffd\ufffd"'),
        ("\\u0000", '"\\\\u0000"'),
        ("\\\0", '"\\\\\ufffd"'),
        ("\\\\\0", '"\\\\\\\\\ufffd"'),
    ],
)
def test_nul_becomes_the_replacement_character(text: str, stored: str) -> None:
    assert canonical(text).decode() == stored


class Says:
    """Refuses every node, in the words that it was given."""

    name = "Says"

    def __init__(self, how: str) -> None:
        self.how = how

    def filter_node(self, pod: Any, node: Any) -> str | None:
        if self.how == "raises":
            raise RuntimeError(HALF)
        return HALF if self.how == "filter" else None

    def reserve(self, cycle: Any, pod: Any, node: str) -> Status | None:
        if self.how == "remembers":
            cycle.remember("key", HALF)
        return Status.unschedulable(HALF) if self.how == "reserve" else None


@pytest.mark.parametrize("how", ["raises", "filter", "reserve", "remembers"])
def test_half_a_pair_fails_the_attempt(how: str) -> None:
    """Of that pod, by name; all that is recorded can be encoded."""
    engine = engine_of(Says(how))
    observed(engine, records.NodeAdded(node=make_node("n1")), *added(make_pod("p1")))
    made = attempted(engine)
    assert [r.outcome for r in made if isinstance(r, records.PodDecided)] == [Outcome.ERROR]
    assert any("Says" in str(r) for r in made)
    for record in made:
        records.encode(record)


class Keeps:
    """Remembers what it was given, and refuses with a NUL."""

    name = "Keeps"

    def filter_node(self, pod: Any, node: Any) -> str:
        return "no\0"

    def reserve(self, cycle: Any, pod: Any, node: str) -> None:
        return None


@pytest.mark.parametrize("value", ["a\0b", float("nan"), float("inf"), 1.5, "text", True, 7])
def test_memory_is_what_the_log_will_hold(value: Any) -> None:
    """So that a restart remembers the same."""
    cycle = Cycle(now=0, seed="")
    cycle.plugin = "Keeps"
    cycle.remember("key", value)
    ((_, key, kept, _),) = cycle.remembered
    changed = records.MemoryChanged(plugin="Keeps", key=key, value=kept)
    assert records.decode(records.encode(changed)) == changed


def test_a_refusal_with_a_nul_is_defined_once_and_as_stored() -> None:
    engine = engine_of(Keeps())
    observed(engine, records.NodeAdded(node=make_node("n1")), *added(make_pod("p1")))
    made = attempted(engine)
    (defined,) = [r for r in made if isinstance(r, records.VerdictDefined)]
    assert defined.verdict.reasons == ("no\ufffd",)
    for record in made:
        assert records.decode(records.encode(record)) == record
