"""What a replica reports to probes and metrics about itself, part by part."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from eventsched.cluster.kube.http.api import HttpAnswer
from eventsched.cluster.kube.http.refusals import Refusals
from eventsched.cluster.kube.watch.resource_store import UndecodableObject, WatchProgress
from eventsched.domain.records import PodAdded
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.process.replica_status import STALE_SECONDS, LiveStatus, WatchFacts
from eventsched.process.service_observer import ServiceObserver
from eventsched.process.start_times import StartClock
from eventsched.runtime.assembly import assemble
from eventsched.runtime.effects.event_outbox import DROPPED, REFUSED
from eventsched.runtime.leader.followed_stream import FollowedStream
from eventsched.runtime.live.database_health import DatabaseHealth
from eventsched.runtime.reconciliation.divergences import PodDivergence
from eventsched.web.metrics import Metrics
from tests.builders import engine_of, make_pod
from tests.live.stage import Stage, nodes, pods, until
from tests.postgres.anomalous import starving

NOW = 1000.0
WELL = {"start": "", "watches": "", "rights": "", "database": "", "term": ""}
BAD = UndecodableObject("Pod", "shop/bad", "effect 'Sometimes', which is not known", 7, kept=False)


@pytest.fixture(autouse=True)
def _noon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock for the age of watches does not advance."""
    clock = SimpleNamespace(monotonic=lambda: NOW)
    monkeypatch.setattr("eventsched.process.replica_status.time", clock)


def kube(**watches: WatchProgress) -> Any:
    """A cluster's side with these watches; of the pods one cannot be read."""
    stores = {name: SimpleNamespace(undecodable={}) for name in watches}
    if "Pod" in stores:
        stores["Pod"].undecodable["uid"] = BAD
    store = SimpleNamespace(progress=watches, stores=stores, undecodable=iter([BAD]))
    return SimpleNamespace(store=store, refusals=Refusals(lambda: NOW))


def live(silence: float = 1.0) -> WatchProgress:
    """A watch with its last message ``silence`` seconds ago."""
    return WatchProgress(lines=12, relists=2, reconnects=3, last_line=NOW - silence, problem="")


def replica(**parts: Any) -> Any:
    """A replica with these parts, following at the beginning of a stream."""
    fresh: dict[str, Any] = {
        "refusal": "", "driver": None, "database": None, "follower": None, "counts": Counter(),
        "followed_stream": FollowedStream(lambda: engine_of(), "s"),
    }  # fmt: skip
    return SimpleNamespace(**{**fresh, **parts})


def follower(*, caught_up: bool = True, lag: int = 0) -> Any:
    """Who follows in epoch 4."""
    return SimpleNamespace(health=DatabaseHealth(), caught_up=caught_up, lag=lag, epoch=4)


def running(part: Any, **watches: WatchProgress) -> LiveStatus:
    """The facts of a process that has started."""
    status = LiveStatus("eventsched")
    status.kube = kube(**(watches or {"Pod": live()}))
    status.replica, status.waiting = part, ""
    return status


def numbers(status: LiveStatus) -> dict[str, Any]:
    """All facts that are numbers, or mappings of numbers, but those of the watches."""
    names = (
        "leading epoch log_head log_lag queues unschedulable nodes pods reservations open_binds"
        " open_evictions overcommitted_nodes reports_waiting reports_dropped reports_refused"
    )
    found = {name: getattr(status, name) for name in names.split()}
    return {name: value for name, value in found.items() if value}


# --- readiness ------------------------------------------------------------------------------


def test_a_process_that_has_just_started() -> None:
    """It shows no objects and no numbers."""
    status = LiveStatus("eventsched")
    reason = "the API server is not reached yet"
    assert status.liveness == {}
    assert status.readiness == {**WELL, "start": "it has just started", "watches": reason}
    assert (numbers(status), status.watches, list(status.undecodable)) == ({}, {}, [])
    assert status.pod_name("uid") == ""


