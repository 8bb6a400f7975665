"""Waiting at Permit: allowed, refused, too long, gone; and what is carried over the wait."""

from typing import Any

from eventsched.domain import records
from eventsched.domain.objects import Pod
from eventsched.domain.records import Outcome, PodUnreserved
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import Cycle, Status, Wait
from tests.builders import (
    SECOND,
    added,
    attempted,
    backing_off,
    engine_of,
    make_node,
    make_pod,
    observed,
    parked,
    scheduled,
)

TICK = records.TimePassed()
BOUND = records.PodBound(uid="p1", node="n1", attempt=1)
OK = records.BindSucceeded(uid="p1", node="n1")


class Gang:
    """Two pods go together: the first waits for the second."""

    name = "Gang"

    def permit(self, cycle: Cycle, pod: Pod, node: str) -> Status | Wait | None:
        if pod.name == "veto":
            for uid in cycle.waiting:
                cycle.reject(uid, "vetoed")
        elif not cycle.waiting:
            cycle.data["first"] = [pod.name]
            return Wait(10)
        for uid in cycle.waiting:
            cycle.allow(uid)
        return None


def gang(*plugins: object) -> Engine:
    """p1 waits at Permit since 0."""
    engine = engine_of(Gang(), *plugins)
    observed(engine, *added(make_node(), make_pod()))
    return engine


def test_permit_wait_then_allowed_by_another_pod() -> None:
    """The intent is a record of its own, after the other pod's decision."""
    engine = gang()
    assert attempted(engine) == [
        scheduled(outcome=Outcome.WAITING, carry={"first": ["p1"]}, deadlines={"Gang": 10 * SECOND})
    ]
    assert engine.due == 10 * SECOND
    assert observed(engine, OK, at=1) == [OK]  # nothing was sent yet
    observed(engine, *added(make_pod("p2")), at=2)
    assert attempted(engine) == [
        scheduled("p2"),
        records.PermitGranted(uid="p1", plugin="Gang", by="p2"),
        records.BindIntended(uid="p1", node="n1", attempt=1),
    ]
    assert engine.due is None
    assert observed(engine, OK, at=3) == [OK, BOUND]


def test_permit_wait_rejected_by_another_pod() -> None:
    """The waiting pod gives its room back and waits for a change."""
    engine = gang()
    attempted(engine)
    observed(engine, *added(make_pod("veto")), at=2)
    assert attempted(engine) == [
        scheduled("veto"),
        PodUnreserved(uid="p1", node="n1", plugin="Gang", message="vetoed"),
        parked("p1", "Gang", cause="PermitDenied", plugin="Gang", until=2 + SECOND),
    ]


def test_permit_wait_that_lasts_too_long() -> None:
    """Refused at the deadline, not before."""
    engine = gang()
    attempted(engine)
    assert observed(engine, TICK, at=10 * SECOND - 1) == [TICK]
    assert observed(engine, TICK, at=10 * SECOND) == [
        TICK,
        PodUnreserved(
            uid="p1",
            node="n1",
            plugin="Gang",
            message='pod "default/p1" rejected while waiting on permit: rejected due to timeout '
            "at plugin Gang",
        ),
        parked("p1", "Gang", cause="PermitDenied", plugin="Gang", until=11 * SECOND),
    ]


def test_two_plugins_wait_and_the_earlier_deadline_counts() -> None:
    """The bind is intended when both have allowed it; else the first deadline ends the wait."""

    def host(name: str, seconds: float) -> object:
        def permit(self: object, cycle: Cycle, pod: Pod, node: str) -> Wait | None:
            for uid in cycle.waiting:
                if pod.name in ("both", name):
                    cycle.allow(uid)
            return Wait(seconds) if pod.name == "p1" else None

        return type(name, (), {"name": name, "permit": permit})()

    def given(*names: str) -> list[Any]:
        engine = engine_of(host("Fast", 5), host("Slow", 9.5))
        observed(engine, *added(make_node(), *(make_pod(name) for name in names)))
        said = [record for _ in names for record in attempted(engine)]
        return [*said[len(names) :], *observed(engine, TICK, at=9 * SECOND)]

    fast = records.PermitGranted(uid="p1", plugin="Fast", by="Fast")
    assert given("p1", "both")[-2:] == [records.BindIntended(uid="p1", node="n1", attempt=1), TICK]
    _, _, unreserved, _ = given("p1", "Slow")
    assert (unreserved.plugin, unreserved.node) == ("Fast", "n1")
    assert given("p1", "Fast") == [fast, TICK]


