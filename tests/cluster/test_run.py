"""``eventsched run`` from its start to its end: what it waits for, what it gives up on, and how one
term follows another."""

import shutil
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import psycopg
import pytest

from eventsched.domain.records import PodBound, TermBegan
from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from tests.cluster.harness.client import Object, wait_for
from tests.cluster.harness.manifests import node, pod
from tests.cluster.harness.plane import ControlPlane, free_ports
from tests.cluster.harness.pods import Pods
from tests.cluster.harness.postgres_proxy import PostgresProxy
from tests.cluster.harness.scheduler import ROOT, Scheduler, Schedulers, configuration, run
from tests.cluster.harness.servers import Server
from tests.databases import open_place
from tests.postgres.passwords import guarded

ELECTION = {
    "leaderElect": True,
    "resourceName": "eventsched",
    "leaseDuration": "8s",
    "renewDeadline": "6s",
    "retryPeriod": "500ms",
}


@pytest.fixture
def pods(plane: ControlPlane, namespace: str) -> Pods:
    """The pods of a namespace in a cluster of three nodes."""
    for name in "abc":
        plane.admin.create(node(name))
    return Pods(plane.admin, namespace)


def placed(pods: Pods, *names: str, within: float = 30.0) -> None:
    """Creates pods and waits until they are on nodes."""
    for name in names:
        pods.create(pod(name))
    for name in names:
        pods.node(name, within)


def lease(plane: ControlPlane) -> Object:
    """What the Lease says."""
    found: Object = plane.admin.get("Lease", "eventsched", "kube-system")["spec"]
    return found


def assert_terms(scheduler: Scheduler, least: int) -> None:
    """At least that many terms have followed one another: more if a lease expired on a busy
    machine."""
    epochs = [each.epoch for each in scheduler.log().of(TermBegan)]
    assert epochs == sorted(set(epochs))
    assert epochs[0] == 1
    assert len(epochs) >= least


def ready(scheduler: Scheduler) -> str:
    """What readiness says."""
    url = f"http://127.0.0.1:{scheduler.plain}/readyz?verbose"
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return str(response.read().decode())
    except HTTPError as refused:
        with refused:
            return refused.read().decode()
    except OSError:
        return ""


# --- an embedded database ------------------------------------------------------------------------


@pytest.fixture
def folder() -> Iterator[Path]:
    """A place for an embedded database."""
    made = Path(tempfile.mkdtemp(prefix="evs-", dir=open_place()))
    made.chmod(0o755)
    yield made / "log"
    EmbeddedPostgres(made / "log").stop_unused()
    shutil.rmtree(made)


def test_killed_and_started_again_on_an_embedded_database(
    plane: ControlPlane, pods: Pods, folder: Path
) -> None:
    """Everything that is needed comes from the folder; the log is whole, and says why."""
    config = plane.folder / "embedded.yaml"
    config.write_text(
        configuration(
            {"profiles": [{"schedulerName": "eventsched"}]},
            {"serving": {"port": 0}, "database": {"dataDir": str(folder)}},
        )
    )
    command = [sys.executable, "-m", "eventsched", "run", f"--config={config}"]
    environment = {"PYTHONPATH": str(ROOT), "KUBECONFIG": str(plane.kubeconfig)}
    server = plane.server("embedded", command, environment)
    server.start()
    placed(pods, "p1", "p2", within=90.0)  # the database is made first, or recovers
    server.kill()
    pods.create(pod("p3"))
    server.start()
    placed(pods, "p4", within=90.0)
    pods.node("p3")
    assert server.stop() == 0, server.tail()
    plane.discard(server)
    where = f"--data-dir={folder}"
    run("verify", where)
    run("replay", "--verify", where)
    assert "bound to" in run("explain", f"{pods.namespace}/p3", where)
    query = "SELECT pod FROM eventsched.bindings ORDER BY pod"
    assert run("sql", where, "-o", "csv", "-c", query).split() == ["pod", "p1", "p2", "p3", "p4"]


# --- terms ---------------------------------------------------------------------------------------


def test_a_standby_takes_over_from_one_that_is_killed(
    plane: ControlPlane, pods: Pods, schedulers: Schedulers
) -> None:
    """When the lease is over. Until then it is ready, and binds nothing."""
    options = {"config": {"leaderElection": ELECTION}}
    first = schedulers.start(**options)
    second = schedulers.make(**options)
    second.server.start()
    placed(pods, "p1")
    wait_for(lambda: "readyz check passed" in ready(second), "the standby is ready", 60.0)
    assert second.metric("leader_election_master_status") == 0
    wait_for(lambda: second.metric("eventsched_log_lag_records") == 0, "it has caught up")
    first.kill()
    pods.create(pod("p2"))
    second.leads()
    pods.node("p2")
    assert_terms(second, 2)


