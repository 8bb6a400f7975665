"""Coscheduling: pods of a group go together or not at all."""

import msgspec
import pytest

from eventsched.domain import records
from eventsched.domain.errors import InputError
from eventsched.domain.objects import Node, Pod
from eventsched.domain.records import (
    Outcome,
    PermitGranted,
    PodUnreserved,
    Queue,
    VerdictDefined,
)
from eventsched.domain.records.verdicts import Code, Verdict
from eventsched.plugins.gallery.coscheduling import Coscheduling
from eventsched.plugins.scheduling_gates import SchedulingGates
from eventsched.scheduling.framework import Cycle, Status
from eventsched.scheduling.framework.per_node_plugins import adapted
from eventsched.scheduling.framework.pod_groups import MINIMUM, NAMES, TIMEOUT
from eventsched.testing import typed
from tests.builders import (
    SECOND,
    active,
    added,
    attempted,
    engine_of,
    engine_with,
    make_node,
    make_pod,
    observed,
    parked,
    refused,
    scheduled,
)
from tests.gangs import (
    GANG,
    LEFT,
    TICK,
    Room,
    engine,
    goes,
    held,
    member,
    moved,
    placed,
    sent_back,
    settle,
    waits,
)

# --- all --------------------------------------------------------------------------------------


def test_the_last_one_lets_all_go() -> None:
    """In the order in which they came; one more goes at once."""
    made = engine(*(member(name) for name in ("p1", "p2", "p3", "p4")))
    assert attempted(made) == [waits("p1")]
    assert attempted(made) == [waits("p2")]
    assert attempted(made) == [scheduled("p3"), *goes("p1", "p3"), *goes("p2", "p3")]
    assert attempted(made) == [scheduled("p4")]
    assert made.due is None


def test_what_is_in_no_group_is_left_alone() -> None:
    """One pod by itself."""
    assert attempted(engine(make_pod())) == [scheduled()]


@pytest.mark.parametrize("key", NAMES)
def test_pods_may_say_it_in_annotations(key: str) -> None:
    """By either name, one pod for all."""
    pods = [make_pod("p1", annotations={key: "g", MINIMUM: "2", TIMEOUT: "2m"})]
    made = engine(*pods, make_pod("p2", annotations={key: "g"}))
    assert attempted(made) == [waits("p1", 120)]
    assert attempted(made) == [scheduled("p2"), *goes("p1", "p2")]


def test_groups_are_of_a_namespace() -> None:
    """The same name elsewhere is another one."""
    made = engine(member("p1", 2), member("p2", 2, namespace="other"))
    assert attempted(made) == held("p1", "pod group default/g has 1 of the 2 pods that it needs")


def test_how_long_they_wait() -> None:
    """As the arguments say."""
    made = engine(*(member(f"p{n}", 2) for n in (1, 2)), permitWaitingTimeSeconds=5)
    assert attempted(made) == [waits("p1", 5)]


# --- too few ----------------------------------------------------------------------------------


def test_they_wait_until_there_are_enough() -> None:
    """The one that makes them complete calls the others, whose backoff does not matter."""
    made = engine(member("p1"), member("p2"))
    few = "pod group default/g has 2 of the 3 pods that it needs"
    assert attempted(made) == held("p1", few)
    assert attempted(made) == held("p2", few)
    came = [*added(member("p3")), active("p3")]
    complete = [moved(uid, "GroupChange", queue=Queue.BACKOFF) for uid in ("p1", "p2")]
    assert observed(made, *added(member("p3"))) == [*came, *complete]
    assert attempted(made) == [
        waits("p3"), moved("p1", "ForceActivate"), moved("p2", "ForceActivate"),
    ]  # fmt: skip
    assert attempted(made) == [waits("p1", attempt=2)]
    last = scheduled("p2", attempt=2)
    assert attempted(made) == [last, *goes("p1", "p2", 2), *goes("p3", "p2")]


def test_nobody_says_how_many() -> None:
    """Then none goes."""
    said = f"pod group default/g: none of its pods says how many it needs ({MINIMUM})"
    assert attempted(engine(member("p1", None))) == held("p1", said)


