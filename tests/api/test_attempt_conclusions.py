"""What is concluded from two attempts' verdicts: by hand, and in the answers of the API."""

import pytest

from eventsched.questions.attempts.attempt_conclusions import NodeSide, conclusion, gained
from tests.api.asking import Client
from tests.api.test_attempts import STREAMS, decisions, retried
from tests.postgres.histories import ODD

FEASIBLE = NodeSide("feasible", 10, {}, "Success", "")
UNSEEN = NodeSide("NotEvaluated: ended", None, {}, "NotEvaluated", "ended")
GPU, CPU = "Insufficient nvidia.com/gpu", "Insufficient cpu"


def refused(reason: str, code: str = "Unschedulable") -> NodeSide:
    return NodeSide(f"Fit: {reason}", None, {}, code, reason)


def small(reason: str = CPU) -> NodeSide:
    """A node that refuses the pod even without other pods."""
    return refused(reason, "UnschedulableAndUnresolvable")


def concluded(
    before: dict[str, NodeSide],
    after: dict[str, NodeSide],
    chosen: tuple[str | None, str | None] = (None, None),
) -> str:
    return conclusion(chosen, before, after, {"b": "prod/a left it at 00:38:24.000"})


def test_nodes_that_refuse_it_as_before() -> None:
    """Those that refuse it even without other pods do not count, whatever they say."""
    before = {"w": small(), "g0": refused(GPU), "g1": refused(GPU)}
    after = {"w": small(GPU), "g0": refused(GPU), "g1": refused(GPU)}
    assert concluded(before, after) == (
        "No node became feasible. The 2 nodes that refused it only for what others use "
        "(such as g0) refuse it as before: Insufficient nvidia.com/gpu."
    )
    assert concluded({"g0": refused(GPU)}, {"g0": refused(GPU)}) == (
        "No node became feasible. g0, which refused it only for what others use, does as before: "
        "Insufficient nvidia.com/gpu."
    )
    assert concluded({"w": small()}, {"w": small(GPU)}) == (
        "No node became feasible. Each node refuses it even without other pods."
    )


def test_nodes_that_refuse_it_for_another_reason() -> None:
    before = {"g0": refused(GPU), "g1": refused(GPU)}
    assert concluded(before, {"g0": refused(GPU), "g1": refused(CPU)}) == (
        "No node became feasible. g1 refuses it for another reason now, of what others use: "
        "Insufficient cpu; 1 does as before."
    )


def test_nodes_that_became_feasible() -> None:
    """The chosen one is named, with what made room on it."""
    before = {"a": refused(CPU), "b": refused(CPU), "c": refused(CPU)}
    after = {"a": FEASIBLE, "b": FEASIBLE, "c": refused(CPU)}
    assert concluded(before, {**after, "a": refused(CPU)}, (None, "b")) == (
        "b became feasible: prod/a left it at 00:38:24.000."
    )
    assert concluded(before, after, (None, "b")) == (
        "2 nodes became feasible, such as b: prod/a left it at 00:38:24.000."
    )
    assert concluded({"a": small()}, {"a": FEASIBLE}, (None, "a")) == "a became feasible."


def test_a_node_that_was_not_judged_did_not_become_feasible() -> None:
    assert gained({"a": UNSEEN}, {"a": FEASIBLE}) == []
    assert concluded({"a": UNSEEN}, {"a": FEASIBLE}) == (
        "No node that was judged both times became feasible."
    )
    assert concluded({"a": FEASIBLE}, {"a": refused(CPU)}) == (
        "No node is feasible any more. a refuses it now: Insufficient cpu."
    )


def test_where_it_went() -> None:
    assert concluded({"a": FEASIBLE}, {"a": FEASIBLE}, ("a", "a")) == "It went to a both times."
    after = {"a": refused(CPU), "b": FEASIBLE}
    assert concluded({"a": FEASIBLE, "b": refused(GPU)}, after, ("a", "b")) == (
        "It went from a to b. a refuses it now: Insufficient cpu. "
        "b became feasible: prod/a left it at 00:38:24.000."
    )
    assert concluded({"a": FEASIBLE}, {"c": FEASIBLE}, ("a", "c")) == (
        "It went from a to c. a was not there any more."
    )


def test_the_answer_names_the_node_that_joined(client: Client) -> None:
    """Pod huge: n6 joined, which has room for it."""
    attempts = [each for each in decisions(client, ODD) if each["pod"] == "huge"]
    before, after = attempts[-2]["position"], attempts[-1]["position"]
    found = client.get(f"/decisions/{before}/changes/{after}?stream={ODD}")
    assert found["conclusion"].startswith("n6 became feasible: it joined at ")
    [joined] = [each for each in found["between"] if each["text"] == "n6 joined"]
    assert joined["on_candidate"]


@pytest.mark.parametrize("stream", STREAMS)
def test_nodes_that_others_do_not_matter_to_are_the_last_with_another_verdict(
    client: Client, stream: str
) -> None:
    attempts = retried(client, stream)
    before, after = attempts[0]["position"], attempts[-1]["position"]
    found = client.get(f"/decisions/{before}/changes/{after}?stream={stream}&limit=1000")
    turned = [each["unresolvable"] for each in found["nodes"][: found["turned"]]]
    assert turned == sorted(turned)
    codes = [
        {each["node"]: each["status"] for each in client.get(
            f"/decisions/{position}/verdicts?stream={stream}&limit=1000"
        )["verdicts"]}
        for position in (before, after)
    ]  # fmt: skip
    for each in found["nodes"]:
        both = {side.get(each["node"]) for side in codes}
        assert each["unresolvable"] == (both == {"UnschedulableAndUnresolvable"})
