"""Pages of docs/how-to on a cluster: their commands as they are written, beside a scheduler."""

import base64
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from subprocess import CalledProcessError

import psycopg
import pytest
import yaml

from eventsched.domain.records import BindVoided, HistoryLost, PodBound, TermBegan
from tests.cluster.harness.binaries import MissingProgramError
from tests.cluster.harness.binaries import helm as find_helm
from tests.cluster.harness.client import wait_for
from tests.cluster.harness.demos import DEFAULT
from tests.cluster.harness.deployed import deployed
from tests.cluster.harness.faults import Refuse
from tests.cluster.harness.manifests import SCHEDULER, node, pod, priority_class
from tests.cluster.harness.own_postgres import OwnPostgres
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import Pods
from tests.cluster.harness.scheduler import Schedulers
from tests.cluster.harness.servers import Server
from tests.cluster.harness.stage import Stage
from tests.databases import ROOT, complete_programs, embedded_programs
from tests.deploy.rendering import example_secret
from tests.pages import Page


@pytest.fixture
def kubectl(plane: ControlPlane) -> Path:
    """The folder of kubectl."""
    folders = [Path(each) for each in os.environ.get("PATH", "").split(os.pathsep)]
    with suppress(MissingProgramError):
        folders.insert(0, plane.programs.path("kubectl").parent)
    for folder in folders:
        if (folder / "kubectl").exists():
            return folder
    pytest.skip("no kubectl")


@pytest.fixture
def stage(plane: ControlPlane, postgres: OwnPostgres, namespace: str) -> Iterator[Stage]:
    """A scheduler that leads, one node with room for a few pods, and the Deployment of an overlay
    of which no pod is ever started."""
    plane.admin.create(node("a", "1"))
    plane.admin.create(priority_class("patient", 1000, preemptionPolicy="Never"))
    made = Stage(plane, postgres.url, namespace, settings={"stream": "eventsched"})
    with deployed(plane, "external-postgres"), made.running:
        made.scheduler.start()
        made.placed("small")
        yield made


def waits_for_pods(command: str) -> bool:
    """Whether a command waits for pods of the Deployment, which are never started here."""
    return " wait --for=delete " in command or " rollout status " in command


@pytest.mark.row(9)
def test_a_restored_dump(
    plane: ControlPlane, stage: Stage, postgres: OwnPostgres, kubectl: Path, tmp_path: Path
) -> None:
    """The dump has a pod that is gone now, lacks one that was bound since, and promises a bind
    whose room was given away since. Nothing is bound twice."""
    unheard = stage.kube.on("POST", "/pods/first/binding$", Refuse(503, 1))
    stage.placed("gone")
    stage.pods.create(pod("first", "700m"))
    unheard.wait()

    def before(command: str) -> bool:
        if command.endswith("--replicas=0"):
            refused = stage.kube.on("POST", "/pods/first/binding$", Refuse(409))
            stage.pods.create(pod("second", "700m", priorityClassName="patient"))
            unheard.remove()
            stage.scheduler.wait_log(BindVoided)
            assert stage.pods.node("second", 60.0) == "a"
            stage.pods.delete("gone")
            assert stage.scheduler.stop() == 0
            refused.remove()
        if command.endswith("--replicas=1"):
            stage.scheduler.server.log.unlink()
        if command.startswith("eventsched log"):
            stage.scheduler.start()
            stage.scheduler.wait_log(HistoryLost)
        return not waits_for_pods(command)

    page = Page(
        "how-to/back-up-and-restore.md",
        tmp_path,
        {
            "DATABASE_URL": postgres.url,
            "MAINTENANCE_URL": postgres.url.replace("/eventsched?", "/postgres?"),
            **dict.fromkeys(("REPLICATION_URL", "RECOVERED_URL", "BACKUP", "ARCHIVE"), ""),
            "KUBECONFIG": str(plane.kubeconfig),
        },
        path=(complete_programs(list(embedded_programs().values())[-1], tmp_path), kubectl),
        before=before,
    )
    assert page.run(until="## Base backup and WAL") == 8
    assert stage.pods.nodes() == {"small": "a", "first": "", "second": "a"}
    uid = stage.pods.get("first")["metadata"]["uid"]
    log = stage.scheduler.log()
    assert [voided.uid for voided in log.of(BindVoided)] == [uid]
    assert stage.bindings("second") == [201]
    stage.pods.delete("second")
    assert stage.pods.node("first", 60.0) == "a"
    wait_for(
        lambda: uid in {each.uid for each in stage.scheduler.log().of(PodBound)}, "it is bound"
    )
    assert stage.bindings("first")[-1] == 201
    assert stage.bindings("first").count(201) == 1
    assert stage.bindings("small") == [201]
    assert stage.observer.wrong == []


