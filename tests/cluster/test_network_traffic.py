"""Pods avoid nodes that are busy according to a real Prometheus. The test runs its own exporters,
since kwok's nodes have no traffic."""

from collections.abc import Callable

from eventsched.domain.records import Outcome, PodDecided, SamplesTaken
from tests import monitoring
from tests.cluster.harness.client import Object, wait_for
from tests.cluster.harness.manifests import node, pod
from tests.cluster.harness.plane import ControlPlane, free_ports
from tests.cluster.harness.pods import Pods
from tests.cluster.harness.scheduler import STREAM, Log, Scheduler, Schedulers, run
from tests.cluster.harness.servers import Server
from tests.monitoring import DEVICE, Exporters

pytestmark = monitoring.needs(monitoring.PROMETHEUS)
BYTES = 12_541_068_340
BUSIEST = 43_000_000_000


def config(port: int, **args: object) -> Object:
    """NetworkTraffic alone scores, and asks every second."""
    given = {
        "prometheusAddress": f"http://127.0.0.1:{port}",
        "deviceName": DEVICE,
        "interval": "1s",
        **args,
    }
    score = {"disabled": [{"name": "*"}], "enabled": [{"name": "NetworkTraffic"}]}
    profile = {
        "schedulerName": "eventsched",
        "plugins": {"score": score},
        "pluginConfig": [{"name": "NetworkTraffic", "args": given}],
    }
    return {"profiles": [profile]}


def prometheus(plane: ControlPlane, exporters: Exporters, port: int, interval: str) -> Server:
    """Not started yet."""
    folder = plane.folder / f"prometheus-{port}"
    command = monitoring.command(folder, port, exporters.jobs(), interval)
    return plane.server(f"prometheus-{port}", command)


def sampled(scheduler: Scheduler, so: Callable[[SamplesTaken], bool], what: str) -> SamplesTaken:
    """The newest samples in the log, once something is true of them. Raises TimeoutError."""

    def found() -> SamplesTaken | None:
        taken = scheduler.log().of(SamplesTaken)
        return taken[-1] if taken and so(taken[-1]) else None

    return wait_for(found, what, 60.0)


def expected(log: Log) -> dict[str, set[str]]:
    """Uid → the nodes that were best by the samples before the decision."""
    values: dict[str, float] = {}
    best = {}
    for record in log.records:
        if isinstance(record, SamplesTaken):
            values = record.values or values
        elif isinstance(record, PodDecided) and record.outcome is Outcome.SCHEDULED:
            scores = {name: values.get(name, max(values.values(), default=0)) for name in "ab"}
            best[record.uid] = {n for n, score in scores.items() if score == min(scores.values())}
    return best


class Received:
    """A counter of bytes that grows with each scrape while the node is busy."""

    def __init__(self) -> None:
        self.step, self.total = 0, 0

    def __call__(self) -> float:
        self.total += self.step
        return self.total


def test_pods_avoid_the_busy_node(
    plane: ControlPlane, schedulers: Schedulers, namespace: str
) -> None:
    """They still do when another node gets busy, when Prometheus is down, and after the scheduler
    is killed meanwhile. Before the first sample all nodes are alike."""
    pods = Pods(plane.admin, namespace)
    for name in "ab":
        pods.client.create(node(name))
    a, b = Received(), Received()
    (port,) = free_ports(1)
    with Exporters(a=a, b=b) as exporters:
        server = prometheus(plane, exporters, port, "200ms")
        scheduler = schedulers.start(config=config(port, timeRange=10))
        first = sampled(
            scheduler,
            lambda taken: bool(taken.problem),
            "it reports that Prometheus does not answer",
        )
        assert (first.values, first.problem) == (
            {}, "Prometheus cannot be reached: Connection refused",
        )  # fmt: skip
        before = pods.create(pod("before"))
        assert pods.node("before") in "ab"

        a.step = 1_000
        server.start()
        sampled(scheduler, lambda t: t.values.get("a", 0) > t.values.get("b", 9e9), "a is busy")
        steered = [pods.create(pod(f"from-a-{number}")) for number in range(3)]
        assert {pods.node(each["metadata"]["name"]) for each in steered} == {"b"}

        a.step, b.step = 0, 10_000
        sampled(scheduler, lambda t: t.values.get("b", 0) > t.values.get("a", 9e9), "b is busy")
        pods.create(pod("from-b"))
        assert pods.node("from-b") == "a"
        server.stop()
    plane.discard(server)

    refused = "Prometheus cannot be reached: Connection refused"
    sampled(scheduler, lambda taken: taken.problem == refused, "Prometheus is gone")
    pods.create(pod("after"))
    assert pods.node("after") == "a"
    scheduler.kill()
    last = pods.create(pod("last"))
    scheduler.start()
    assert pods.node("last") == "a"
    wait_for(
        lambda: scheduler.metric("eventsched_samples_total", result="problem") > 0,
        "a problem is counted",
    )

    log = scheduler.log()
    best = expected(log)
    decided = {uid: {each.node for each in log.decisions(uid) if each.node} for uid in best}
    assert all(decided[uid] <= best[uid] for uid in best)
    assert len(best[before["metadata"]["uid"]]) == 2
    told = {each["metadata"]["name"]: explained(scheduler, each) for each in (before, last)}
    assert "NetworkTraffic had samples of 2 nodes, " in told["last"]
    assert "had samples" not in told["before"]


def explained(scheduler: Scheduler, made: Object) -> str:
    """The explanation of a pod, with single spaces."""
    options = (f"--database={scheduler.database}", f"--stream={STREAM}")
    return " ".join(run("explain", made["metadata"]["uid"], *options).split())


def test_the_documents_numbers(plane: ControlPlane, schedulers: Schedulers, namespace: str) -> None:
    """By the original's query: a sum of what the counter showed, which is one scrape here. The
    master is the busiest; node01 wins with 71."""
    pods = Pods(plane.admin, namespace)
    for name in ("master", "node01"):
        pods.client.create(node(name))
    (port,) = free_ports(1)
    master, node01 = iter([BUSIEST]), iter([BYTES])
    with Exporters(
        master=lambda: next(master, None), node01=lambda: next(node01, None)
    ) as exporters:
        server = prometheus(plane, exporters, port, "2s")
        # The scheduler first: the one scrape is looked for for a minute.
        scheduler = schedulers.start(config=config(port, query="document", timeRange=60))
        server.start()
        taken = sampled(scheduler, lambda found: len(found.values) == 2, "both have a sample")
        assert taken.values == {"master": float(BUSIEST), "node01": float(BYTES)}
        web = pods.create(pod("web"))
        assert pods.node("web") == "node01"
        scheduler.stop()
        server.stop()
    plane.discard(server)
    said = explained(scheduler, web)
    assert f"NetworkTraffic 71 = 1 x 71 (raw {BYTES}) 0 = 1 x 0 (raw {BUSIEST}) total 71 0" in said