@pytest.mark.parametrize("text", ["abc", "1e9", "", "0", "-1", "2.0"])
def test_a_minimum_that_is_no_number(text: str) -> None:
    """Holds that pod, which does not count as a member."""
    made = engine(member("p1", text), member("p2", 2))
    said = f"{MINIMUM} is {text!r}, a whole number above 0 is needed"
    assert attempted(made) == held("p1", f"pod group default/g: {said}")
    assert attempted(made) == held("p2", "pod group default/g has 1 of the 2 pods that it needs")


@pytest.mark.parametrize("text", ["soon", "-1s", "0s", ""])
def test_a_timeout_that_is_no_duration(text: str) -> None:
    """Holds that pod; its update wakes it."""
    made = engine(member("p1", 1, more={TIMEOUT: text}))
    said = f"{TIMEOUT} is {text!r}, a duration such as 2m is needed"
    assert attempted(made) == held("p1", f"pod group default/g: {said}")
    mended = records.PodUpdated(pod=member("p1", 1))
    assert observed(made, mended, at=SECOND) == [mended, moved("p1", "PodUpdate")]
    assert attempted(made) == [scheduled("p1", attempt=2)]


@pytest.mark.parametrize("seconds", [0, -1, 901])
def test_arguments_out_of_range(seconds: int) -> None:
    """Are refused with the field's name."""
    with pytest.raises(InputError, match="permitWaitingTimeSeconds"):
        typed(Coscheduling, permitWaitingTimeSeconds=seconds)


# --- or none ----------------------------------------------------------------------------------


def test_one_that_finds_no_node_sends_the_others_back() -> None:
    """At once; from then on it is tried alone."""
    made = engine(*(member(name) for name in ("p1", "p2", "p3")), room=2)
    assert attempted(made) + attempted(made) == [waits("p1"), waits("p2")]
    why = f"{LEFT}default/p3 found no node"
    backs_off = msgspec.structs.replace(
        moved("p3", "AssignedPodDelete", "Room"), queue=Queue.BACKOFF
    )
    first, *rest = sent_back("p1", why)
    assert attempted(made) == [
        VerdictDefined(
            number=1, verdict=Verdict(plugin="Room", code=Code.UNSCHEDULABLE, reasons=("full",))
        ),
        refused("p3", "0/1 nodes are available: 1 full.", counts=((1, 1),)),
        parked("p3", "Room"),
        first,
        backs_off,
        *rest,
        *sent_back("p2", why),
    ]
    observed(made, *added(member("p4")))
    made.schedule_next()
    assert placed(made) == set()


def test_who_is_in_the_way_is_named() -> None:
    """The others wait for it."""
    gated = member("p1", 2, gates=("later",))
    made = engine(gated, member("p2", 2), others=(SchedulingGates(),))
    why = "pod group default/g waits for default/p1, refused by SchedulingGates"
    assert attempted(made) == held("p2", why)
    observed(made, records.PodUpdated(pod=member("p1", 2)), at=1)
    one, *called = attempted(made)
    assert (one.uid, one.outcome) == ("p1", Outcome.WAITING)
    assert called == [moved("p2", "ForceActivate")]
    settle(made)
    assert placed(made) == {"p1", "p2"}


def test_one_in_the_way_does_not_matter_where_there_are_enough_others() -> None:
    """A third one comes for it."""
    gated = member("p1", 2, gates=("later",))
    made = engine(gated, member("p2", 2), others=(SchedulingGates(),))
    attempted(made)
    observed(made, *added(member("p3", 2)))
    assert attempted(made) == [waits("p3"), moved("p2", "ForceActivate")]
    assert attempted(made) == [scheduled("p2", attempt=2), *goes("p3", "p2")]


def test_a_group_that_is_another_without_one_pod_is_tried_again() -> None:
    """The one in the way goes, and with it what it had said."""
    gated = member("p1", 3, gates=("later",))
    made = engine(gated, member("p2", 2), member("p3", 2), others=(SchedulingGates(),))
    attempted(made)
    attempted(made)
    gone = records.PodDeleted(uid="p1")
    woken_up = [moved("p2", "GroupChange"), moved("p3", "GroupChange")]
    assert observed(made, gone, at=SECOND) == [gone, *woken_up]
    settle(made)
    assert placed(made) == {"p2", "p3"}