def test_a_new_log(
    plane: ControlPlane, stage: Stage, postgres: OwnPostgres, kubectl: Path, tmp_path: Path
) -> None:
    """The cluster has a pod that is bound, and one whose bind the lost log promised. Nothing is
    bound twice."""
    maintenance = postgres.url.replace("/eventsched?", "/postgres?")
    unheard = stage.kube.on("POST", "/pods/first/binding$", Refuse(503, 1))
    stage.pods.create(pod("first", "700m"))
    unheard.wait()

    def before(command: str) -> bool:
        if command.endswith("--replicas=0"):
            stage.scheduler.kill()
            unheard.remove()
            drop(maintenance)
        if command.startswith("eventsched log"):
            stage.scheduler.start()
            stage.scheduler.wait_log(PodBound)
        return not waits_for_pods(command)

    page = Page(
        "how-to/start-a-new-log.md",
        tmp_path,
        {
            "DATABASE_URL": postgres.url,
            "MAINTENANCE_URL": maintenance,
            "SCHEDULER_URL": postgres.url,
            "KUBECONFIG": str(plane.kubeconfig),
        },
        path=(complete_programs(list(embedded_programs().values())[-1], tmp_path), kubectl),
        before=before,
    )
    assert page.run() == 8
    assert stage.pods.nodes() == {"small": "a", "first": "a"}
    assert stage.bindings("small") == [201]
    assert stage.bindings("first").count(201) == 1
    stage.placed("new")
    assert stage.observer.wrong == []


def drop(maintenance: str) -> None:
    """Loses the database."""
    with psycopg.connect(maintenance, autocommit=True) as admin:
        admin.execute("DROP DATABASE eventsched WITH (FORCE)")


@pytest.mark.parametrize(
    "name", ["upgrade-and-roll-back.md", "upgrade-from-0.1.md", "rotate-credentials.md"]
)
def test_commands_for_the_api_server(
    plane: ControlPlane, kubectl: Path, tmp_path: Path, name: str
) -> None:
    """tests/postgres/test_how_to.py runs the others of these pages."""
    exported = {
        "DATABASE_URL": "postgresql://migrator@db/eventsched",
        "NEW_URL": "postgresql://scheduler:new-secret@db/eventsched",
        "OTHER_URL": "postgresql://scheduler_b:other-secret@db/eventsched",
        "MAINTENANCE_URL": "",
        "IMAGE": "eventsched:0.2.0",
        "OLD_IMAGE": "eventsched:0.1.0",
    }

    def before(command: str) -> bool:
        if command.endswith("--replicas=0") and name == "upgrade-and-roll-back.md":
            # The second way back is for those who did not take the first.
            image = ("set", "image", "deploy/eventsched", f"*={exported['IMAGE']}")
            plane.kubectl("-n", "eventsched", *image)
        return command.startswith("kubectl") and not waits_for_pods(command)

    with deployed(plane, "external-postgres"):
        plane.kubectl("apply", "-f", "-", given=json.dumps(example_secret()))
        page = Page(
            f"how-to/{name}",
            tmp_path,
            {**exported, "KUBECONFIG": str(plane.kubeconfig)},
            path=(kubectl,),
            before=before,
        )
        assert page.run() == {
            "upgrade-and-roll-back.md": 5, "upgrade-from-0.1.md": 6, "rotate-credentials.md": 2
        }[name]  # fmt: skip
        secret = plane.admin.get("Secret", "eventsched-database", "eventsched")
        template = plane.admin.get("apps/v1/Deployment", "eventsched", "eventsched")["spec"]
        if name == "rotate-credentials.md":
            assert base64.b64decode(secret["data"]["url"]).decode() == exported["OTHER_URL"]
        else:
            pod_spec = template["template"]["spec"]
            containers = (*pod_spec["containers"], *pod_spec["initContainers"])
            assert {each["image"] for each in containers} == {"eventsched:0.1.0"}
            assert template["replicas"] == 2


@pytest.fixture
def upstream_server(plane: ControlPlane) -> Iterator[Server]:
    """kube-scheduler with the default profile, elected."""
    try:
        server = plane.start_kube_scheduler(
            {"profiles": [{"schedulerName": DEFAULT}]}, "--leader-elect=true"
        )
    except MissingProgramError as missing:
        pytest.skip(str(missing))
    yield server
    plane.discard(server)