def test_watches_that_are_broken_come_before_those_that_are_silent() -> None:
    """Some are named, the others counted."""
    broken = {f"R{number}": WatchProgress(problem=f"broken {number}") for number in range(5)}
    status = running(
        replica(follower=follower()), Pod=live(STALE_SECONDS + 5), Node=live(STALE_SECONDS)
    )
    assert status.readiness == {**WELL, "watches": "Pod: nothing heard for 185 s"}
    status = running(replica(follower=follower()), Pod=live(STALE_SECONDS + 5), **broken)
    assert status.readiness == {
        **WELL,
        "watches": "R0: broken 0; R1: broken 1; R2: broken 2 (and 2 more)",
    }


def test_a_missing_right() -> None:
    """Whether it leads or not: it could not do its work."""
    status = running(replica(follower=follower()))
    assert status.kube is not None
    message = b'cannot create resource \\"pods/binding\\" in API group \\"\\"'
    refused = HttpAnswer(403, b'{"kind": "Status", "message": "%s"}' % message)
    status.kube.refusals.saw("create pods/binding", refused)
    assert status.readiness == {
        **WELL,
        "rights": 'may not create pods/binding: cannot create resource "pods/binding" in API group '
        '""; add the rule {apiGroups: [""], resources: ["pods/binding"], verbs: ["create"]} to the '
        "scheduler's role",
    }


def test_an_unreachable_database() -> None:
    """To a standby the log that it reads, to a leader the one that it writes."""
    lost = DatabaseHealth(lambda: NOW)
    lost.failed("connection refused")
    words = "unreachable for 0 s: connection refused"
    standby, leading = follower(), SimpleNamespace(health=lost)
    standby.health = lost
    assert running(replica(follower=standby)).readiness == {**WELL, "database": words}
    driver = SimpleNamespace(leader=SimpleNamespace(leading=True))
    there = replica(follower=follower(), database=leading, driver=driver)
    assert running(there).readiness == {**WELL, "database": words}


def test_the_phases_of_a_term() -> None:
    behind = replica(follower=follower(caught_up=False, lag=7))
    assert running(behind).readiness == {
        **WELL,
        "term": "catching up with the log, 7 records behind",
    }
    begun = replica(driver=SimpleNamespace(leader=SimpleNamespace(leading=False)))
    assert running(begun).readiness == {
        **WELL,
        "term": "a term has begun; it does not lead yet",
    }
    leads = replica(driver=SimpleNamespace(leader=SimpleNamespace(leading=True)))
    assert running(leads).readiness == WELL


# --- numbers --------------------------------------------------------------------------------


def test_watches_and_undecodable_objects() -> None:
    status = running(replica(), Pod=live(2.5), Node=WatchProgress())
    assert status.watches == {
        "Pod": WatchFacts(12, 2, 3, 2.5, 1),
        "Node": WatchFacts(0, 0, 0, 0.0, 0),
    }
    assert list(status.undecodable) == [BAD]


def test_a_standby_reports_its_lag() -> None:
    """It has the first records of a stream to read yet."""
    status = running(replica(follower=follower(lag=7)))
    queues = dict.fromkeys(status.queues, 0)
    assert numbers(status) == {"epoch": 4, "log_head": 7, "log_lag": 7, "queues": queues}


def test_the_oldest_of_each_queue() -> None:
    """By creation time; pods that are not waiting are left out."""
    engine = engine_of()
    for name, created in (("young", 9), ("old", 7), ("bound", 5)):
        pod = make_pod(name, created_at=created * 1_000_000, node_name="n" * (name == "bound"))
        engine.observe(PodAdded(pod=pod), 10_000_000)
    stream_state = SimpleNamespace(engine=engine)
    status = running(replica(followed_stream=SimpleNamespace(stream_state=stream_state)))
    assert status.oldest_waiting == {("active", "default-scheduler"): 7.0}


def play(story: Callable[[Stage, LiveStatus], Awaitable[None]]) -> None:
    """Runs ``story`` with a leader of three nodes of 4 cpu."""

    async def run() -> None:
        stage = Stage()
        stage.cluster.put(*nodes(3))
        part = replica(
            driver=stage.driver, followed_stream=stage.leader._followed_stream, follower=follower()
        )
        driving = asyncio.create_task(stage.driver.run())
        try:
            await until(lambda: stage.leader.all_committed)
            await story(stage, running(part))
        finally:
            driving.cancel()
            await asyncio.gather(driving, return_exceptions=True)

    asyncio.run(run())


