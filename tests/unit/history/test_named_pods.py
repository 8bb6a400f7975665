"""Which pod of a state a word means."""

import pytest

from eventsched.domain.errors import InputError
from eventsched.domain.state.pod_state import PodState
from eventsched.history.past_state.named_pods import find_pod_state
from tests.builders import added, engine_of, make_pod, observed


def pods(**namespaces_by_uid: str) -> dict[str, PodState]:
    """Pods called web with these uids, in the order of their arrival."""
    engine = engine_of()
    made = (make_pod("web", uid=uid, namespace=name) for uid, name in namespaces_by_uid.items())
    observed(engine, *added(*made))
    return engine.state.pods


def test_a_name_a_full_name_or_a_uid() -> None:
    there = pods(u1="shop")
    for word in ("web", "shop/web", "u1"):
        assert find_pod_state(there, word).pod.uid == "u1"


def test_of_two_with_one_name_the_newer_one() -> None:
    there = pods(u1="shop", u2="shop")
    assert find_pod_state(there, "web").pod.uid == "u2"
    assert find_pod_state(there, "shop/web").pod.uid == "u2"
    assert find_pod_state(there, "u1").pod.uid == "u1"


@pytest.mark.parametrize(
    ("namespaces", "named"),
    [
        ("ab", "a/web, b/web"), ("cab", "a/web, b/web, c/web"),
        ("dcab", "a/web, b/web, c/web and 1 more"),
    ],
)  # fmt: skip
def test_a_name_of_several_pods_is_refused_with_the_first_of_them(
    namespaces: str, named: str
) -> None:
    there = pods(**{f"u{name}": name for name in namespaces})
    with pytest.raises(InputError) as refused:
        find_pod_state(there, "web", "--until")
    assert refused.value.where == "--until web"
    assert refused.value.problem == f"is the name of {len(namespaces)} pods"
    assert refused.value.remedy == f"name one: {named}"


def test_an_unknown_name_is_refused_with_a_like_one() -> None:
    there = pods(u1="shop")
    for word, remedy in (
        ("shop/wbe", "did you mean shop/web?"),
        ("zzz", "name it as namespace/name, such as shop/web"),
    ):  # fmt: skip
        with pytest.raises(InputError) as refused:
            find_pod_state(there, word)
        assert (refused.value.where, refused.value.remedy) == (f"--pod {word}", remedy)
