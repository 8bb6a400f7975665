"""A stream that goes on with another configuration: who is tried again, who leaves, what stays."""

import pytest
from msgspec.structs import replace

from eventsched.domain import records
from eventsched.domain.behaviours import Behaviour
from eventsched.domain.objects import Node, Pod
from eventsched.domain.records import Outcome, PodDecided, PodUnreserved, Queue, TermBegan
from eventsched.domain.records.stimuli import in_force
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.eventlog.port import Batch, StoredRecord
from eventsched.history.replay import stream_replay
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import Cycle, Status, Wait
from tests.builders import (
    PROFILE,
    SECOND,
    active,
    added,
    attempted,
    engine_of,
    engine_with,
    make_node,
    make_pod,
    observed,
    scheduled,
)

SAME = TermBegan(epoch=2, token="00000002")
OTHER = TermBegan(epoch=2, token="00000002", engine="2", inputs={"configuration": "2"})
OURS = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
RENAMED = OURS + "profiles: [{schedulerName: other}]\n"


class Never:
    """Refuses every node, holds every pod at a gate, or lets it wait."""

    name = "Never"
    wakes_on = ()

    def __init__(self, point: str) -> None:
        setattr(self, point, getattr(self, f"_{point}"))

    def _filter_node(self, pod: Pod, node: Node) -> Status:
        return Status.unschedulable("never")

    def _pre_enqueue(self, pod: Pod) -> Status:
        return Status.unresolvable("never")

    def _permit(self, cycle: Cycle, pod: Pod, node: str) -> Wait:
        return Wait(100)


def successor(engine: Engine, other: Engine) -> Engine:
    """The other engine with the state of the first."""
    other.restore(engine.snapshot(), engine.position)
    return other


@pytest.mark.parametrize("point", ["filter_node", "pre_enqueue"])
def test_who_waits_is_tried_again(point: str) -> None:
    """The plugin that refused it, or held it, does not run any more."""
    engine = engine_of(Never(point))
    observed(engine, *added(make_node(), make_pod()))
    attempted(engine)
    other = successor(engine, engine_of(NodeResourcesFit()))
    came = observed(other, OTHER, at=1)
    assert came[0] == OTHER
    assert [type(each).__name__ for each in came] == ["TermBegan", "PodQueued"]
    assert (came[1].queue, came[1].cause) == (Queue.ACTIVE, "Reconfigured")
    [*_, decided] = attempted(other)
    assert isinstance(decided, PodDecided)
    assert decided.node == "n1"


def test_waiting_pods_are_retried_in_order_whatever_was_loaded() -> None:
    """A snapshot has the pods with a reservation first, so the order of a loaded state depends on
    when its snapshot was made."""
    engine = engine_of(NodeResourcesFit())
    observed(engine, *added(make_node(cpu=1000), make_pod("a"), make_pod("b", priority=5)))
    attempted(engine)
    loaded = successor(engine, engine_of(NodeResourcesFit()))
    assert list(loaded.state.pods) == ["b", "a"]
    retried = []
    for each in (engine, loaded):
        attempted(each)
        observed(each, records.BindFailed(uid="b", node="n1", message="no"))
        attempted(each)
        began = observed(each, replace(OTHER, flags=(Behaviour.RETRIES_IN_ORDER,)), at=1)
        retried.append([event.uid for event in began[1:]])
    assert retried == [["a", "b"]] * 2


def test_a_term_with_the_same_configuration_moves_nobody() -> None:
    """It is a fact, and nothing else."""
    engine = engine_of(Never("filter_node"))
    observed(engine, *added(make_node(), make_pod()))
    attempted(engine)
    assert observed(successor(engine, engine_of(Never("filter_node"))), SAME, at=1) == [SAME]