def test_a_login_changes_under_a_scheduler(
    plane: ControlPlane, postgres: OwnPostgres, namespace: str, tmp_path: Path
) -> None:
    """The process reads its file again and goes on with its term."""
    plane.admin.create(node("a"))
    pods, file = Pods(plane.admin, namespace), tmp_path / "url"

    def write(user: str) -> None:
        """As a kubelet does it: the file is never there by halves."""
        new = tmp_path / "new"
        new.write_text(postgres.url.replace("postgres@", f"{user}@", 1))
        new.replace(file)

    for name in ("first", "second"):
        postgres.execute(f"CREATE ROLE {name} LOGIN IN ROLE eventsched_writer")
    write("first")
    with Schedulers(plane, postgres.url) as schedulers:
        scheduler = schedulers.start(settings={"database": {"urlFile": str(file)}})
        pods.create(pod("one"))
        assert pods.node("one", 60.0) == "a"
        postgres.execute("ALTER ROLE first NOLOGIN")
        postgres.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'first'"
        )
        pods.create(pod("two"))
        wait_for(lambda: "not permitted to log in" in scheduler.ask("/readyz")[1], "it is refused")
        write("second")
        assert pods.node("two", 60.0) == "a"
        wait_for(lambda: scheduler.log().of(PodBound)[1:], "both binds are logged")
        assert len(scheduler.log().of(TermBegan)) == 1


AT_ONCE = ("--grace-period=0", "--force")


def removed(plane: ControlPlane, *what: str) -> None:
    """Deletes what a page has made."""
    with suppress(CalledProcessError):
        plane.kubectl("delete", "--ignore-not-found", "--wait=false", *what)


def test_two_schedulers(
    plane: ControlPlane,
    upstream_server: Server,
    schedulers: Schedulers,
    kubectl: Path,
    tmp_path: Path,
) -> None:
    """Each binds its own pod."""
    plane.admin.create(node("a"))
    schedulers.start()
    pods = Pods(plane.admin, "side-by-side")

    def before(command: str) -> None:
        if " get events" in command:
            for name in ("one", "other"):
                pods.wait_event(name, "Scheduled")

    page = Page(
        "how-to/run-two-schedulers.md",
        tmp_path,
        {"KUBECONFIG": str(plane.kubeconfig)},
        path=(kubectl,),
        before=before,
    )
    try:
        assert page.run() == 6
    finally:
        plane.kubectl(
            "delete", "pods", "--all", "-n", "side-by-side", "--grace-period=0", "--force"
        )
        removed(plane, "namespace", "side-by-side")


def test_move_from_kube_scheduler(
    plane: ControlPlane,
    upstream_server: Server,
    schedulers: Schedulers,
    kubectl: Path,
    tmp_path: Path,
) -> None:
    """Beside it, in a namespace, and in its place."""
    plane.admin.create(node("a"))
    named = schedulers.start()

    def is_in_force() -> bool:
        """Whether the API server has heard of the policy itself."""
        tried = pod("tried", scheduler=DEFAULT)
        path = plane.admin.path("Pod", None, "team-a")
        answer = plane.admin.call("POST", path, tried, dryRun="All")
        return bool(answer.body["spec"]["schedulerName"] == SCHEDULER)

    def before(command: str) -> None:
        if " run web" in command:
            wait_for(is_in_force, "the policy is in force")
        if " get lease" in command:
            assert named.stop() == 0
            profiles = yaml.safe_load((tmp_path / "default.yaml").read_text())
            elected = schedulers.make(config=profiles)
            elected.server.start()
            wait_for(lambda: elected.ask("/readyz")[0] == 200, "it is ready", 60.0)
            wait_for(lambda: "standing by" in elected.ask("/readyz?verbose")[1], "it stands by")
            upstream_server.kill()
            elected.leads()
        if command.startswith("eventsched explain"):
            wait_for(lambda: schedulers.made[1].log().of(PodBound)[1:], "it is logged")

    page = Page(
        "how-to/move-from-kube-scheduler.md",
        tmp_path,
        {"KUBECONFIG": str(plane.kubeconfig), "EVENTSCHED_DATABASE": schedulers.database},
        path=(kubectl,),
        before=before,
    )
    try:
        assert page.run() == 13
    finally:
        for namespace in ("default", "team-a"):
            removed(plane, "pods", "--all", f"--namespace={namespace}", *AT_ONCE)
        removed(plane, "namespace", "team-a")
        removed(plane, "mutatingadmissionpolicies,mutatingadmissionpolicybindings", "eventsched")


def test_install_with_helm(plane: ControlPlane, kubectl: Path, tmp_path: Path) -> None:
    """No pod is started: there are no nodes."""
    try:
        program = find_helm()
    except MissingProgramError as missing:
        pytest.skip(str(missing))
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    page = Page(
        "how-to/install-with-helm.md",
        tmp_path,
        {
            "SCHEDULER_URL": "postgresql://scheduler@db/eventsched",
            "MIGRATOR_URL": "postgresql://migrator@db/eventsched",
            "ARCHIVER_URL": "postgresql://archiver@db/eventsched",
            "KUBECONFIG": str(plane.kubeconfig),
            "HELM_CACHE_HOME": str(tmp_path),
        },
        path=(kubectl, program.parent),
    )
    try:
        assert page.run() == 13
    finally:
        removed(plane, "secret,deploy", "--all", "--namespace=scheduling")
        removed(plane, "namespace", "scheduling")
