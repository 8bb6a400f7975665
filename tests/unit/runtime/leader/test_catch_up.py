"""fold(log) = live state: an engine that reads a log back is the engine that wrote it."""

import pytest

from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.cluster.sources import generated
from eventsched.domain import records
from eventsched.domain.objects import Pod, Taint
from eventsched.domain.records import Record
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.eventlog.port import StoredRecord
from eventsched.plugins import IN_TREE
from eventsched.runtime.assembly import Assembly, assemble_loaded
from eventsched.runtime.simulation.simulation import Simulation
from eventsched.scheduling.config import configuration
from eventsched.scheduling.engine import Engine
from tests.builders import make_node, observed

LOADS = [
    "nodes=4,pods=60,shape=plain,seed=1",
    "nodes=12,pods=200,shape=mixed,seed=2,runtime=30,rate=20",
    "nodes=5,pods=120,shape=tight,seed=3",
    "nodes=3,pods=90,shape=tight,seed=4,rate=30,runtime=5",
]
STICKY = "profiles:\n- plugins: {multiPoint: {enabled: [{name: FirstScheduledNode}]}}\n"
PROFILES = {
    "default": "",
    "required": STICKY,
    "preferred": STICKY + "  pluginConfig: [{name: FirstScheduledNode, args: {mode: preferred}}]\n",
}
HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def assembly(profile: str) -> Assembly:
    """A profile's plugins, fresh."""
    loaded = configuration.load(HEADER + PROFILES[profile], "test.yaml")
    return assemble_loaded(loaded, "test.yaml", IN_TREE)


def simulated(text: str, profile: str, until: int | None = None) -> tuple[Simulation, Engine]:
    """A run over a generated load, and a fresh engine into which its log was read back."""
    load = generated.parse(text)
    log = MemoryEventLog()
    run = Simulation(
        assembly(profile), InMemoryCluster(load.nodes(), load.pods()), log, seed=text, batch_size=7
    )
    run.run(until)
    again = assembly(profile).engine()
    for stored in log.read():
        again.apply(stored.logged)
    return run, again


def going_on(engine: Engine) -> list[Record]:
    """What an engine says to a fixed sequence of further stimuli: it is let run on, nodes come, go
    and change, pods come, end and fail to bind."""
    said: list[Record] = []

    def attempts() -> None:
        while logged := engine.schedule_next():
            said.extend(each.record for each in logged)

    def stimuli(*found: records.Stimulus) -> None:
        at = engine.state.now + 700_000
        for each in found:
            said.extend(entry.record for entry in engine.observe(each, at))
        attempts()

    attempts()
    held = sorted(engine.state.reservations.items())
    stimuli(*(records.BindFailed(uid=uid, node=r.node, message="no") for uid, r in held[::2]))
    stimuli(*(records.BindSucceeded(uid=uid, node=r.node) for uid, r in held[1::2]))
    pods = sorted(engine.state.pods)
    stimuli(*(records.PodDeleted(uid=uid) for uid in pods[::3]))
    some = generated.parse("nodes=2,pods=9,shape=mixed,seed=99").pods()
    fresh = [Pod(uid=f"new {i}", name=f"new-{i}", spec=p.pod.spec) for i, p in enumerate(some)]
    stimuli(*(records.PodAdded(pod=pod) for pod in fresh))
    stimuli(records.NodeAdded(node=make_node("new", cpu=1500)))
    (first, *_) = [node for node in engine.state.nodes.nodes if node is not None]
    taints = (Taint(key="k", effect="NoSchedule"),)
    stimuli(records.NodeUpdated(node=make_node(first.name, taints=taints)))
    stimuli(records.NodeUpdated(node=make_node(first.name, cpu=100_000)))
    stimuli(records.NodeDeleted(name="new"))
    for _ in range(12):
        stimuli(records.TimePassed())
    observed(engine, records.TimePassed(), at=engine.state.now + 400_000_000)
    attempts()
    return said


@pytest.mark.properties
@pytest.mark.parametrize("until", [None, 4_000_000, 30_000_500], ids=["end", "4s", "30s"])
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("load", LOADS)
def test_a_folded_engine_continues_like_the_live_one(
    load: str, profile: str, until: int | None
) -> None:
    """Same digest, queues, timers and position; and the same records from then on."""
    run, again = simulated(load, profile, until)
    live = run.engine
    assert again.state.digest() == live.state.digest()
    assert dict(again.queue_lengths) == dict(live.queue_lengths)
    assert (again.due, again.flush_due) == (live.due, live.flush_due)
    assert (again.position, again.state.now) == (live.position, live.state.now)
    assert again.state.verdicts == live.state.verdicts
    assert going_on(again) == going_on(live)
    assert again.state.digest() == live.state.digest()


def test_the_loads_cover_waits_backoffs_and_ends() -> None:
    """Waits, backoffs and ends: otherwise the tests above would show little."""
    run, _ = simulated(LOADS[2], "required")
    kinds = {type(each.record).__name__ for each in log_of(LOADS[2])}
    assert run.counters.attempts > run.counters.placed == run.counters.arrived
    assert kinds >= {"PodQueued", "PodDecided", "PodBound", "PodDeleted", "TimePassed"}


def log_of(text: str) -> list[StoredRecord]:
    """The stored records of a run with the default profile."""
    load = generated.parse(text)
    log = MemoryEventLog()
    Simulation(
        assembly("default"), InMemoryCluster(load.nodes(), load.pods()), log, seed=text
    ).run()
    return list(log.read())


@pytest.mark.parametrize("load", LOADS)
def test_the_ends_of_batches_change_nothing(load: str) -> None:
    """Batches of one and of thousands give the same log."""
    made = []
    for size in (1, 10_000):
        source = generated.parse(load)
        log = MemoryEventLog()
        cluster = InMemoryCluster(source.nodes(), source.pods())
        Simulation(assembly("default"), cluster, log, seed=load, batch_size=size).run()
        made.append(list(log.read()))
    assert made[0] == made[1]


def test_every_prefix_of_a_log_folds_to_the_state_there() -> None:
    """Also in the middle of a step."""
    stored = log_of(LOADS[3])[:400]
    one = assembly("default").engine()
    for number, each in enumerate(stored):
        one.apply(each.logged)
        if number % 40 == 0:
            other = assembly("default").engine()
            for before in stored[: number + 1]:
                other.apply(before.logged)
            assert other.state.digest() == one.state.digest()
            assert (other.due, other.flush_due, other.idle) == (one.due, one.flush_due, one.idle)