def test_a_leader_that_ends_releases_the_lease(
    plane: ControlPlane, pods: Pods, schedulers: Schedulers
) -> None:
    """The standby does not wait for the lease to expire; binds already sent have an outcome in the
    log."""
    slow = {**ELECTION, "leaseDuration": "60s", "renewDeadline": "40s"}
    options = {"config": {"leaderElection": slow}}
    first = schedulers.start(**options)
    second = schedulers.make(**options)
    second.server.start()
    wait_for(lambda: "readyz check passed" in ready(second), "the standby is ready", 60.0)
    placed(pods, *(f"p{number}" for number in range(20)))
    assert first.stop() == 0
    second.leads(50.0)
    assert lease(plane)["holderIdentity"]
    assert lease(plane)["leaseTransitions"] >= 1
    placed(pods, "late")
    wait_for(lambda: len(second.log().of(PodBound)) == 21, "the log knows all binds")


@pytest.mark.row(13)
def test_a_leader_that_stood_still_is_deposed_and_stands_by(
    plane: ControlPlane, pods: Pods, schedulers: Schedulers
) -> None:
    """It becomes a standby in the same process, and leads again when it is elected."""
    options = {"config": {"leaderElection": ELECTION}}
    first = schedulers.start(**options)
    second = schedulers.make(**options)
    second.server.start()
    placed(pods, "p1")
    wait_for(lambda: "readyz check passed" in ready(second), "the standby is ready", 60.0)
    first.server.pause()
    second.leads()
    placed(pods, "p2")
    first.server.go_on()
    wait_for(lambda: first.metric("leader_election_master_status") == 0, "it has stepped down")
    wait_for(lambda: "readyz check passed" in ready(first), "it is ready to take over")
    second.kill()
    wait_for(lambda: first.metric("leader_election_master_status") == 1, "it leads again")
    placed(pods, "p3")
    assert_terms(first, 3)


def test_a_stream_goes_on_with_another_configuration(pods: Pods, schedulers: Schedulers) -> None:
    """A profile that is new takes pods that waited for it; the log says what is in force from when
    on, and every decision comes out again."""
    before = schedulers.start()
    placed(pods, "p1")
    pods.create(pod("theirs", scheduler="second"))
    assert before.stop() == 0
    after = schedulers.start(
        config={"profiles": [{"schedulerName": "eventsched"}, {"schedulerName": "second"}]}
    )
    pods.node("theirs")
    placed(pods, "p2")
    first, second = after.log().of(TermBegan)
    assert (first.engine, first.configuration) == ("", "")
    assert "schedulerName: second" in second.configuration
    assert "database" not in second.configuration  # the second document may hold secrets
    assert after.stop() == 0
    same = schedulers.start(
        config={"profiles": [{"schedulerName": "eventsched"}, {"schedulerName": "second"}]}
    )
    wait_for(lambda: len(same.log().of(TermBegan)) == 3, "the third term is in the log")
    assert same.log().of(TermBegan)[2].engine == ""
    assert {each["nodes"] > 0 for each in same.lines() if each["event"] == "deciding"} == {True}


# --- what is down --------------------------------------------------------------------------------


@pytest.mark.row(6)
def test_run_waits_for_a_database_that_is_down_at_the_start(
    pods: Pods, plane: ControlPlane, database: str, schedulers: Schedulers
) -> None:
    """Readiness says so, health does not: a restart would not help."""
    with PostgresProxy(database) as proxy:
        proxy.go_down()
        schedulers.database = proxy.url
        scheduler = schedulers.make()
        scheduler.server.start()
        wait_for(lambda: "[-]database failed" in ready(scheduler), "readiness says so")
        assert scheduler.ask("/healthz") == (200, "ok")
        proxy.come_back()
        scheduler.leads()
        placed(pods, "p1")
        wait_for(lambda: "readyz check passed" in ready(scheduler), "it is ready")
        assert scheduler.stop() == 0
    scheduler.database = schedulers.database = database


@pytest.mark.row(6)
def test_the_database_goes_down_under_load(
    pods: Pods, database: str, schedulers: Schedulers
) -> None:
    """Nothing is bound meanwhile; afterwards work resumes without intervention."""
    with PostgresProxy(database) as proxy:
        schedulers.database = proxy.url
        scheduler = schedulers.start()
        placed(pods, "p1")
        proxy.go_down()
        for number in range(20):
            pods.create(pod(f"q{number}"))
        wait_for(lambda: "[-]database failed" in ready(scheduler), "readiness says so")
        assert set(pods.nodes()) - {name for name, on in pods.nodes().items() if on} == {
            f"q{number}" for number in range(20)
        }
        proxy.come_back()
        for number in range(20):
            pods.node(f"q{number}")
        wait_for(lambda: "readyz check passed" in ready(scheduler), "it is ready again")
        assert scheduler.stop() == 0
    scheduler.database = schedulers.database = database


