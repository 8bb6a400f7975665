"""What another scheduler is answered that asks us as its extender: the records, step by step."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from eventsched.domain import records
from eventsched.domain.behaviours import CURRENT, Behaviour
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.records import (
    FORMAT,
    BindIntended,
    ExtenderInquired,
    ExtenderReplied,
    MemoryChanged,
    PodBound,
    PodUnreserved,
    StreamStarted,
    Victims,
)
from eventsched.domain.records.extender_records import BIND, FILTER, PREEMPT, PRIORITIZE
from eventsched.domain.records.stimuli import SERVES
from eventsched.plugins.gallery.first_scheduled_node import FirstScheduledNode
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.plugins.node_unschedulable import NodeUnschedulable
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import Cycle, Status
from eventsched.testing import typed
from tests.builders import PROFILE, added, engine_of, make_node, make_pod, observed

UNIT = 1000
"""Milli-cpu of the pods here, unless something else is said."""


class ByNumber:
    """Scores n3 with 3."""

    name = "ByNumber"

    def score_node(self, pod: Any, node: Any) -> int:
        """See the class."""
        return int(node.name[1:])


class Broken:
    """Fails."""

    name = "Broken"

    def filter(self, cycle: Cycle, pod: Any, nodes: NodeView) -> None:
        """See the class."""
        raise RuntimeError("oh")


class Selfish:
    """PreFilter refuses every pod."""

    name = "Selfish"

    def pre_filter(self, cycle: Cycle, pod: Any, nodes: NodeView | None) -> Status:
        """See the class."""
        return Status.unresolvable("not today")


def serving(*plugins: Any, nodes: int = 4, flags: Sequence[int] = ()) -> Engine:
    """An engine that serves its profile, with nodes n0, n1… of 4 cpu; n1 is full, nothing may come
    to n2."""
    engine = engine_of(*(plugins or (NodeUnschedulable(), NodeResourcesFit())))
    opening = StreamStarted(
        format=FORMAT, engine="test", seed="s", inputs={SERVES: PROFILE}, flags=tuple(flags)
    )
    observed(engine, opening)
    made = [make_node(f"n{number}", unschedulable=number == 2) for number in range(nodes)]
    observed(engine, *added(*made))
    if nodes > 1:
        observed(engine, *added(make_pod("full", cpu=4000, node_name="n1")))
    return engine


def asked(verb: str, uid: str = "p1", **more: Any) -> ExtenderInquired:
    return ExtenderInquired(number=7, uid=uid, verb=verb, **more)


def replied(verb: str, uid: str = "p1", **more: Any) -> ExtenderReplied:
    return ExtenderReplied(number=7, uid=uid, verb=verb, **more)


def told(engine: Engine, question: ExtenderInquired) -> list[records.Record]:
    """What follows from a question."""
    return observed(engine, question)[1:]


def again(engine: Engine) -> None:
    """The state survives a snapshot."""
    other = engine_of(NodeUnschedulable(), NodeResourcesFit())
    other.restore(engine.snapshot(), engine.position)
    assert other.state.digest() == engine.state.digest()
    assert other.state.serves == PROFILE


def test_pods_are_the_others() -> None:
    """Even if a profile has their schedulerName."""
    engine = serving()
    came = observed(engine, *added(make_pod()))
    assert came == added(make_pod())
    assert engine.idle
    assert observed(engine, records.NodeUpdated(node=make_node("n2")))[1:] == []
    assert engine.schedule_next() == []


def test_filter_tells_who_refuses_and_why() -> None:
    engine = serving()
    observed(engine, *added(make_pod(cpu=UNIT)))
    assert told(engine, asked(FILTER, nodes="0-3", strange=("n9",))) == [
        replied(
            FILTER,
            failed={"Insufficient cpu": "1"},
            unresolvable={"node(s) were unschedulable": "2"},
        )
    ]
    assert told(engine, asked(FILTER, nodes="0,3")) == [replied(FILTER)]
    again(engine)


def test_a_pod_that_is_not_known_is_taken_as_it_was_sent() -> None:
    engine = serving()
    sent = make_pod("p9", cpu=5000)
    assert told(engine, asked(FILTER, "p9", sent=sent, nodes="0")) == [
        replied(FILTER, "p9", unresolvable={"Insufficient cpu": "0"})
    ]
    assert told(engine, asked(FILTER, "p9", nodes="0")) == [
        replied(FILTER, "p9", problem="the pod is gone")
    ]


def test_a_node_that_goes_meanwhile_is_refused() -> None:
    engine = serving()
    observed(engine, *added(make_pod()), records.NodeDeleted(name="n3"))
    assert told(engine, asked(FILTER, nodes="0,3")) == [
        replied(FILTER, failed={"node(s) are not known to the extender any more": "3"})
    ]


def test_prefilter_refuses_all_nodes() -> None:
    engine = serving(Selfish())
    observed(engine, *added(make_pod()))
    assert told(engine, asked(FILTER, nodes="0-3")) == [
        replied(FILTER, unresolvable={"not today": "0-3"})
    ]
    assert told(engine, asked(PRIORITIZE, nodes="0-3")) == [replied(PRIORITIZE)]
    assert told(engine, asked(PREEMPT, nodes="0", candidates={"n0": Victims(uids=())})) == [
        replied(PREEMPT)
    ]


def test_a_plugin_that_fails_is_a_problem() -> None:
    engine = serving(Broken())
    observed(engine, *added(make_pod()))
    problem = "plugin Broken: filter raised RuntimeError: oh"
    [reply] = told(engine, asked(FILTER, nodes="0-3"))
    assert isinstance(reply, ExtenderReplied)
    assert problem.removeprefix("plugin ") in reply.problem or "Broken" in reply.problem
    assert msgspec.structs.replace(reply, problem="") == replied(FILTER)


@pytest.mark.parametrize(
    ("nodes", "scores"),
    [
        ("0-3", ((3, "1"), (7, "2"), (10, "3"))),
        ("0-2", ((5, "1"), (10, "2"))),
        ("0", ()),
        ("", ()),
    ],
)
def test_scores_are_in_proportion_to_the_best(
    nodes: str, scores: tuple[tuple[int, str], ...]
) -> None:
    engine = serving(ByNumber())
    observed(engine, *added(make_pod()))
    assert told(engine, asked(PRIORITIZE, nodes=nodes)) == [replied(PRIORITIZE, scores=scores)]


def test_who_is_refused_has_no_score() -> None:
    engine = serving(NodeUnschedulable(), ByNumber())
    observed(engine, *added(make_pod()))
    assert told(engine, asked(PRIORITIZE, nodes="0-3")) == [
        replied(PRIORITIZE, scores=((3, "1"), (10, "3")))
    ]


def test_candidates_are_left_where_the_pod_fits_without_the_victims() -> None:
    engine = serving()
    observed(engine, *added(make_pod("less", cpu=1000, node_name="n0"), make_pod(cpu=4000)))
    candidates = {
        "n0": Victims(uids=("less",), violations=1),
        "n1": Victims(uids=("nobody",)),
        "n2": Victims(uids=()),
        "n9": Victims(uids=()),
    }
    question = asked(PREEMPT, nodes="0-2", strange=("n9",), candidates=candidates)
    assert told(engine, question) == [replied(PREEMPT, victims={"n0": candidates["n0"]})]
    assert told(engine, asked(PREEMPT)) == [replied(PREEMPT)]


# --- bind ---------------------------------------------------------------------------------


def bound(engine: Engine, node: str = "n0") -> list[records.Record]:
    return told(engine, asked(BIND, node=node))


def test_a_bind_is_intended_and_ends_like_any_other() -> None:
    engine = serving()
    observed(engine, *added(make_pod(cpu=UNIT)))
    assert bound(engine) == [
        replied(BIND, node="n0", attempt=1, waits=True),
        BindIntended(uid="p1", node="n0", attempt=1),
    ]
    again(engine)
    # The room is taken from now on.
    observed(engine, *added(make_pod("p2", cpu=3500)))
    assert told(engine, asked(FILTER, "p2", nodes="0,3")) == [
        replied(FILTER, "p2", failed={"Insufficient cpu": "0"})
    ]
    assert bound(engine) == [replied(BIND, node="n0", waits=True)]
    assert bound(engine, "n3") == [replied(BIND, problem="the pod is being bound to n0")]
    ended = observed(engine, records.BindSucceeded(uid="p1", node="n0"))
    assert ended[1:] == [PodBound(uid="p1", node="n0", attempt=1)]
    assert bound(engine) == [replied(BIND, node="n0")]
    assert bound(engine, "n3") == [replied(BIND, problem="the pod is on n0 already")]


@pytest.mark.parametrize("verb", [FILTER, PRIORITIZE])
def test_a_pod_that_is_being_bound_is_not_judged(verb: str) -> None:
    """Its own reservation would count against it."""
    engine = serving(flags=CURRENT)
    observed(engine, *added(make_pod(cpu=3000)))
    bound(engine)
    assert told(engine, asked(verb, nodes="0,3")) == [
        replied(verb, problem="the pod is being bound to n0")
    ]
    observed(engine, records.BindFailed(uid="p1", node="n0", message="gone"))
    (judged,) = told(engine, asked(verb, nodes="0,3"))
    assert isinstance(judged, ExtenderReplied)
    assert judged.problem == ""


def test_logs_of_before_judge_a_pod_that_is_being_bound() -> None:
    engine = serving(flags=tuple(set(CURRENT) - {Behaviour.JUDGES_NO_OPEN_BIND}))
    observed(engine, *added(make_pod(cpu=3000)))
    bound(engine)
    assert told(engine, asked(FILTER, nodes="0,3")) == [
        replied(FILTER, failed={"Insufficient cpu": "0"})
    ]


def test_plugins_remember() -> None:
    """What they forget at a question, and what they keep at a bind."""
    engine = serving(typed(FirstScheduledNode, whenGone="forget"))
    observed(engine, *added(make_pod()))
    bound(engine)
    ended = observed(engine, records.BindSucceeded(uid="p1", node="n0"))
    first = MemoryChanged(
        plugin="FirstScheduledNode", key="default/p1", value={"node": "n0", "at": 0}
    )
    assert ended[1:] == [PodBound(uid="p1", node="n0", attempt=1), first]
    observed(engine, records.PodDeleted(uid="p1"), records.NodeDeleted(name="n0"))
    observed(engine, *added(make_pod()))
    assert told(engine, asked(FILTER, nodes="3")) == [
        replied(FILTER),
        MemoryChanged(plugin="FirstScheduledNode", key="default/p1"),
    ]


def test_a_bind_that_fails_leaves_the_pod_to_whoever_asked() -> None:
    engine = serving()
    observed(engine, *added(make_pod(cpu=UNIT)))
    bound(engine)
    void = records.BindVoided(uid="p1", node="n0", attempt=1, reason="no such thing")
    assert observed(engine, void) == [
        void,
        PodUnreserved(uid="p1", node="n0", message="no such thing"),
    ]
    assert engine.idle
    assert bound(engine, "n3") == [
        replied(BIND, node="n3", attempt=2, waits=True),
        BindIntended(uid="p1", node="n3", attempt=2),
    ]


@pytest.mark.parametrize(
    ("uid", "node", "problem"),
    [
        ("nobody", "n0", "the pod is not known (yet)"),
        ("p1", "n9", "node n9 is not known"),
        ("full", "n0", "the pod is on n1 already"),
        ("ends", "n0", "the pod is being deleted"),
    ],
)
def test_binds_that_cannot_be(uid: str, node: str, problem: str) -> None:
    engine = serving()
    observed(engine, *added(make_pod(), make_pod("ends", deleting=True)))
    assert told(engine, asked(BIND, uid, node=node)) == [replied(BIND, uid, problem=problem)]


def test_a_pod_that_goes_takes_its_reservation_along() -> None:
    engine = serving()
    observed(engine, *added(make_pod(cpu=UNIT)))
    bound(engine)
    gone = records.PodDeleted(uid="p1")
    assert observed(engine, gone) == [gone]
    assert engine.state.reservations == {}


def test_a_scheduler_answers_nobody() -> None:
    engine = engine_of(NodeResourcesFit())
    observed(engine, *added(make_node("n0"), make_pod()))
    assert told(engine, asked(FILTER, nodes="0")) == [
        replied(FILTER, problem="no profile is served")
    ]
    assert bound(engine) == [replied(BIND, problem="this scheduler places the pod itself")]
