"""Every field of every answer against what upstream's own plugin code says of the same scenarios.

The golden answers come from tests/conformance/oracle; one test a scenario, with the differences of
its pods spelled out. ``python -m tests.conformance.compare KIND`` shows them for a whole kind.
"""

from collections import Counter

import pytest

from tests.conformance.answers import differences, stored

# Kinds whose plugins are here, all of them: these are equal to the last pod and stay so.
EQUAL = (
    "resources",
    "taints",
    "nodeaffinity",
    "ports",
    "images",
)
# Kinds some of whose plugins are missing. The aim is none.
MISSING = (
    "spread",
    "spread-affinity",
    "interpod",
    "volumes",
    "preemption",
    "preemption-affinity",
    "default-spread",
    "config",
    "mixed",
)


@pytest.mark.parametrize("scenario", [case.id for case in stored().values() if case.kind in EQUAL])
def test_every_pod_is_answered_as_upstream_answers_it(scenario: str) -> None:
    case = stored()[scenario]

    found = [str(each) for _, pod in differences(case) for each in pod]

    assert not found, "\n".join([scenario, *found])


def test_no_scenario_is_left_out() -> None:
    kinds = Counter(case.kind for case in stored().values())
    assert set(kinds) == {*EQUAL, *MISSING}
    assert not set(EQUAL) & set(MISSING)
    assert all(len(case.golden["pods"]) == 6 for case in stored().values())
    assert min(kinds.values()) >= 20