def test_run_waits_for_an_api_server_that_is_down_at_the_start(
    own_plane: ControlPlane, database: str
) -> None:
    """It also recovers from a later restart of the API server."""
    own_plane.admin.create(node("a"))
    own_plane.apiserver.kill()
    with Schedulers(own_plane, database) as schedulers:
        scheduler = schedulers.make()
        scheduler.server.start()
        wait_for(lambda: "API server is not reached" in ready(scheduler), "readiness says so")
        own_plane.apiserver.start()
        own_plane.wait_ready()
        scheduler.leads()
        own_plane.apiserver.kill()
        wait_for(lambda: "[-]watches failed" in ready(scheduler), "readiness says so")
        own_plane.apiserver.start()
        own_plane.wait_ready()
        placed(Pods(own_plane.admin, "default"), "p1")
        wait_for(lambda: "readyz check passed" in ready(scheduler), "it is ready again")


# --- permanent errors ----------------------------------------------------------------------------


def ended(plane: ControlPlane, *arguments: str) -> tuple[int, str]:
    """The exit code of a run that ends by itself, and its last line."""
    command = [sys.executable, "-m", "eventsched", "run", "--secure-port=0", *arguments]
    server: Server = plane.server("ended", command, {"PYTHONPATH": str(ROOT), "KUBECONFIG": ""})
    server.start()
    try:
        code = server.wait(90.0)
        return code, server.tail(1)
    finally:
        plane.discard(server)
        server.log.unlink()


def test_mistakes_end_it_with_a_message(plane: ControlPlane, database: str) -> None:
    """Exit code 2 for wrong options, 3 for missing things; never a traceback or a secret."""
    unknown = plane.write_kubeconfig("unknown", {"token": "s3cr3t-token"})
    forbidden = plane.write_kubeconfig("nobody", {"token": plane.token("nobody")})
    good = f"--kubeconfig={plane.kubeconfig}"
    log = f"--database={database}"
    missing = database.replace("/eventsched_test", "/eventsched_none")
    (port,) = free_ports(1)
    refused: dict[str, tuple[Any, ...]] = {
        "wrong token": (2, "does not know who we are", f"--kubeconfig={unknown}", log),
        "forbidden": (2, "list", f"--kubeconfig={forbidden}", log),
        "no kubeconfig": (2, "does not exist", "--kubeconfig=/none", log),
        "no context": (2, "has no context none; choose one of: ", good, "--context=none", log),
        "no database named": (2, "no database is named", good),
        "no URL": (2, "is not a URL", good, "--database=:"),
        "no such database": (3, "does not exist", good, f"--database={missing}"),
        "no config": (2, "No such file", good, log, "--config=/none"),
        "wrong stream": (2, "cannot be a stream's name", good, log, "--stream=a/b"),
        "wrong port": (2, "is not a port", good, log, f"--secure-port={port + 100_000}"),
    }
    for name, (code, said, *arguments) in refused.items():
        found, last = ended(plane, *arguments)
        assert (name, found) == (name, code), last
        assert said in last, (name, last)
        assert last.startswith("eventsched run: "), (name, last)
        assert "s3cr3t" not in last


def test_a_password_that_the_database_does_not_take_ends_it(
    plane: ControlPlane, folder: Path
) -> None:
    """It does not retry. With the right password it connects and reports the next thing missing."""
    kubeconfig = f"--kubeconfig={plane.kubeconfig}"
    with guarded(folder.parent) as server:
        wrong = server.url("scheduler", "s3cr3t-wrong")
        code, last = ended(plane, kubeconfig, f"--database={wrong}")
        assert (code, "password authentication failed" in last) == (3, True), last
        assert "s3cr3t" not in last
        code, last = ended(plane, kubeconfig, f"--database={server.url('scheduler')}")
        assert (code, "has no eventsched schema" in last) == (3, True), last


def test_a_database_without_the_schema_ends_it(plane: ControlPlane, database: str) -> None:
    """The word says what to run."""
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("DROP SCHEMA eventsched_log, eventsched CASCADE")
    code, last = ended(plane, f"--kubeconfig={plane.kubeconfig}", f"--database={database}")
    assert code == 3
    assert "run `eventsched db upgrade`" in last


def test_a_port_that_is_taken_ends_it(plane: ControlPlane, database: str) -> None:
    """The word names the field."""
    port = plane.url.rpartition(":")[2]
    code, last = ended(
        plane, f"--kubeconfig={plane.kubeconfig}", f"--database={database}",
        f"--secure-port={port}",
    )  # fmt: skip
    assert code == 3
    assert f"serving.port {port}" in last
