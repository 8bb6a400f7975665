"""A plugin asked along a history: what is found of good ones, and of each kind of bad one."""

from typing import Any

import numpy as np
import pytest

from eventsched.authoring.findings import Finding
from eventsched.authoring.plugin_check import PluginCheck
from eventsched.authoring.purity_monitor import Sentinels
from eventsched.authoring.synthetic_history import rehearsed
from eventsched.plugins import IN_TREE
from eventsched.scheduling.framework import ClusterEvent, DependsOn, Status
from eventsched.testing import typed

DISK = "example.com/disk"
WORDS = (DISK, "ssd")
ARGS: dict[str, dict[str, Any]] = {
    "FixedNode": {"nodeName": "node-03"},
    "NetworkTraffic": {"prometheusAddress": "http://prometheus.example:9090", "deviceName": "eth0"},
}
HISTORY = rehearsed(WORDS)


def found(plugin: Any, seconds: float = 5.0) -> list[Finding]:
    trying = PluginCheck(plugin, "the history", "file.py", Sentinels(), seconds)
    return trying.run(HISTORY, 400).findings


def kinds(plugin: Any) -> list[tuple[str, str]]:
    return [(each.kind, each.point) for each in found(plugin)]


@pytest.mark.parametrize("name", sorted(IN_TREE))
def test_nothing_is_found_of_the_plugins_that_are_there(name: str) -> None:
    assert found(typed(IN_TREE[name], **ARGS.get(name, {}))) == []


def test_a_history_has_a_bit_of_everything() -> None:
    happened = {type(each.record).__name__ for each in HISTORY}
    assert happened >= {
        "NodeAdded", "NodeUpdated", "NodeDeleted", "PodAdded", "PodUpdated", "PodDeleted",
        "PodDecided", "PodBound",
    }  # fmt: skip
    assert rehearsed(WORDS) == HISTORY


class Disk:
    """A good one."""

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


def test_nothing_is_found_of_a_good_one() -> None:
    assert found(Disk()) == []


class Deaf(Disk):
    wakes_on = (ClusterEvent.NODE_ADD,)


def test_changes_that_it_does_not_wake_for() -> None:
    assert sorted((each.kind, each.what.partition(", and ")[2]) for each in found(Deaf())) == [
        ("wakes", "wakes_on has no NodeUpdateLabel"),
        ("wakes", "wakes_on has no PodUpdate"),
    ]


class Denying(Disk):
    def hint(self, cycle: Any, pod: Any, change: Any) -> bool:
        return change.event is not ClusterEvent.NODE_UPDATE_LABEL


def test_a_hint_that_says_no_where_a_node_has_become_acceptable() -> None:
    assert kinds(Denying()) == [("wakes", "hint")]
    assert "its hint says no to NodeUpdateLabel" in found(Denying())[0].what


class Oversigned(Disk):
    def sign(self, pod: Any) -> Any:
        return "all alike"


def test_a_signature_that_leaves_out_what_matters() -> None:
    assert ("signature", "sign") in kinds(Oversigned())


class Counting(Disk):
    """Says that only the node object matters, and counts pods."""

    def score(self, cycle: Any, pod: Any, nodes: Any) -> Any:
        return np.minimum(nodes.pods, 100)


def test_a_dependence_that_is_not_declared() -> None:
    assert kinds(Counting()) == [("signature", "depends_on")]
    assert "depends_on has no DependsOn.USAGE" in found(Counting())[0].what


class Forgetful(Disk):
    """Keeps something beside its memory."""

    def __init__(self) -> None:
        self.calls = 0

    def score_node(self, pod: Any, node: Any) -> int:
        self.calls += 1
        return self.calls % 7


def test_answers_that_differ_on_the_same_state() -> None:
    assert ("unstable", "score") in kinds(Forgetful())


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
        (Misshapen(), "score", "returned shape (1,); one value a node"),
        (Raising(), "pre_bind", "raised KeyError: 'node-"),
        (Unanswering(), "permit", "returned 'yes'; None or a Status or a Wait is due"),
    ],
)
def test_calls_that_fail(plugin: Any, point: str, what: str) -> None:
    broken = [each for each in found(plugin) if each.kind == "broken"]
    assert {each.point for each in broken} == {point}
    assert what in broken[0].what


class Hanging(Disk):
    def reserve(self, cycle: Any, pod: Any, node: Any) -> Status | None:
        while True:
            pass


def test_a_call_that_does_not_come_back_is_ended_and_not_made_again() -> None:
    assert [(each.kind, each.point, each.what) for each in found(Hanging(), 0.2)] == [
        ("slow", "reserve", "took longer than 0.2 s, and was ended")
    ]
