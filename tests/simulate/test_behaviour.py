"""Small workloads come to the same records as before: for changes that only move code about."""

import json

import pytest

from tests.simulate.behaviour import EVERY, FILE, summary, workloads

KNOWN = json.loads(FILE.read_text())


def test_every_workload_is_known() -> None:
    assert list(KNOWN) == workloads()


@pytest.mark.parametrize("workload", KNOWN)
def test_a_workload_comes_to_the_same_records(workload: str) -> None:
    found, known = summary(workload), KNOWN[workload]

    pairs = zip(found["digests"], known["digests"], strict=False)
    same = next((n for n, (one, other) in enumerate(pairs) if one != other), len(known["digests"]))
    assert found == known, f"the first difference is after position {same * EVERY}"