class Picky:
    """Refuses some pods."""

    name = "Picky"

    def __init__(self, *pods: str) -> None:
        self.pods = pods

    def filter_node(self, pod: Pod, node: Node) -> Status | str | None:
        return Status.unschedulable("no") if pod.name in self.pods else None


def test_those_that_wait_keep_their_nodes_as_long_as_there_are_enough_others() -> None:
    """Four of which three have to go: one may find no node."""
    made = engine(*(member(f"p{n}") for n in range(1, 5)), others=(adapted(Picky("p2")),))
    assert attempted(made) == [waits("p1")]
    _, decided, queued = attempted(made)
    assert (decided.uid, queued) == ("p2", parked("p2", "Picky"))
    assert attempted(made) == [waits("p3")]
    assert attempted(made) == [scheduled("p4"), *goes("p1", "p4"), *goes("p3", "p4")]


def test_two_that_found_no_node_do_not_wait_for_each_other() -> None:
    """Each is tried; also when the group has become smaller since."""
    picky = Picky("p3", "p4")
    made = engine(*(member(f"p{n}") for n in range(1, 5)), others=(adapted(picky),))
    settle(made)
    assert placed(made) == set()
    observed(made, records.PodDeleted(uid="p1"), at=made.state.now)
    picky.pods = ()
    observed(made, *added(make_node("n2")), at=made.state.now + 60 * SECOND)
    first, *_ = attempted(made)
    assert (first.uid, first.outcome) == ("p3", Outcome.WAITING)
    settle(made)
    assert placed(made) == {"p2", "p3", "p4"}


def test_the_first_one_in_the_way_is_named() -> None:
    """Of two."""
    gated = [member(name, 2, gates=("later",)) for name in ("p1", "p2")]
    made = engine(*gated, member("p3", 2), others=(SchedulingGates(),))
    why = "pod group default/g waits for default/p1, refused by SchedulingGates"
    assert attempted(made) == held("p3", why)


def test_the_last_one_to_come_is_in_the_way() -> None:
    """Those that were refused when there were too few get the present number."""
    made = engine(member("p1", 2), others=(adapted(Picky("p2")),))
    few = "pod group default/g has 1 of the 2 pods that it needs"
    assert attempted(made) == held("p1", few)
    came = [*added(member("p2", 2)), active("p2")]
    assert observed(made, *added(member("p2", 2)), at=SECOND) == [*came, moved("p1", "GroupChange")]
    assert attempted(made) == [waits("p1", attempt=2, seconds=61)]
    why = "pod group default/g goes together, default/p2 found no node"
    assert PodUnreserved(uid="p1", node="n1", plugin=GANG, message=why) in attempted(made)


def test_one_that_somebody_else_has_bound_is_in_nobodys_way() -> None:
    """Though it was refused before."""
    gated = member("p1", 2, gates=("later",))
    made = engine(gated, member("p2", 2), others=(SchedulingGates(),))
    attempted(made)
    bound = records.PodUpdated(pod=member("p1", 2, node_name="n1"))
    assert observed(made, bound, at=SECOND)[1:] == [moved("p2", "GroupChange")]
    assert attempted(made) == [scheduled("p2", attempt=2)]


def test_one_that_the_group_itself_holds_sends_nobody_back() -> None:
    """The group needs more than there are since it says so: those that waited are back already."""
    made = engine(*(member(name) for name in ("p1", "p2", "p3")))
    attempted(made)
    attempted(made)
    observed(made, records.PodUpdated(pod=member("p3", 5)))
    assert attempted(made) == held("p3", "pod group default/g has 3 of the 5 pods that it needs")


def test_a_wait_that_lasts_too_long_ends_for_all() -> None:
    """The third one's turn does not come in time."""
    made = engine(member("p1"), member("p2"), member("p3", None))
    assert attempted(made) + attempted(made) == [waits("p1"), waits("p2")]
    late = 'pod "default/p1" rejected while waiting on permit: rejected due to timeout at plugin '
    assert observed(made, TICK, at=60 * SECOND) == [
        TICK,
        *sent_back("p1", late + GANG, 61 * SECOND),
        *sent_back("p2", f"{LEFT}default/p1 had to leave n1", 61 * SECOND),
    ]


