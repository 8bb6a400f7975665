"""The scheduler of examples/minimal, unchanged: bound pods, and a log that explains them,
over kill -9."""

import sys

import pytest

from eventsched.cli.main import main
from eventsched.domain.draw import draw
from eventsched.domain.records import PodAdded, PodBound, PodDecided, TermBegan
from eventsched.eventlog.postgres.reader import Reader
from tests.cluster.harness.client import Object, wait_for
from tests.cluster.harness.deployed import applied
from tests.cluster.harness.faults import Swallow
from tests.cluster.harness.kube_proxy import KubeProxy
from tests.cluster.harness.manifests import node, pod
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import Pods, decision
from tests.cluster.harness.scheduler import ROOT, Log, run
from tests.deploy.rendering import built

NAME = "random"
PROGRAM = ROOT / "examples" / "minimal" / "scheduler.py"


def test_it_binds_and_remembers(
    plane: ControlPlane, database: str, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pods = Pods(plane.admin, namespace)
    for name in "abcd":
        pods.client.create(node(name))
    pods.client.patch("Node", "d", {"spec": {"unschedulable": True}})
    with KubeProxy(plane) as proxy:
        environment = {
            "PYTHONPATH": str(ROOT),
            "EVENTSCHED_DATABASE": database,
            "KUBECONFIG": str(proxy.kubeconfig()),
        }
        scheduler = plane.server("random", [sys.executable, PROGRAM], environment)
        scheduler.start()
        made = [pods.create(pod(f"web-{number}", scheduler=NAME)) for number in range(6)]
        pods.create(pod("another", scheduler="nobody"))
        found = {uid_of(each): pods.node(each["metadata"]["name"]) for each in made}

        swallowed = proxy.on("POST", "/binding$", Swallow(), times=1)
        lost = pods.create(pod("lost", scheduler=NAME))
        swallowed.wait()
        scheduler.kill()
        later = pods.create(pod("later", scheduler=NAME))
        scheduler.start()
        for each in (lost, later):
            found[uid_of(each)] = pods.node(each["metadata"]["name"])
        wait_for(lambda: len(log(database).of(PodBound)) == 8, "all is in the log")
        scheduler.kill()
    plane.discard(scheduler)

    told = log(database)
    decided = {each.uid: each for each in told.of(PodDecided)}
    assert {uid: each.node for uid, each in decided.items()} == found
    assert {each.uid: each.node for each in told.of(PodBound)} == found
    assert [each.epoch for each in told.of(TermBegan)] == [1, 2]
    assert {each.pod.uid for each in told.of(PodAdded)} == set(found)
    assert pods.nodes()["another"] == ""
    check_draws(told)
    for each in pods.all():
        uid = uid_of(each)
        if uid in found:
            assert decision(each).startswith(f"{NAME}/{position(told, uid)}@")
    check_commands(database, lost, capsys)


def uid_of(made: Object) -> str:
    """Of an object."""
    uid: str = made["metadata"]["uid"]
    return uid


def log(database: str) -> Log:
    """What the stream says by now."""
    return Log(Reader(database, NAME))


def check_draws(told: Log) -> None:
    """Each node was drawn by the seed among those that there were; never the one that is closed."""
    for each in told.of(PodDecided):
        number = draw("eventsched", each.uid, each.attempt, "tie-break")
        assert (each.draw, each.attempt) == (number if each.ties > 1 else 0, 1)
        assert each.node in "abc"
        assert each.ties == each.feasible <= 3


def position(told: Log, uid: str) -> int:
    """Where the decision about a pod stands."""
    (found,) = [
        stored.position
        for stored, record in zip(told.stored, told.records, strict=True)
        if isinstance(record, PodDecided) and record.uid == uid
    ]
    return found


def check_commands(database: str, lost: Object, capsys: pytest.CaptureFixture[str]) -> None:
    """What people have for a log works on it."""
    where = (f"--database={database}", f"--stream={NAME}")
    run("verify", *where)
    run("replay", *where)
    (node,) = [each.node for each in log(database).of(PodBound) if each.uid == uid_of(lost)]
    assert f"bound to {node}" in run("explain", uid_of(lost), *where)
    query = "select count(*) from decisions where outcome = 'scheduled'"
    assert "8" in run("sql", "-c", query, f"--database={database}")
    capsys.readouterr()
    assert main(["replay", "--verify", *where]) == 2
    assert "is of random, a scheduler of its own" in capsys.readouterr().err


def test_the_api_server_takes_its_manifests(plane: ControlPlane) -> None:
    """``kubectl apply -k examples/minimal``."""
    for each in built(PROGRAM.parent):
        assert "warning" not in applied(plane, each, dryRun="All").headers
