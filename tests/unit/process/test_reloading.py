"""A changed configuration file: what is applied or refused, and how that is reported."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
import structlog
from prometheus_client import CollectorRegistry

from eventsched.domain.errors import InputError, UnavailableError
from eventsched.process import reloading
from eventsched.process.configuration_files import ConfigurationFiles
from eventsched.process.reloading import Reloader, ReloadTarget
from eventsched.process.service_plan import ServiceOptions, plan_of
from eventsched.process.settings import Settings, load
from eventsched.runtime.assembly import Assembly, assemble
from eventsched.runtime.live.replica_plan import Reload
from eventsched.web.reload_metrics import ReloadMetrics
from tests.live.stage import until

FIRST = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
SECOND = "---\napiVersion: eventsched.io/v1alpha1\nkind: EventschedConfiguration\n"


class Watches:
    """Stands for ``Kube``."""

    def __init__(self) -> None:
        self.problem: Exception | None = None
        self.taken_up = 0

    async def reconfigured(self, *_: Any) -> str:
        if self.problem is not None:
            raise self.problem
        return "prepared"

    def take_up(self, prepared: str, *_: Any) -> None:
        assert prepared == "prepared"
        self.taken_up += 1


class Scene:
    """A reloader over a file. ``reports`` are its Events, ``lines`` its log lines."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "eventsched.yaml"
        self.write()
        files = ConfigurationFiles(self.file)
        self.kube, self.reports, self.lines = Watches(), [], []  # type: ignore[var-annotated]
        self.plans: list[Reload] = []
        self.in_force: list[ServiceOptions] = []
        assembly, settings = self.read()
        job = ServiceOptions(
            assembly, settings, "postgresql://u@h/d", None, (), files=files, read=self.read,
        )  # fmt: skip
        self.registry = CollectorRegistry()
        make: Any = ReloadTarget  # of stand-ins
        running = make(self.kube, self, partial(plan_of, identity="me"), self.in_force.append)
        self.reloader = Reloader(
            job, running, ReloadMetrics(self.registry, 1.0), self, period=0.002
        )

    def read(self) -> tuple[Assembly, Settings]:
        """What the file says."""
        return assemble(self.file), load(self.file.read_text(), str(self.file))

    def write(self, first: str = "", second: str = "") -> None:
        """Writes the file."""
        self.file.write_text(f"{FIRST}{first}\n{SECOND}{second}\n")

    def reload(self, reload: Reload) -> None:
        """Stands for ``Replica``."""
        self.plans.append(reload)
        reload.on_effective()

    async def announce(self, type_: Literal["Normal", "Warning"], reason: str, note: str) -> None:
        """Stands for ``ProcessEvents``."""
        self.reports.append((type_, reason, note))

    def count(self, name: str, **labels: str) -> float | None:
        """A metric's value."""
        return self.registry.get_sample_value(f"eventsched_configuration_{name}", labels)

    @property
    def counts(self) -> tuple[float | None, float | None, float | None]:
        """Applied, refused, and whether the last reload was successful."""
        return (
            self.count("reloads_total", result="applied"),
            self.count("reloads_total", result="refused"),
            self.count("last_reload_successful"),
        )


def play(folder: Path, story: Callable[[Scene], Awaitable[None]]) -> Scene:
    """Runs a reloader beside a story."""

    async def run() -> Scene:
        scene = Scene(folder)
        with structlog.testing.capture_logs() as lines:
            running = asyncio.create_task(scene.reloader.run())
            try:
                await story(scene)
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
        scene.lines = lines
        return scene

    return asyncio.run(run())