def test_a_pod_deleted_while_it_waits_at_permit() -> None:
    """There is no deadline any more, and no plugin to allow."""
    engine = gang()
    attempted(engine)
    observed(engine, records.PodDeleted(uid="p1"), at=1)
    assert engine.due is None
    observed(engine, *added(make_pod("p2")), at=2)
    assert attempted(engine)[0].outcome is Outcome.WAITING


def test_a_waiting_pod_that_somebody_else_binds_waits_no_longer() -> None:
    """Also in an engine that reads the log back."""
    live = gang()
    logged = [
        *live.schedule_next(),
        *live.observe(records.PodUpdated(pod=make_pod(node_name="n1")), 1),
    ]
    again = gang()
    for each in logged:
        again.apply(each)
    for engine in (live, again):
        assert engine.due is None
        observed(engine, *added(make_pod("p2")), at=2)
        assert attempted(engine)[0].outcome is Outcome.WAITING


class Volumes:
    """Reserves a volume and attaches it before the bind."""

    name = "Volumes"

    def __init__(self) -> None:
        self.attached: list[object] = []
        self.released: list[object] = []

    def reserve(self, cycle: Cycle, pod: Pod, node: str) -> None:
        cycle.data["volume"] = {"name": f"for {pod.name}", "parts": [1, 2]}

    def unreserve(self, cycle: Cycle, pod: Pod, node: str) -> None:
        self.released.append(cycle.data["volume"])

    def pre_bind(self, cycle: Cycle, pod: Pod, node: str) -> None:
        self.attached.append(cycle.data["volume"])
        if cycle.data["volume"]["name"] == "for bad":
            raise LookupError("no such volume")


def test_what_reserve_left_is_there_at_pre_bind_after_a_wait_and_a_restart() -> None:
    """It comes from the log, through its stored bytes."""
    volumes, fresh = Volumes(), Volumes()
    live, again = engine_of(Gang(), volumes), engine_of(Gang(), fresh)
    logged = []
    for stimulus in added(make_node(), make_pod()):
        logged += live.observe(stimulus, 0)
    logged += live.schedule_next()
    for each in logged:
        again.apply(each._replace(record=records.decode(records.encode(each.record))))
    assert (volumes.attached, fresh.attached) == ([], [])
    for engine in (live, again):
        observed(engine, *added(make_pod("p2")), at=2)
    assert attempted(again) == attempted(live)
    for plugin in (volumes, fresh):
        assert plugin.attached[1] == {"name": "for p1", "parts": [1, 2]}


def test_pre_bind_that_fails_after_a_wait() -> None:
    """The granted pod goes back, unreserved; the one that let it go does not."""
    volumes = Volumes()
    engine = engine_of(Gang(), volumes)
    observed(engine, *added(make_node(), make_pod("bad"), make_pod("p2")))
    attempted(engine)
    error = "plugin Volumes failed in pre_bind: raised LookupError: no such volume"
    _, *rest = attempted(engine)
    assert rest == [
        records.PermitGranted(uid="bad", plugin="Gang", by="p2"),
        PodUnreserved(uid="bad", node="n1", plugin="Volumes", message=error),
        backing_off("bad", cause="BindingFailed", plugin="Volumes", message=error),
    ]
    assert volumes.released == [{"name": "for bad", "parts": [1, 2]}]
