"""Each of the seven status codes at each extension point that returns a status.

The expectations are the rules of upstream's pkg/scheduler/framework/runtime/framework.go and, for
PreEnqueue, pkg/scheduler/backend/queue/scheduling_queue.go.
"""

from typing import Any

import numpy as np
import pytest

from eventsched.domain import records
from eventsched.domain.records import Outcome, PodDecided, PodQueued, Queue
from eventsched.domain.records.verdicts import Code
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import Status
from tests.builders import added, attempted, engine_of, make_node, make_pod, observed

SCHEDULED, REFUSED, BROKEN = Outcome.SCHEDULED, Outcome.UNSCHEDULABLE, Outcome.ERROR
REJECTIONS = (Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.PENDING)


class Answering:
    """A plugin with one extension point, which answers with one status."""

    def __init__(self, point: str, status: Status, name: str = "Answering") -> None:
        self.name = name
        self.asked = 0
        setattr(self, point, self._answer)
        if point == "pre_score":
            self.score = lambda cycle, pod, nodes: np.zeros(len(nodes), dtype=np.int64)
        self._status = status

    def _answer(self, *arguments: Any) -> Status:
        self.asked += 1
        return self._status


class Refusing:
    """A filter that refuses every node with a status."""

    name = "Refusing"

    def __init__(self, status: Status) -> None:
        self._status = status

    def filter(self, cycle: Any, pod: Any, nodes: Any) -> Any:
        """Code 1 for each node."""
        return np.ones(len(nodes), dtype=np.int64)

    def explain(self, cycle: Any, pod: Any, code: int) -> Status:
        """What code 1 stands for."""
        return self._status


def decisions(engine: Engine) -> list[PodDecided]:
    """The decisions of the next attempt."""
    return [record for record in attempted(engine) if isinstance(record, PodDecided)]


def outcome_of(*plugins: Any) -> tuple[Outcome, str]:
    """The outcome of one pod's attempt, and the plugin that the decision names."""
    engine = engine_of(*plugins)
    observed(engine, *added(make_node("a"), make_node("b"), make_pod()))
    (decided,) = decisions(engine)
    return decided.outcome, decided.plugin


def expected(scheduled: tuple[Code, ...], rejected: tuple[Code, ...]) -> dict[Code, Outcome]:
    """The outcome for each code: an error for those that are in neither list."""
    return {
        code: SCHEDULED if code in scheduled else REFUSED if code in rejected else BROKEN
        for code in Code
    }


OUTCOMES = {
    # Upstream's RunPreFilterPlugins makes an error of Pending; here it is a refusal, as elsewhere.
    "pre_filter": expected((Code.SUCCESS, Code.SKIP), REJECTIONS),
    "pre_score": expected((Code.SUCCESS, Code.SKIP), ()),
    "reserve": expected((Code.SUCCESS,), REJECTIONS),
    "permit": expected((Code.SUCCESS,), REJECTIONS),
    "pre_bind": expected((Code.SUCCESS,), REJECTIONS),
    "bind": expected((Code.SUCCESS,), REJECTIONS),
}


@pytest.mark.parametrize("code", list(Code))
@pytest.mark.parametrize("point", OUTCOMES)
def test_status_of_one_plugin(point: str, code: Code) -> None:
    """Success, a refusal or an error; whatever is not a success names the plugin."""
    reasons = () if code is Code.SUCCESS else ("because",)
    outcome, plugin = outcome_of(Answering(point, Status(code, reasons)))
    assert outcome is OUTCOMES[point][code]
    assert plugin == ("" if outcome is SCHEDULED else "Answering")


@pytest.mark.parametrize("code", list(Code))
def test_status_of_pre_enqueue(code: Code) -> None:
    """Any code except Success holds the pod at the gate."""
    engine = engine_of(Answering("pre_enqueue", Status(code, ("because",))))
    queued = [
        record
        for record in observed(engine, *added(make_node(), make_pod()))
        if isinstance(record, PodQueued)
    ]
    gate = Queue.ACTIVE if code is Code.SUCCESS else Queue.GATED
    assert [record.queue for record in queued] == [gate]


@pytest.mark.parametrize("code", [code for code in Code if code is not Code.SUCCESS])
def test_status_of_filter(code: Code) -> None:
    """A refusal of the node for the three rejections, an error of the attempt for the others."""
    outcome, _ = outcome_of(Refusing(Status(code, ("because",))))
    assert outcome is (REFUSED if code in REJECTIONS else BROKEN)


@pytest.mark.parametrize("code", list(Code))
def test_status_of_post_filter(code: Code) -> None:
    """The pod stays refused in any case. The next plugin is asked after Unschedulable and
    Pending only."""
    first = Answering("post_filter", Status(code, ("because",)), "First")
    second = Answering("post_filter", Status.unschedulable("later"), "Second")
    outcome, _ = outcome_of(Refusing(Status.unschedulable("no")), first, second)
    assert outcome is REFUSED
    assert (first.asked, second.asked) == (1, code in (Code.UNSCHEDULABLE, Code.PENDING))


@pytest.mark.parametrize("later", [Code.UNRESOLVABLE, Code.UNSCHEDULABLE, Code.ERROR])
def test_pre_filter_goes_on_after_unschedulable(later: Code) -> None:
    """Unschedulable leaves the other plugins to be asked; a graver answer of theirs wins."""
    first = Answering("pre_filter", Status.unschedulable("first"), "First")
    second = Answering("pre_filter", Status(later, ("second",)), "Second")
    outcome, plugin = outcome_of(first, second)
    assert second.asked == 1
    assert (outcome, plugin) == (BROKEN if later is Code.ERROR else REFUSED, "Second")


def test_bind_skipped_by_all_is_an_error() -> None:
    """No plugin is left to bind the pod."""
    outcome, _ = outcome_of(Answering("bind", Status.skip()), Answering("bind", Status.skip(), "B"))
    assert outcome is BROKEN


def test_a_success_is_bound() -> None:
    """The control: without a plugin in its way the pod is bound."""
    engine = engine_of(Answering("post_bind", Status(Code.SUCCESS)))
    observed(engine, *added(make_node(), make_pod()))
    (decided,) = decisions(engine)
    assert decided.outcome is SCHEDULED
    bound = observed(engine, records.BindSucceeded(uid="p1", node="n1"))
    assert records.PodBound(uid="p1", node="n1", attempt=1) in bound
