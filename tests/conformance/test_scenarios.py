"""Every field of every answer, compared with that of upstream's plugin code for the same scenario.

The golden answers come from tests/conformance/oracle; one test a scenario, with the differences of
its pods spelled out. ``python -m tests.conformance.compare KIND`` shows them for a whole kind.
"""

from collections import Counter

import pytest

from tests.conformance.answers import FOLDER, differences, lines, stored
from tests.conformance.oracle.generate import STORED, line, scenarios

# These are equal to the last pod and stay so.
EQUAL = (
    "resources",
    "taints",
    "nodeaffinity",
    "ports",
    "spread",
    "spread-affinity",
    "interpod",
    "images",
    "volumes",
    "preemption",
    "preemption-affinity",
    "default-spread",
    "config",
    "mixed",
    "affinity-filters",
    "affinity-scores",
    "affinity-malformed",
    "spread-hard",
    "spread-soft",
    "spread-defaults",
    "volume-binding",
    "volume-zones",
    "volume-limits",
    "preemption-order",
    "preemption-budgets",
    "resource-requests",
    "resource-resizes",
    "taint-operators",
    "node-affinity-edges",
    "port-addresses",
    "image-names",
    "declared-features",
    "several-profiles",
    "volume-restrictions",
    "preemption-held",
    "preemption-nominated",
    "without-preparation",
    "edges-resources",
    "edges-images",
    "edges-weights",
)
# Some pods of these kinds have other answers on purpose.
DIFFERENT = {"malformed": "the API server refuses these pods; the messages are our own"}


@pytest.mark.parametrize("scenario", [case.id for case in stored().values() if case.kind in EQUAL])
def test_every_answer_is_that_of_upstream(scenario: str) -> None:
    case = stored()[scenario]

    lines = [str(difference) for _, pod in differences(case) for difference in pod]

    assert not lines, "\n".join([scenario, *lines])


def test_no_scenario_is_left_out() -> None:
    kinds = Counter(case.kind for case in stored().values())
    assert set(kinds) == {*EQUAL, *DIFFERENT}
    assert not set(EQUAL) & set(DIFFERENT)
    assert all(len(case.golden["pods"]) == 6 for case in stored().values())
    assert min(kinds.values()) >= 20


@pytest.mark.parametrize("name", STORED)
def test_the_scenarios_are_those_of_the_generator(name: str) -> None:
    assert lines(FOLDER / name) == [line(made).encode() for made in scenarios(*STORED[name])]
