"""The chart's CronJob that archives: what its pod may do, and that its command and the scheduler of
the same values drop what is archived and nothing else."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from eventsched.cli.main import main
from eventsched.process import settings
from eventsched.runtime.live.log_housekeeping import Retention
from tests.databases import make_partitions_small
from tests.live.stage import pods, until
from tests.postgres.replicas import STREAM, Scene, play

from .chart import templated
from .rendering import Object, configuration, of_kind, pod_spec, the

pytestmark = pytest.mark.process

ARCHIVE = {"enabled": True, "existingClaim": "log-archive"}
DAY = 86_400_000_000_000


def job(objects: list[Object]) -> Object:
    """The spec of the CronJob's pod."""
    spec: Object = the(objects, "CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return spec


def test_it_is_off_by_default() -> None:
    assert not of_kind(templated(), "CronJob")
    assert len(of_kind(templated(), "NetworkPolicy")) == 1


def test_its_pod_may_write_to_the_archive_and_nothing_else() -> None:
    """It has no token, and may do to its machine what the scheduler's pods may."""
    objects = templated(archive=ARCHIVE)
    spec, scheduler = job(objects), pod_spec(objects)
    assert spec["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in spec
    assert spec["securityContext"] == scheduler["securityContext"]
    (container,) = spec["containers"]
    assert container["securityContext"] == scheduler["containers"][0]["securityContext"]
    assert "memory" in container["resources"]["limits"]
    assert [mount["name"] for mount in container["volumeMounts"] if not mount.get("readOnly")] == [
        "archive", "tmp",
    ]  # fmt: skip
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert volumes["archive"]["persistentVolumeClaim"] == {"claimName": "log-archive"}
    assert volumes["database"]["secret"]["secretName"] == "eventsched-archive"
    assert volumes["database"]["secret"]["items"] == [{"key": "url", "path": "url"}]
    schedule = the(objects, "CronJob")["spec"]
    assert (schedule["concurrencyPolicy"], schedule["timeZone"]) == ("Forbid", "Etc/UTC")


def test_no_selector_of_the_scheduler_matches_it() -> None:
    """It reaches the database and DNS; no client reaches it."""
    objects = templated(archive=ARCHIVE, database={"port": 5433})
    template = the(objects, "CronJob")["spec"]["jobTemplate"]["spec"]["template"]
    labels = template["metadata"]["labels"]
    policies = {
        each["metadata"]["name"]: each["spec"] for each in of_kind(objects, "NetworkPolicy")
    }
    own = policies.pop("eventsched-archive")
    assert own["podSelector"]["matchLabels"].items() <= labels.items()
    assert (own["policyTypes"], own["ingress"]) == (["Ingress", "Egress"], [])
    assert [port["port"] for rule in own["egress"] for port in rule["ports"]] == [53, 53, 5433]
    selectors = [each["podSelector"]["matchLabels"] for each in policies.values()]
    selectors += [
        the(objects, kind)["spec"]["selector"]["matchLabels"]
        for kind in ("Deployment", "PodDisruptionBudget")
    ]
    selectors += [each["spec"]["selector"] for each in of_kind(objects, "Service")]
    assert not any(selector.items() <= labels.items() for selector in selectors)


def test_the_values_of_it() -> None:
    """Each is in the pod; a cluster of CloudNativePG has one user."""
    mount = {"name": "ca", "mountPath": "/etc/ca"}
    given = {
        **ARCHIVE,
        "image": "registry.example.com/eventsched:1-archive",
        "schedule": "0 3 * * *",
        "secret": "pg",
        "urlKey": "archiver",
        "nodeSelector": {"disk": "big"},
        "tolerations": [{"operator": "Exists"}],
        "extraEnv": [{"name": "PGSSLROOTCERT", "value": "/etc/ca/ca.crt"}],
        "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
        "extraVolumeMounts": [mount],
    }
    objects = templated(archive=given, scheduler={"imagePullSecrets": [{"name": "registry"}]})
    spec = job(objects)
    (container,) = spec["containers"]
    assert the(objects, "CronJob")["spec"]["schedule"] == "0 3 * * *"
    assert container["image"] == "registry.example.com/eventsched:1-archive"
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert (spec["nodeSelector"], spec["tolerations"]) == (
        {"disk": "big"}, [{"operator": "Exists"}],
    )  # fmt: skip
    assert container["env"][-1]["name"] == "PGSSLROOTCERT"
    assert mount in container["volumeMounts"]
    assert {"name": "ca", "configMap": {"name": "ca"}} in spec["volumes"]
    secret = {each["name"]: each for each in spec["volumes"]}["database"]["secret"]
    assert (secret["secretName"], secret["items"][0]["key"]) == ("pg", "archiver")

    objects = templated(archive=given, database={"cloudNativePG": {"enabled": True}})
    secret = {each["name"]: each for each in job(objects)["volumes"]}["database"]["secret"]
    assert (secret["secretName"], secret["items"][0]["key"]) == ("eventsched-postgres-app", "uri")


@contextmanager
def shifted(monkeypatch: pytest.MonkeyPatch, days: int) -> Iterator[None]:
    """Runs the block ``days`` days later."""
    now = time.time_ns
    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: now() + days * DAY)
        yield


def count(database: str, condition: str) -> int:
    """Of the partitions that meet a condition."""
    with psycopg.connect(database) as admin:
        query = f"SELECT count(*) FROM eventsched_log.partition WHERE {condition}"
        [(found,)] = admin.execute(query.encode()).fetchall()
    return int(found)


def run_scheduler(database: str, retention: Retention, *, drops: bool) -> None:
    """Runs a replica with more pods, until it has sealed and dropped all that it may."""

    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        scene.cluster.put(*pods(30))
        await until(lambda: scene.bound == 30 and scene.settled)
        await until(lambda: not drops or count(database, "first = 0") == 0)

    play(database, story, retention=retention)


def test_the_job_and_the_scheduler_of_the_same_values(
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The scheduler keeps every record until the job, as a member of eventsched_archiver, has
    archived it; then it seals and drops, and the archive proves and has all."""
    make_partitions_small(database, 32, monkeypatch)
    monkeypatch.setattr("eventsched.runtime.live.log_housekeeping._AFTER", 0.0)
    monkeypatch.setattr("eventsched.runtime.live.log_housekeeping._EVERY", 0.01)
    objects = templated(
        archive=ARCHIVE, scheduler={"name": STREAM}, settings={"retention": {"records": "1ms"}}
    )
    retention = settings.load(configuration(objects), "eventsched.yaml").retention
    assert retention.require_archive
    live = Retention(records_age=0.001, needs_archive=retention.require_archive)
    run_scheduler(database, live, drops=False)
    assert count(database, "seal IS NOT NULL") == 0

    with psycopg.connect(database, autocommit=True) as admin:
        login = f"archiver_{admin.info.dbname}"
        admin.execute(f'CREATE ROLE "{login}" LOGIN IN ROLE eventsched_archiver'.encode())
    (container,) = job(objects)["containers"]
    secret = tmp_path / "url"
    address = make_url(database).set(username=login)
    secret.write_text(address.render_as_string(hide_password=False))
    folder = tmp_path / "archive"
    arguments = [
        str(folder) if each == "/var/lib/eventsched/archive" else each for each in container["args"]
    ]
    (variable,) = container["env"]
    with shifted(monkeypatch, days=1):
        monkeypatch.setenv(variable["name"], str(secret))
        assert main(arguments) == 0
        monkeypatch.delenv(variable["name"])
    shown = capsys.readouterr()
    assert (shown.out.splitlines()[-1], shown.err) == (
        f"1 day of stream {STREAM} archived in {folder}", "",
    )  # fmt: skip
    run_scheduler(database, live, drops=True)
    assert main(["verify", "--from-archive", str(folder), "--database", database]) == 0