def test_a_leader_reports_its_pods() -> None:
    """On nodes, one of which others have filled, waiting, and with binds under way."""

    async def story(stage: Stage, status: LiveStatus) -> None:
        theirs = make_pod("theirs", cpu=5000, memory=0, node_name="n0")
        stage.cluster.put(theirs, *pods(10), make_pod("large", cpu=100_000))
        await until(lambda: len(stage.bound) == 11 and stage.leader.all_committed)
        stage.cluster.held = True
        stage.cluster.put(*pods(4, "held-"))
        fits = {("NodeResourcesFit", "default-scheduler"): 1}
        await until(lambda: len(stage.cluster.binds) == 14 and stage.leader.all_committed)
        await until(lambda: stage.leader.all_committed and status.unschedulable == fits)
        found = numbers(status)
        assert found.pop("reports_waiting", 0) == status.reports_waiting
        assert found == {
            "leading": True, "epoch": stage.leader.term.epoch, "nodes": 3, "pods": 15,
            "log_head": len(stage.database.kinds), "reservations": 4, "open_binds": 4,
            "overcommitted_nodes": 1, "unschedulable": fits,
            "queues": {"active": 0, "backoff": 0, "unschedulable": 1, "gated": 0},
        }  # fmt: skip
        assert status.pod_name("held-0") == "default/held-0"
        stage.cluster.held = False
        await until(lambda: len(stage.bound) == 15)

    play(story)


def test_reports_that_were_given_up_are_counted_over_terms() -> None:
    """What is a counter does not fall when a term ends."""
    before = Counter({DROPPED: 2, REFUSED: 1, "PodBound": 5, PodDivergence.TAKEN: 4})
    status = running(replica(counts=before))
    assert (status.reports_dropped, status.reports_refused) == (2, 1)
    leader = SimpleNamespace(counts=Counter({DROPPED: 3}), leading=False, reports=None)
    status = running(replica(counts=before, driver=SimpleNamespace(leader=leader, apart=False)))
    assert (status.reports_dropped, status.reports_refused) == (5, 1)
    assert status.divergences == {"moved": 0, "unbound": 0, "taken": 4, "foreign": 0}


def test_the_size_of_the_database_is_that_of_the_present_term() -> None:
    assert LiveStatus("").database_size is None
    assert running(replica()).database_size is None
    database = SimpleNamespace(size=4096, health=DatabaseHealth())
    assert running(replica(database=database)).database_size == 4096


def test_anomalies_are_counted_of_what_the_leader_commits() -> None:
    """Also with its state ahead of the commit; pods that wait too long only while it leads. What
    it has read as a standby is known to it, and was counted by another."""
    diary = starving()
    diary.minute = 10
    diary.is_refused("huge")
    diary.goes("last", "gated")
    diary.arrives("boss", priority=9)
    for name in ("equal", "urgent", "small"):
        diary.preempts("boss", "n1", name)
    engine = SimpleNamespace(state=SchedulerState())
    for entry in diary.entries:
        engine.state.apply(entry.record, entry.at)
    stream_state = SimpleNamespace(stream_state=SimpleNamespace(engine=engine))
    driver = SimpleNamespace(leader=SimpleNamespace(leading=True))
    status = running(replica(driver=driver, followed_stream=stream_state))
    observer = ServiceObserver(Metrics(), "s", status, assemble(None), StartClock())
    observer.records_followed(diary.entries)
    assert status.long_waits.starving == {"default-scheduler": 1}
    assert set(status.preemption_anomalies.values()) == {0}
    observer.records_committed(diary.entries, engine.state.now)
    assert status.long_waits.starving == {"default-scheduler": 1}
    assert status.preemption_anomalies == {
        "evicted_again": 0, "nominated_again": 1, "preempted_for_nothing": 0,
    }  # fmt: skip
    driver.leader.leading = False
    assert status.long_waits == ({}, {}, None)
    assert LiveStatus("").long_waits == ({}, {}, None)
