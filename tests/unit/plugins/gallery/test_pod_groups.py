"""Which pods are of a group, how many it needs, and how old it is."""

from msgspec.structs import replace

from eventsched.domain.objects import Pod
from eventsched.domain.records import Outcome, PodDecided, PodDeleted, PodUpdated, Queue
from eventsched.plugins.gallery.coscheduling import Coscheduling
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework.pod_groups import MINIMUM, NAMES, membership
from tests.builders import SECOND, added, attempted, engine_with, make_node, make_pod, observed
from tests.gangs import engine, held, member, moved, waits

TOO_FEW = "pod group default/g has {} of the {} pods that it needs"


def order(*pods: Pod, gone: str = "") -> list[str]:
    """In which the queue lets pods be tried; ``gone`` is deleted before."""
    made: Engine = engine_with(points={"queueSort": [Coscheduling()]})
    observed(made, *added(make_node(), *pods))
    if gone:
        observed(made, PodDeleted(uid=gone))
    found = []
    while not made.idle:
        found += [r.uid for r in attempted(made) if isinstance(r, PodDecided)]
    return found


def test_a_label_goes_before_an_annotation() -> None:
    """Of the same key."""
    pod = make_pod(labels={NAMES[0]: "g", MINIMUM: "2"}, annotations={MINIMUM: "5"})
    found = membership(pod)
    assert found is not None
    assert found.minimum == 2


def test_one_that_is_being_deleted_does_not_count() -> None:
    """It will not go with the others."""
    made = engine(member("p1", 2, deleting=True), member("p2", 2))
    attempted(made)
    assert attempted(made) == held("p2", TOO_FEW.format(1, 2))


def test_groups_of_one_age_do_not_mix() -> None:
    """They came at the same time, one pod after the other."""
    pods = [member(f"{group}{n}", 9, group) for n in (1, 2) for group in "ab"]
    assert order(*pods) == ["a1", "a2", "b1", "b2"]


def test_without_its_oldest_pod_a_group_is_younger() -> None:
    """And the next one's turn comes before."""
    pods = [
        member("a1", 2, "a", created_at=1),
        member("a2", 9, "a", created_at=4),
        member("b1", 9, "b", created_at=3),
    ]
    assert order(*pods) == ["a1", "a2", "b1"]
    assert order(*pods, gone="a1") == ["b1", "a2"]


def test_without_the_one_that_said_most_a_group_needs_less() -> None:
    """Whether or not that was the oldest."""
    made = engine(member("p1", 2), member("p2", 3, created_at=1), member("p3", None, created_at=2))
    observed(made, PodDeleted(uid="p2"))
    assert attempted(made)[0].outcome is Outcome.WAITING


def test_one_that_says_something_else_wakes_the_others() -> None:
    """They may have been held by what it said before."""
    made = engine(member("p1", 3), member("p2", None))
    assert attempted(made) == held("p1", TOO_FEW.format(2, 3))
    assert attempted(made) == held("p2", TOO_FEW.format(2, 3))
    less = PodUpdated(pod=member("p1", 2))
    woken_up = [moved("p1", "PodUpdate"), moved("p2", "GroupChange")]
    assert observed(made, less, at=SECOND) == [less, *woken_up]


def test_those_in_backoff_are_called_too() -> None:
    """One that another scheduler has placed wakes them; the next one does not wait until their time
    has come."""
    made = engine(member("p1"), member("p2"))
    attempted(made)
    attempted(made)
    (theirs,) = added(member("p3", node_name="n1"))
    woken_up = [moved(name, "GroupChange") for name in ("p1", "p2")]
    in_backoff = [replace(each, queue=Queue.BACKOFF) for each in woken_up]
    assert observed(made, theirs) == [theirs, *in_backoff]
    observed(made, *added(member("p4")))
    called = [moved(name, "ForceActivate") for name in ("p1", "p2")]
    assert attempted(made) == [waits("p4"), *called]