def test_one_that_breaks_after_it_found_a_node_lets_nobody_go() -> None:
    """Though it was the last that was needed."""

    class Broken:
        """Raises for p3, after Permit."""

        name = "Broken"

        def pre_bind(self, cycle: Cycle, pod: Pod, node: str) -> None:
            if pod.name == "p3":
                raise LookupError("no")

    made = engine(*(member(name) for name in ("p1", "p2", "p3")), others=(Broken(),))
    attempted(made)
    attempted(made)
    said = attempted(made)
    assert [r.uid for r in said if isinstance(r, PodUnreserved)] == ["p1", "p2"]
    assert not [r for r in said if isinstance(r, PermitGranted)]


def test_one_that_is_deleted_while_it_waits() -> None:
    """Too few are left."""
    made = engine(*(member(name) for name in ("p1", "p2", "p3")))
    attempted(made)
    attempted(made)
    gone = records.PodDeleted(uid="p1")
    back = sent_back("p2", f"{LEFT}default/p1 had to leave n1")
    assert observed(made, gone) == [gone, *back]


def test_the_only_one_that_says_how_many_is_deleted() -> None:
    """While it waits; what it said holds for those that waited with it."""
    made = engine(member("p1"), *(member(name, None) for name in ("p2", "p3")))
    attempted(made)
    attempted(made)
    gone = records.PodDeleted(uid="p1")
    back = sent_back("p2", f"{LEFT}default/p1 had to leave n1")
    assert observed(made, gone) == [gone, *back]


def test_many_go_back_one_after_the_other() -> None:
    """As many as would be too many calls within calls."""
    made = engine(*(member(f"p{n}", 400) for n in range(400)), room=399)
    attempts = 0
    while not made.idle:
        made.schedule_next()
        attempts += 1
    assert (attempts, placed(made)) == (400, set())
    assert not made.state.reservations


# --- several ----------------------------------------------------------------------------------


def test_groups_that_come_interleaved_do_not_hold_each_other_up() -> None:
    """Each would hold a part of what the other needs."""
    pods = [member(f"{group}{n}", 3, group) for n in range(3) for group in "ab"]
    made = engine(*pods, room=4)
    settle(made)
    first = placed(made)
    assert len({uid[0] for uid in first}) == 1
    assert len(first) == 3
    for uid in sorted(first):
        observed(made, records.PodDeleted(uid=uid), at=made.state.now)
    settle(made)
    assert placed(made) == {each.uid for each in pods} - first


def test_groups_that_do_not_fit_leave_each_other_in_peace() -> None:
    """They do not wake each other forever, and a small pod has the room."""
    pods = [member(f"{group}{n}", 5, group) for n in range(5) for group in "ab"]
    made = engine(*pods, make_pod("small"), room=4)
    settle(made)
    assert placed(made) == {"small"}


def test_the_queue_keeps_a_group_together() -> None:
    """By priority, then by the age of the oldest; also of one that came late."""
    pods = [
        member("a1", 9, "a", created_at=5),
        member("b1", 9, "b", created_at=4),
        make_pod("alone", created_at=3),
        member("b2", 9, "b", created_at=6),
        make_pod("later", created_at=5),
        make_pod("urgent", created_at=9, priority=1),
        member("a2", 9, "a", created_at=2),
    ]
    made = engine_with(points={"queueSort": [Coscheduling()]})
    observed(made, *added(make_node(), *pods))
    order = []
    while not made.idle:
        order += [r.uid for r in attempted(made) if isinstance(r, records.PodDecided)]
    assert order == ["urgent", "a1", "a2", "alone", "b1", "b2", "later"]


def test_a_restart_goes_on_with_the_same_deadline() -> None:
    """And with the same pods in the groups, from records as from a snapshot."""
    pods = [member(name) for name in ("p1", "p2", "p3")]
    live, folded, restored = engine(), engine(), engine_of(Coscheduling(), Room())
    logged = [each for pod in added(*pods) for each in live.observe(pod, 0)]
    logged += live.schedule_next()
    for each in logged:
        folded.apply(each)
    restored.restore(live.snapshot(), live.position)
    for made in (live, folded, restored):
        assert made.due == 60 * SECOND
        assert attempted(made) == [waits("p2")]
        assert attempted(made) == [scheduled("p3"), *goes("p1", "p3"), *goes("p2", "p3")]
