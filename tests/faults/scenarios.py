"""Scripted scenarios, one for each rule of fencing and recovery. Each fails without its rule.

Random seeds reach some of them only once in many thousand runs; here they happen every time. n0 has
room for one of the pods.
"""

from collections.abc import Callable

from eventsched.cluster.messages import BindPod, EvictPod, PatchStatus, WriteEvent
from eventsched.runtime.leader.leader_messages import Append, Renew
from tests.builders import make_node

from .invariants import ensure
from .stage import Stage

Scenario = Callable[[Stage], None]


def bind_before_commit(stage: Stage) -> None:
    """The database is slow: no bind may be sent before the commit."""
    leader = stage.lead("A")
    stage.hold(leader, Append)
    stage.pod("p1")
    stage.settle()
    ensure("p1" not in stage.api.placed, "p1 is bound, but the log has no record of it")


def eviction_before_commit(stage: Stage) -> None:
    """The database is slow: no pod may be evicted before the commit."""
    leader = stage.lead("A")
    stage.pod("p1")
    stage.settle()
    stage.hold(leader, Append)
    stage.pod("p2", priority=1)
    stage.settle()
    ensure(not stage.api.pods["p1"].pod.deleting, "p1 is deleted, but the log has no record of it")


def eviction_of_a_dead_leader(stage: Stage) -> None:
    """A leader dies before its eviction arrives: the next leader evicts the pod."""
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
    preemptions = [e for e in stage.database.records if e.kind == "PreemptionDecided"]
    ensure(len(preemptions) == 1, f"{len(preemptions)} preemptions")
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
    ensure("A" not in stage.processes, "the replaced leader did not notice")


def late_bind_of_an_intent_given_up(stage: Stage) -> None:
    """A bind is in flight when its leader dies. The next leader finds the node full and gives the
    intent up, another pod gets the room, and then the bind arrives."""
    stage.lose_reports()
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
    """A bind is in flight when its leader dies. The next leader has the same intent; either bind
    may bind the pod."""
    first = stage.lead("A")
    stage.hold(first, BindPod)
    stage.pod("p1")
    stage.settle()
    stage.crash(first)
    second = stage.start("B")
    stage.hold(second, BindPod)
    stage.settle(2)
    stage.release()
    stage.settle(2)
    ensure(stage.api.placed["p1"].decision.endswith("@" + first.leader.term.token.hex()[:8]),
           "another decision has bound p1")  # fmt: skip


def refused_bind_of_a_replaced_leader(stage: Stage) -> None:
    """A leader is replaced while its bind is in flight. Its successor touches the pod and gives the
    intent up. The bind is refused: the old leader must not retry with the new resourceVersion."""
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
    """A failover loses an intent whose bind is in flight; another pod gets the room."""
    stage.lose_reports()
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
    """An intent was given up and another pod got its room. A failover loses these records: in the
    log the intent is still open."""
    stage.lose_reports()
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
    """A failover loses everything that a leader wrote. Its predecessor, paused meanwhile, finds the
    log as it left it. It must not continue: a bind of the lost records is still in flight."""
    stage.lose_reports()
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
    """While there is no leader, a foreign pod takes the room that a pod in backoff waits for."""
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


def pod_that_goes_among_lists(stage: Stage) -> None:
    """A pod is deleted after the list that shows it, and before the list is taken in."""
    stage.foreign("f1")
    stage.foreign("f2", cpu=0)
    process = stage.start("A")
    while not process.leader.reconciling:
        stage.step()
    stage.api.delete_pod("f1")
    stage.watch(process, "Pod")
    ensure(process.leader.reconciling, "the lists are taken in at once")
    stage.settle()
    ensure("f1" not in process.leader.engine.state.pods, "f1 is still in the log")


