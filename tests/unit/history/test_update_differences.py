"""What an update of a pod changed, in words."""

from typing import Any

import pytest

from eventsched.domain import records
from eventsched.domain.objects import Toleration
from eventsched.history.explain.update_differences import in_words
from tests.builders import make_pod, refused

LONG = "x" * 80


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ({"labels": {"a": "1"}}, {"labels": {"a": "2"}}, "label a: 1 → 2"),
        ({"labels": {"a": "1"}}, {"labels": {}}, "label a removed"),
        ({}, {"labels": {"a": ""}}, "label a: ''"),
        ({}, {"annotations": {"a": "x\ny", "b": LONG}},
         f"annotation a: 'x\\ny', annotation b: {LONG[:60]}…"),
        ({"gates": ("one", "two")}, {"gates": ("two",)}, "scheduling gates: two"),
        ({"gates": ("one",)}, {}, "scheduling gates: none"),
        ({"priority": 1}, {"priority": 5}, "priority: 1 → 5"),
        ({}, {"deleting": True}, "it is being deleted"),
        ({}, {"node_name": "n4"}, "it is on n4"),
        ({"deleting": True, "node_name": "n4"},
         {"deleting": True, "node_name": "n4", "priority": 5}, "priority: 0 → 5"),
        ({"nominated_node": "n1"}, {}, "nominated node: none"),
        ({}, {"scheduler_name": "s"}, "schedulerName: default-scheduler → s"),
        ({}, {"spec": {"node_selector": {"a": "b"}, "tolerations": (Toleration(),)}},
         "its spec (node selector, tolerations)"),
    ],
)  # fmt: skip
def test_what_is_another(old: dict[str, Any], new: dict[str, Any], said: str) -> None:
    before, after = make_pod("p", **old), make_pod("p", **new)
    updates: list[Any] = [records.PodAdded(pod=before), refused("p"), records.PodUpdated(pod=after)]
    assert in_words(enumerate(updates)) == {2: f"changed: {said}"}


def test_each_is_compared_with_the_one_before() -> None:
    """The first one with nothing: a log may begin with it. Nothing is said about an update without
    a known change."""
    pods = [make_pod("p", priority=each) for each in (1, 2, 2, 1)]
    found = in_words(enumerate(records.PodUpdated(pod=pod) for pod in pods))
    assert found == {1: "changed: priority: 1 → 2", 3: "changed: priority: 2 → 1"}
