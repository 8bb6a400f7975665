"""Hand-written stories, one for each rule of the log protocol; each ends badly without its rule.

Seeds meet some of these once in many thousand runs; here they happen every time. n0 has room for
one of the pods.
"""

from collections.abc import Callable

from eventsched.runtime.messages import Append, BindPod, EvictPod, Renew

from .invariants import ensure
from .stage import Stage

Scenario = Callable[[Stage], None]


def bind_before_commit(stage: Stage) -> None:
    """The database is slow: no bind may leave meanwhile."""
    leader = stage.lead("A")
    stage.hold(leader, Append)
    stage.pod("p1")
    stage.settle()
    ensure("p1" not in stage.api.placed, "p1 is bound, and the log knows nothing of it")


def eviction_before_commit(stage: Stage) -> None:
    """The database is slow: nobody may be evicted meanwhile."""
    leader = stage.lead("A")
    stage.pod("p1")
    stage.settle()
    stage.hold(leader, Append)
    stage.pod("p2", priority=1)
    stage.settle()
    ensure(not stage.api.pods["p1"].pod.deleting, "p1 is deleted, and the log knows nothing of it")


def eviction_of_a_dead_leader(stage: Stage) -> None:
    """A leader dies before its eviction arrives: the next one keeps the promise."""
    first = stage.lead("A")
    stage.pod("p1")
    stage.settle()
    stage.lose(first, EvictPod)
    stage.pod("p2", priority=1)
    stage.settle()
    stage.crash(first)
    second = stage.lead("B")
    stage.settle(5)
    ensure("p1" not in stage.api.pods, "p1 is still there")
    ensure(stage.api.placed["p2"].node == "n0", "p2 is not bound")
    made = [each for each in stage.database.records if each.kind == "PreemptionDecided"]
    ensure(len(made) == 1, f"{len(made)} preemptions")
    ensure(not second.leader.engine.state.preemptions.evicting, "an eviction is open")


def replaced_leader_writes(stage: Stage) -> None:
    """A leader that was replaced sees a new pod and wants to append."""
    old = stage.lead("A")
    old.paused_until = stage.now + 10**9
    stage.lead("B")
    old.paused_until = 0
    stage.pod("p1")
    stage.settle(1)
    ensure("A" not in stage.processes, "the replaced leader goes on")


def idle_leader_is_replaced(stage: Stage) -> None:
    """A leader without work learns within a heartbeat that it was replaced."""
    stage.lead("A")
    stage.lead("B")
    stage.settle(5)
    ensure("A" not in stage.processes, "the replaced leader does not know of it")


def late_bind_of_an_intent_given_up(stage: Stage) -> None:
    """A bind is on its way when its leader dies; the next one finds the node full, and gives the
    intent up; others take the room; then the bind arrives."""
    first = stage.lead("A")
    stage.hold(first, BindPod)
    stage.pod("p1")
    stage.settle()
    stage.crash(first)
    stage.foreign("intruder")
    stage.lead("B")
    stage.api.delete_pod("intruder")
    stage.pod("p2", priority=1)
    stage.settle(0.2)
    ensure("p2" in stage.api.placed, "p2 is not bound")
    stage.release()
    stage.settle(1)


def late_bind_after_takeover(stage: Stage) -> None:
    """A bind is on its way when its leader dies; the next one intends the same, and either of
    them binds the pod."""
    first = stage.lead("A")
    stage.hold(first, BindPod)
    stage.pod("p1")
    stage.settle()
    stage.crash(first)
    second = stage.start("B")
    stage.hold(second, BindPod)
    stage.settle(1)
    stage.release()
    stage.settle(1)
    ensure(stage.api.placed["p1"].decision.endswith("@" + first.leader.term.token.hex()[:8]),
           "another decision has bound p1")  # fmt: skip