def test_pods_of_a_new_profile_are_ours_from_now_on() -> None:
    """Those of one that is gone leave by an attempt that says so; bound pods are not touched."""
    engine = engine_with()
    observed(
        engine,
        *added(
            make_node(),
            make_pod("bound", node_name="n1"),
            make_pod("theirs", scheduler_name="other"),
            make_pod("ours"),
        ),
    )
    other = successor(engine, engine_with(config=RENAMED))
    assert observed(other, OTHER, at=1) == [OTHER, active("theirs", "Reconfigured")]
    assert attempted(other) == [
        PodDecided(
            uid="ours", attempt=1, profile=PROFILE, outcome=Outcome.ERROR,
            message=f"no profile is named {PROFILE}",
        )
    ]  # fmt: skip
    [*_, decided] = attempted(other)
    assert (decided.uid, decided.profile) == ("theirs", "other")
    assert attempted(other) == []


def test_who_waits_at_permit_for_a_plugin_that_is_gone_is_given_up() -> None:
    """And tried again after its backoff."""
    engine = engine_of(Never("permit"))
    observed(engine, *added(make_node(), make_pod()))
    attempted(engine)
    other = successor(engine, engine_of())
    unreserved, queued = observed(other, OTHER, at=1)[1:]
    assert unreserved == PodUnreserved(
        uid="p1", node="n1", plugin="Never", message="does not run any more"
    )
    assert queued.queue is Queue.BACKOFF
    [_, queued] = observed(other, records.TimePassed(), at=2 * SECOND)
    assert attempted(other) == [scheduled(attempt=2)]


def test_an_intent_to_bind_outlives_its_profile() -> None:
    """It was promised; if it fails, there is no retry."""
    engine = engine_with()
    observed(engine, *added(make_node(), make_pod("p1"), make_pod("p2")))
    attempted(engine)
    attempted(engine)
    other = successor(engine, engine_with(config=RENAMED))
    assert observed(other, OTHER, at=1) == [OTHER]
    came = observed(other, records.BindSucceeded(uid="p1", node="n1"), at=2)
    assert came[1:] == [records.PodBound(uid="p1", node="n1", attempt=1)]
    failed = records.BindFailed(uid="p2", node="n1", message="refused")
    assert [type(each).__name__ for each in observed(other, failed, at=2)] == [
        "BindFailed", "PodUnreserved", "PodQueued",
    ]  # fmt: skip
    observed(other, records.TimePassed(), at=5 * SECOND)
    assert [each.outcome for each in attempted(other)] == [Outcome.ERROR]
    assert other.due is None


def test_what_is_in_force_is_part_of_a_snapshot_but_not_of_the_digest() -> None:
    """It changes no decision by itself."""
    engine = engine_of()
    observed(engine, records.StreamStarted(format=1, engine="1", seed="s"))
    before = engine.state.digest()
    observed(engine, OTHER, at=1)
    assert engine.state.in_force == in_force(OTHER)
    assert successor(engine, engine_of()).state.in_force == in_force(OTHER)
    observed(engine, SAME, at=1)
    assert engine.state.in_force == in_force(OTHER)
    assert isinstance(before, str)


def test_a_replay_goes_on_with_the_engine_that_was_in_force() -> None:
    """Decisions come out as they were; with the first engine alone they do not."""
    log = MemoryEventLog()

    def write(logged: list) -> list:  # type: ignore[type-arg]
        if logged:
            log.begin(Batch([StoredRecord.of(each) for each in logged], {}))
        return logged

    def strict() -> Engine:
        return engine_of(Never("filter_node"))

    def lenient(_: object = None) -> Engine:
        return engine_of(NodeResourcesFit())

    engine = strict()
    for stimulus in (
        records.StreamStarted(format=1, engine="1", seed="s"),
        *added(make_node(), make_pod("p1"), make_pod("p2")),
    ):
        write(engine.observe(stimulus, 0))
    while write(engine.schedule_next()):
        pass
    other = successor(engine, lenient())
    write(other.observe(OTHER, 1))
    while write(other.schedule_next()):
        pass
    done = stream_replay.verify(strict, log, engine_of_term=lenient)
    assert (done.divergence, done.records) == (None, log.head)
    assert done.engine.state.digest() == other.state.digest()
    assert stream_replay.verify(strict, log, 12, engine_of_term=lenient).divergence is None
    alone = stream_replay.verify(strict, log)
    assert alone.divergence is not None
    wrong = stream_replay.verify(lenient, log, engine_of_term=lenient)
    assert wrong.divergence is not None
