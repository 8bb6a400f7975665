"""Names that are offered instead of one that does not exist."""

import re
from difflib import SequenceMatcher, get_close_matches

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventsched.domain import near_names
from tests.properties.strategies import deterministic

_names = st.text("ab-1", max_size=8) | st.text(max_size=8)
_NODES = [f"node-{number:05d}" for number in range(20_000)]
_ADDRESSES = [
    f"ip-10-{number % 7}-{number // 100 % 200}-{number % 100}.compute.internal"
    for number in range(20_000)
]


def _folded(name: str) -> list[str | int]:
    """The name with its numbers as numbers, in one case."""
    texts = re.split("([0-9]+)", name.lower())
    return [int(text) if place % 2 else text for place, text in enumerate(texts)]


@deterministic(100)
@given(name=_names, known=st.lists(_names, max_size=60), ratio=st.sampled_from([0.3, 0.5, 0.6]))
def test_the_names_are_those_that_difflib_finds(name: str, known: list[str], ratio: float) -> None:
    known = [other for other in known if other == name or _folded(other) != _folded(name)]
    expected = [near for near in get_close_matches(name, known, 3, ratio) if near]
    found = near_names.nearest(name, known, ratio)
    assert _ratios(name, found) == _ratios(name, expected)  # which of equally near ones may differ


def _ratios(name: str, found: list[str]) -> list[float]:
    return [SequenceMatcher(None, near, name).ratio() for near in found]


def test_of_equally_near_names_those_that_differ_in_one_place_come_first() -> None:
    known = [f"pod-{number:06}" for number in (10077, 9077, 8077, 777)]
    assert near_names.nearest("pod-0007x7", known)[0] == "pod-000777"


@pytest.mark.parametrize(
    ("known", "name"),
    [
        (_NODES, "node-1234x"),
        (_NODES, "nod-12345"),
        (_NODES, "node-123456"),
        (_ADDRESSES, "ip-10-1-2-33.compute.internal"),
        (_ADDRESSES, "ip-10-3-15-99-compute.internal"),
    ],
)
def test_a_slip_in_a_large_cluster_is_offered_as_in_a_small_one(
    known: list[str], name: str
) -> None:
    found = near_names.nearest(name, known)
    assert _ratios(name, found) == _ratios(name, get_close_matches(name, known, 3, 0.5))


def test_a_name_in_another_case_is_offered_alone() -> None:
    assert near_names.nearest("ML", ["ml", "mla", "MLX"]) == ["ml"]
    assert near_names.nearest("Gpu-0", ["gpu-0", "gpu-1", "GPU-0"]) == ["GPU-0", "gpu-0"]


def test_a_name_with_other_zeros_is_offered_alone() -> None:
    nodes = [f"web-{number:02d}" for number in range(24)]
    assert near_names.nearest("web-3", nodes) == ["web-03"]
    assert near_names.nearest("WEB-003", nodes) == ["web-03"]
    assert near_names.nearest("a0", ["a00", "a", "a1"]) == ["a00"]


@pytest.mark.parametrize("name", ["node-1234x", "node-", "edon", "x" * 10_000])
def test_few_names_of_a_large_cluster_are_compared_as_a_whole(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = []

    class Counting(SequenceMatcher[str]):
        def ratio(self) -> float:
            ratio = super().ratio()
            compared.append(ratio)
            return ratio

    monkeypatch.setattr(near_names, "SequenceMatcher", Counting)
    near_names.nearest(name, _NODES)
    assert len(compared) <= 500


def test_without_a_near_name_some_that_exist_are_offered() -> None:
    assert near_names.offer("web", ["node-2", "node-1", "a", "x"]) == (
        "there are, among others: a, node-1, node-2"
    )
    assert near_names.offer("web", ["a", "x"]) == "there are: a, x"
    assert near_names.offer("web", ["a", "x"], "leave it out") == "leave it out"
    assert near_names.offer("web", []) == ""
    assert near_names.offer("nod-1", ["node-1", "other"]) == "did you mean node-1?"