def crash_after_a_batch(stage: Stage) -> None:
    """A new node wakes more pods than a batch has records, and the leader dies after one batch of
    that step is committed. All pods are still tried."""
    stage.foreign("f1")
    first = stage.lead("A")
    for number in range(30):
        stage.pod(f"p{number}", cpu=10)
    stage.settle(20)
    kept = len(stage.database.batches)
    stage.api.put_node(make_node("n1", cpu=2000))
    while len(stage.database.batches) == kept:
        stage.step()
    stage.crash(first)
    stage.lead("B")
    stage.settle(5)
    left = sorted(uid for uid in stage.api.pods if uid not in stage.api.placed)
    ensure(not left, f"not bound: {left}")


def pod_that_comes_in_a_gap(stage: Stage) -> None:
    """The watch of pods has a gap, in which one pod is deleted and another one created."""
    leader = stage.lead("A")
    stage.pod("p1")
    stage.settle()
    stage.gap(leader, "Pod")
    stage.api.delete_pod("p1")
    stage.pod("p2")
    stage.settle(1)
    ensure("p2" in stage.api.placed, "p2 is not bound")


def lost_history_that_only_a_standby_knows(stage: Stage) -> None:
    """A failover loses an intent whose bind is in flight, and the database does not report it. Only
    a standby that has read the lost records notices."""
    stage.lose_reports()
    stage.database.is_hidden = True
    first = stage.lead("A")
    stage.hold(first, BindPod)
    stage.pod("p1")
    stage.settle()
    stage.stand_by("B")
    stage.crash(first)
    stage.lose_batches(1)
    stage.pod("p2", priority=1)
    stage.lead("B")
    stage.settle(1)
    stage.release()
    stage.settle(1)


def intent_in_a_snapshot(stage: Stage) -> None:
    """A leader dies before its bind arrives; the next leader starts from a snapshot."""
    first = stage.lead("A")
    stage.lose(first, BindPod)
    stage.pod("p1")
    stage.settle()
    stage.stand_by("B", snapshot=True)
    stage.crash(first)
    stage.lead("B")
    stage.settle(1)
    ensure("p1" in stage.api.placed, "p1 is not bound")


def event_of_a_dead_leader(stage: Stage) -> None:
    """A leader dies before its events arrive: the next leader sends them."""
    first = stage.lead("A")
    stage.lose(first, WriteEvent)
    stage.pod("p1")
    stage.settle()
    stage.pod("p2", cpu=3000)
    stage.settle(5)
    stage.crash(first)
    stage.release()
    stage.lead("B")
    stage.settle(1)
    events = sorted((event.name, event.reason) for event in stage.api.events.values())
    ensure(events == [("p1", "Scheduled"), ("p2", "FailedScheduling")], f"events: {events}")


def event_before_commit(stage: Stage) -> None:
    """The database is slow: nothing is reported before the commit."""
    leader = stage.lead("A")
    stage.hold(leader, Append)
    stage.pod("p1", cpu=3000)
    stage.settle()


def late_report(stage: Stage) -> None:
    """A pod is unschedulable, then bound; the report of its failure arrives last."""
    stage.foreign("f1")
    leader = stage.lead("A")
    stage.hold(leader, PatchStatus)
    stage.pod("p1")
    stage.settle()
    stage.api.delete_pod("f1")
    stage.settle(3)
    ensure("p1" in stage.api.placed, "p1 is not bound")
    stage.release()
    stage.settle(1)
    ensure(
        "p1" not in stage.api.conditions, "p1 is on a node, but its condition says that it is not"
    )


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
    "amonglists": (pod_that_goes_among_lists,),
    "halfsteps": (crash_after_a_batch,),
    "ignoresgaps": (pod_that_comes_in_a_gap,),
    "trusting": (lost_history_that_only_a_standby_knows,),
    "nameless": (intent_in_a_snapshot,),
    "forgetsreports": (event_of_a_dead_leader,),
    "reportfirst": (event_before_commit,),
    "reportslate": (late_report,),
}
"""Scenarios by the mutant that they catch."""