def refused_bind_of_a_replaced_leader(stage: Stage) -> None:
    """A leader is replaced while its bind is on its way; its successor touches the pod and gives
    the intent up. The bind is refused: the replaced one must not try the new resourceVersion."""
    first = stage.lead("A")
    stage.hold(first, BindPod)
    stage.pod("p1")
    stage.settle()
    first.paused_until = stage.now + 10**9
    stage.foreign("intruder")
    stage.lead("B")
    stage.api.delete_pod("intruder")
    stage.pod("p2", priority=1)
    stage.settle(0.2)
    ensure("p2" in stage.api.placed, "p2 is not bound")
    stage.hold(first, Renew)
    stage.hold(first, Append)
    first.paused_until = 0
    stage.let_go(first, BindPod)
    stage.settle(1)


def late_bind_of_a_lost_intent(stage: Stage) -> None:
    """A failover loses an intent whose bind is on its way; the room is given to another pod."""
    first = stage.lead("A")
    stage.hold(first, BindPod)
    stage.pod("p1")
    stage.settle()
    stage.crash(first)
    stage.lose_batches(1)
    stage.pod("p2", priority=1)
    stage.lead("B")
    stage.settle(1)
    stage.release()
    stage.settle(1)


def lost_end_of_an_intent(stage: Stage) -> None:
    """An intent was given up and its room given to another pod; a failover loses all of that, and
    the log shows the intent as open."""
    first = stage.lead("A")
    stage.lose(first, BindPod)
    stage.pod("p1")
    stage.settle(0.1)
    kept = len(stage.database.batches)
    stage.settle(1)
    ensure(not first.leader.engine.state.reservations, "p1 was not given up")
    stage.release()
    stage.pod("p2", priority=1)
    stage.settle(0.1)
    ensure("p2" in stage.api.placed, "p2 is not bound")
    stage.crash(first)
    stage.lose_batches(len(stage.database.batches) - kept)
    stage.lead("B")
    stage.settle(5)


def failover_to_the_time_of_an_older_leader(stage: Stage) -> None:
    """A failover loses all that a leader wrote; its predecessor, paused since, finds the log as it
    left it. It must not go on: a bind that the lost log intended is still on its way."""
    stage.foreign("f1")
    first = stage.lead("A")
    stage.pod("p1", priority=1)
    stage.settle()
    stage.api.delete_pod("f1")
    stage.settle()
    kept = len(stage.database.batches)
    first.paused_until = stage.now + 10**9
    second = stage.lead("B")
    stage.hold(second, BindPod)
    stage.pod("p2")
    stage.settle()
    stage.crash(second)
    stage.lose_batches(len(stage.database.batches) - kept)
    stage.settle(2)
    first.paused_until = 0
    stage.settle(3)
    stage.release()
    stage.settle(1)


def foreign_bind_before_a_takeover(stage: Stage) -> None:
    """While nobody leads, somebody else takes the room that a pod in backoff is waiting for."""
    stage.foreign("f1")
    first = stage.lead("A")
    stage.pod("p1")
    stage.settle()
    stage.api.delete_pod("f1")
    stage.settle()
    ensure("p1" not in stage.api.placed, "p1 did not wait for the end of its backoff")
    stage.crash(first)
    stage.foreign("f2")
    stage.settle(3)
    stage.lead("B")
    stage.settle(3)


SCENARIOS: dict[str, tuple[Scenario, ...]] = {
    "bindfirst": (bind_before_commit,),
    "evictfirst": (eviction_before_commit,),
    "forgetsevictions": (eviction_of_a_dead_leader,),
    "noepoch": (replaced_leader_writes,),
    "noheartbeat": (idle_leader_is_replaced,),
    "nofence": (late_bind_of_an_intent_given_up,),
    "redecide": (late_bind_after_takeover,),
    "retrynolog": (refused_bind_of_a_replaced_leader,),
    "noquarantine": (late_bind_of_a_lost_intent,),
    "redoafterloss": (lost_end_of_an_intent,),
    "keepsterms": (failover_to_the_time_of_an_older_leader,),
    "nobarrier": (foreign_bind_before_a_takeover,),
}
"""By the mutant that they catch."""
