"""ImportanceSort: larger numbers first, what is no number last, ties by age."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from eventsched.domain import records
from eventsched.domain.objects import Pod
from eventsched.domain.objects.integers import integer
from eventsched.plugins.gallery.importance_sort import ImportanceSort, ImportanceSortArgs
from eventsched.scheduling.engine import Engine
from tests.builders import added, attempted, engine_with, make_node, make_pod, observed
from tests.properties.strategies import deterministic


def pod(name: str, importance: str | None, key: str = "importance", **fields: Any) -> Pod:
    """One that says how important it is."""
    annotations = {} if importance is None else {key: importance}
    return make_pod(name, cpu=10, memory=0, annotations=annotations, **fields)


def engine(*pods: Pod, args: ImportanceSortArgs | None = None) -> Engine:
    """The pods wait in one that sorts by importance."""
    made = engine_with(points={"queueSort": [ImportanceSort(args)]})
    observed(made, *added(make_node(), *pods))
    return made


def order(made: Engine) -> list[str]:
    """The pods in the order in which they are tried."""
    found = []
    while decided := [r for r in attempted(made) if isinstance(r, records.PodDecided)]:
        found.append(decided[0].uid)
    return found


ODD = ("abc", "1e9", "", str(2**63), "4.5", None)


def test_larger_numbers_go_first_and_what_is_none_last() -> None:
    """Those without a number among themselves by age."""
    odd = [pod(f"odd{number}", text) for number, text in enumerate(ODD)]
    numbered = [pod("five", "5"), pod("ten", "10"), pod("below", "-3"), pod("nine", "+9")]
    assert order(engine(*odd, *numbered)) == [
        "ten", "nine", "five", "below", *(each.uid for each in odd),
    ]  # fmt: skip


def test_equals_go_by_age() -> None:
    """Those who came at once by when they were created."""
    pods = [pod("third", "1", created_at=3), pod("first", "1", created_at=1), pod("second", "1")]
    made = engine(*pods[:2])
    observed(made, *added(pods[2]), at=1)
    assert order(made) == ["first", "third", "second"]


def test_priority_does_not_matter() -> None:
    """There is one QueueSort."""
    assert order(engine(pod("low", "2"), pod("high", "1", priority=1000))) == ["low", "high"]


def test_another_annotation() -> None:
    """As its arguments say."""
    args = ImportanceSortArgs(annotation="example.com/rank")
    pods = [pod("a", "9"), pod("b", "1", "example.com/rank"), pod("c", "2", "example.com/rank")]
    assert order(engine(*pods, args=args)) == ["c", "b", "a"]


def test_a_pod_that_becomes_important_goes_first() -> None:
    """While it waits."""
    made = engine(pod("a", "2"), pod("b", "1"))
    observed(made, records.PodUpdated(pod=pod("b", "3")))
    assert order(made) == ["b", "a"]


@deterministic(100)
@given(st.lists(st.one_of(st.none(), st.integers(-(2**70), 2**70).map(str), st.text(max_size=3))))
def test_the_order_is_that_of_the_numbers(texts: list[str | None]) -> None:
    """Held against sorting by hand."""
    pods = [pod(f"{number:03}", text) for number, text in enumerate(texts)]
    numbered = [each for each in pods if integer(each.annotations.get("importance")) is not None]
    numbered.sort(key=lambda each: -int(each.annotations["importance"]))
    others = [each for each in pods if each not in numbered]
    assert order(engine(*pods)) == [each.uid for each in numbered + others]
