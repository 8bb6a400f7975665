"""Codes for programs, and the differences between attempts."""

import pytest

from eventsched.domain.records import Outcome, PodDecided
from eventsched.history.explain.conclusions.reason_codes import (
    RefusalDifference,
    differences,
    failed_plugins,
    reason_code,
    reason_codes,
)
from eventsched.history.explain.explanation import ExplainedAttempt, NodeRefusals

CPU = NodeRefusals("NodeResourcesFit", "Unschedulable", ("Insufficient cpu",), 3)
BOTH = NodeRefusals(
    "NodeResourcesFit", "Unschedulable", ("Insufficient cpu", "Insufficient memory"), 2
)
TAINT = NodeRefusals(
    "TaintToleration", "UnschedulableAndUnresolvable", ("node(s) had untolerated taint(s)",), 4
)


@pytest.mark.parametrize(
    ("plugin", "reason", "code"),
    [
        ("NodeResourcesFit", "Insufficient cpu", "InsufficientCPU"),
        ("NodeResourcesFit", "Insufficient example.com/gpu", "InsufficientExampleComGpu"),
        ("NodeResourcesFit", "Too many pods", "TooManyPods"),
        ("TaintToleration", "node(s) had untolerated taint(s)", "TaintMismatch"),
        ("InterPodAffinity", "node(s) didn't match pod affinity rules", "PodAffinityMismatch"),
        ("Mine", "no", "MineRefused"),
        ("", "PreFilter left the node out", "ExcludedByPreFilter"),
    ],
)
def test_the_code_of_a_reason(plugin: str, reason: str, code: str) -> None:
    assert reason_code(plugin, reason) == code


def test_codes_and_plugins_of_most_nodes_come_first() -> None:
    assert reason_codes([CPU, BOTH, TAINT]) == [
        "InsufficientCPU", "TaintMismatch", "InsufficientMemory",
    ]  # fmt: skip
    assert failed_plugins([CPU, BOTH, TAINT]) == ["NodeResourcesFit", "TaintToleration"]


def test_nodes_that_were_not_evaluated_have_no_code() -> None:
    assert reason_codes([NodeRefusals("", "NotEvaluated", ("the search ended",), 9)]) == []


def test_the_differences_between_two_attempts() -> None:
    def attempt(*refusals: NodeRefusals) -> ExplainedAttempt:
        decided = PodDecided(uid="p", attempt=1, profile="x", outcome=Outcome.UNSCHEDULABLE)
        return ExplainedAttempt(0, 0, decided, refusals)

    fewer = NodeRefusals(CPU.plugin, CPU.code, CPU.reasons, 1)
    assert differences(attempt(CPU, TAINT), attempt(fewer, BOTH, TAINT)) == [
        RefusalDifference(CPU.plugin, CPU.code, CPU.reasons, 3, 1),
        RefusalDifference(BOTH.plugin, BOTH.code, BOTH.reasons, 0, 2),
    ]
    assert differences(attempt(CPU), attempt(CPU)) == []
