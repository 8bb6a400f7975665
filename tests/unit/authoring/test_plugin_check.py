"""Checks of good plugins find nothing; each kind of bad plugin gets its finding."""

from collections.abc import Hashable
from functools import cache
from typing import Any

import numpy as np
import pytest

from eventsched.authoring.findings import Finding
from eventsched.authoring.plugin_check import PluginCheck
from eventsched.authoring.purity_monitor import PurityMonitor
from eventsched.authoring.synthetic_history import generated_history
from eventsched.plugins import IN_TREE
from eventsched.scheduling.framework import ClusterEvent, DependsOn, Status
from eventsched.testing import typed

DISK = "example.com/disk"
WORDS = (DISK, "ssd")
ARGS: dict[str, dict[str, Any]] = {
    "FixedNode": {"nodeName": "node-03"},
    "NetworkTraffic": {"prometheusAddress": "http://prometheus.example:9090", "deviceName": "eth0"},
}


@cache
def history() -> Any:
    """What the plugins are checked against."""
    return generated_history(WORDS)


def checked(plugin: Any, seconds: float = 5.0) -> list[Finding]:
    check = PluginCheck(plugin, "the history", "file.py", PurityMonitor(), seconds)
    return check.run(history(), 400).findings


@cache
def findings_of(plugin: Hashable) -> list[Finding]:
    assert isinstance(plugin, type)
    return checked(plugin())


def kinds(plugin: Hashable) -> list[tuple[str, str]]:
    return [(finding.kind, finding.point) for finding in findings_of(plugin)]


@pytest.mark.properties
@pytest.mark.parametrize("name", sorted(IN_TREE))
def test_the_in_tree_plugins_have_no_findings(name: str) -> None:
    assert checked(typed(IN_TREE[name], **ARGS.get(name, {}))) == []


def test_the_generated_history_has_all_kinds_of_changes_and_is_repeatable() -> None:
    kinds = {type(entry.record).__name__ for entry in history()}
    assert kinds >= {
        "NodeAdded", "NodeUpdated", "NodeDeleted", "PodAdded", "PodUpdated", "PodDeleted",
        "PodDecided", "PodBound",
    }  # fmt: skip
    assert generated_history(WORDS) == history()


class Disk:
    """A correct plugin."""

    name = "Disk"
    depends_on = DependsOn.NODE
    wakes_on = (ClusterEvent.NODE_ADD, ClusterEvent.NODE_UPDATE_LABEL, ClusterEvent.POD_UPDATE)

    def sign(self, pod: Any) -> Any:
        return pod.labels.get(DISK, "")

    def filter_node(self, pod: Any, node: Any) -> Any:
        wanted = pod.labels.get(DISK, "")
        return "node(s) had another disk" if wanted not in ("", node.labels.get(DISK)) else None

    def score_node(self, pod: Any, node: Any) -> int:
        return 100 if DISK in node.labels else 0


def test_a_correct_plugin_has_no_findings() -> None:
    assert findings_of(Disk) == []


class MissingEvents(Disk):
    wakes_on: Any = (ClusterEvent.NODE_ADD,)


def test_changes_missing_in_wakes_on() -> None:
    missed = sorted(
        (finding.kind, finding.what.partition(", but ")[2])
        for finding in findings_of(MissingEvents)
    )
    assert missed == [
        ("wakes", "wakes_on has no NodeUpdateLabel"),
        ("wakes", "wakes_on has no PodUpdate"),
    ]


class Denying(Disk):
    def hint(self, cycle: Any, pod: Any, change: Any) -> bool:
        return change.event is not ClusterEvent.NODE_UPDATE_LABEL


def test_a_hint_that_refuses_a_change_that_made_a_node_acceptable() -> None:
    assert kinds(Denying) == [("wakes", "hint")]
    assert "its hint says no to NodeUpdateLabel" in findings_of(Denying)[0].what


class Oversigned(Disk):
    def sign(self, pod: Any) -> Any:
        return "all alike"


def test_an_incomplete_signature() -> None:
    assert ("signature", "sign") in kinds(Oversigned)


class Counting(Disk):
    """Declares that it depends on the node object only, but counts pods."""

    def score(self, cycle: Any, pod: Any, nodes: Any) -> Any:
        return np.minimum(nodes.pods, 100)


def test_an_undeclared_dependence() -> None:
    assert kinds(Counting) == [("signature", "depends_on")]
    assert "depends_on has no DependsOn.USAGE" in findings_of(Counting)[0].what


class Stateful(Disk):
    """Keeps state outside its memory."""

    def __init__(self) -> None:
        self.calls = 0

    def score_node(self, pod: Any, node: Any) -> int:
        self.calls += 1
        return self.calls % 7


def test_answers_that_differ_on_the_same_state() -> None:
    assert ("unstable", "score") in kinds(Stateful)


class Misshapen(Disk):
    def score(self, cycle: Any, pod: Any, nodes: Any) -> Any:
        return [100]


class Raising(Disk):
    def pre_bind(self, cycle: Any, pod: Any, node: Any) -> Any:
        raise KeyError(node)


class Unanswering(Disk):
    def permit(self, cycle: Any, pod: Any, node: Any) -> Any:
        return "yes"


@pytest.mark.parametrize(
    ("plugin", "point", "what"),
    [
        (Misshapen, "score", "returned shape (1,); one value a node"),
        (Raising, "pre_bind", "raised KeyError: 'node-"),
        (Unanswering, "permit", "returned 'yes'; None or a Status or a Wait is due"),
    ],
)
def test_calls_that_fail(plugin: Hashable, point: str, what: str) -> None:
    broken = [finding for finding in findings_of(plugin) if finding.kind == "broken"]
    assert {finding.point for finding in broken} == {point}
    assert what in broken[0].what


class Hanging(Disk):
    def reserve(self, cycle: Any, pod: Any, node: Any) -> Status | None:
        while True:
            pass


def test_a_call_that_hangs_is_stopped_and_not_repeated() -> None:
    assert [(finding.kind, finding.point, finding.what) for finding in checked(Hanging(), 0.2)] == [
        ("slow", "reserve", "took longer than 0.2 s and was stopped")
    ]