def test_a_changed_file_is_in_force(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        scene.write("profiles: [{schedulerName: mine}]")
        await until(lambda: scene.reports)

    scene = play(tmp_path, story)
    assert scene.counts == (1, 0, 1)
    assert (scene.count("last_reload_success_timestamp_seconds") or 0) > 1.0
    [plan] = scene.plans
    assert plan.plan.opening.configuration == scene.file.read_text().split("---")[0]
    assert [list(job.assembly.profiles) for job in scene.in_force] == [["mine"]]
    assert scene.kube.taken_up == 1
    assert scene.reports[0][:2] == ("Normal", "ConfigurationReloaded")
    assert [line["event"] for line in scene.lines] == ["the configuration is in force"]


@pytest.mark.row(32)
def test_a_wrong_file_is_refused_with_all_its_problems(tmp_path: Path) -> None:
    """And the one before stays in force; a corrected one is taken up."""

    async def story(scene: Scene) -> None:
        scene.write("profiles: [{schedulerName: mine, plugin: {}}]", "batch: {records: 0}")
        await until(lambda: scene.reports)
        assert (scene.counts, scene.plans, scene.in_force) == ((0, 1, 0), [], [])
        scene.write("profiles: [{schedulerName: mine}]")
        await until(lambda: scene.plans)

    scene = play(tmp_path, story)
    assert scene.counts == (1, 1, 1)
    refused = [line for line in scene.lines if line["log_level"] == "error"]
    assert [line["where"] for line in refused] == [
        f"{scene.file}: profiles[0].plugin",
        f"{scene.file}: batch.records",
    ]
    assert all(line["problem"] and line["remedy"] for line in refused)
    type_, reason, note = scene.reports[0]
    assert (type_, reason) == ("Warning", "ConfigurationRefused")
    assert "profiles[0].plugin" in note
    assert note.endswith("(and 1 more)")


def test_a_change_that_needs_a_restart_is_refused_as_a_whole(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        scene.write("profiles: [{schedulerName: mine}]", "stream: other")
        await until(lambda: scene.reports)

    scene = play(tmp_path, story)
    assert (scene.counts, scene.plans) == ((0, 1, 0), [])
    assert "stream: has changed, which needs a restart" in scene.reports[0][2]


def test_a_refused_file_that_is_restored_is_no_reload(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        scene.write("nonsense: 1")
        await until(lambda: scene.reports)
        scene.write()
        await until(lambda: scene.counts[2] == 1)

    scene = play(tmp_path, story)
    assert (scene.counts, scene.plans) == ((0, 1, 1), [])


def test_a_signal_checks_a_refused_file_again(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        scene.write("nonsense: 1")
        await until(lambda: scene.reports)
        scene.reloader.ask()
        await until(lambda: len(scene.reports) == 2)

    assert play(tmp_path, story).counts == (0, 2, 0)


def test_a_cluster_that_refuses_the_lists_refuses_the_configuration(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        scene.kube.problem = InputError("ElasticQuota", "is forbidden", "add the rule")
        scene.write("profiles: [{schedulerName: mine}]")
        await until(lambda: scene.reports)

    scene = play(tmp_path, story)
    assert (scene.counts, scene.plans) == ((0, 1, 0), [])
    assert "ElasticQuota: is forbidden; add the rule" in scene.reports[0][2]


def test_a_cluster_that_does_not_answer_is_asked_again(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(reloading, "RETRY_AFTER", 0.01)

    async def story(scene: Scene) -> None:
        scene.kube.problem = UnavailableError("the cluster", "does not answer", "wait")
        scene.write("profiles: [{schedulerName: mine}]")
        await until(lambda: scene.reports)
        scene.kube.problem = None
        await until(lambda: scene.plans)

    scene = play(tmp_path, story)
    assert scene.counts[2] == 1
    assert scene.in_force


def test_a_remark_in_the_file_begins_no_term(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        scene.write("# a remark")
        await until(lambda: scene.reports)

    scene = play(tmp_path, story)
    assert (scene.counts, scene.plans, len(scene.in_force)) == ((1, 0, 1), [], 1)


def test_an_exception_in_the_check_is_a_refusal(tmp_path: Path) -> None:
    """A plugin may raise anything; the scheduler goes on."""

    async def story(scene: Scene) -> None:
        def raising() -> tuple[Assembly, Settings]:
            raise RuntimeError("what a plugin raised")

        scene.reloader.job = scene.reloader.job._replace(read=raising)
        scene.write("profiles: [{schedulerName: mine}]")
        await until(lambda: scene.reports)

    scene = play(tmp_path, story)
    assert (scene.counts, scene.plans) == ((0, 1, 0), [])
    assert "cannot be checked: RuntimeError: what a plugin raised" in scene.reports[0][2]
