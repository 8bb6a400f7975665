"""What ``eventsched run`` makes of its options, its environment and its file."""

import argparse
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from eventsched import __version__
from eventsched.cli import run
from eventsched.domain.behaviours import CURRENT
from eventsched.domain.errors import InputError
from eventsched.domain.records import FORMAT, StreamStarted
from eventsched.domain.records.stimuli import WORK_BUDGET
from eventsched.eventlog.chain import Head
from eventsched.eventlog.signing_keys import generate
from eventsched.plugins import IN_TREE
from eventsched.process import service_plan
from eventsched.process.sections.api_settings import ApiSettings
from eventsched.process.service_plan import ServiceOptions
from eventsched.process.settings import DatabaseSettings, Settings
from eventsched.runtime.assembly import assemble
from eventsched.runtime.leader.limits import Limits
from eventsched.runtime.live.ports import NoElection
from eventsched.runtime.simulation.simulation import DEFAULT_SEED
from eventsched.web.metrics import Metrics

FIRST = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: /theirs}
profiles:
- schedulerName: mine
"""
SECOND = "---\napiVersion: eventsched.io/v1alpha1\nkind: EventschedConfiguration\n"
FILE = f"""{FIRST}{SECOND}
database: {{urlFile: /secret/url}}
stream: filed
batch: {{records: 7, bytes: 70000}}
detail: digest
retention: {{detail: 1h30m}}
snapshot: {{records: 70}}
serving: {{bindAddress: 0.0.0.0, port: 7000}}
logging: {{format: json, level: error}}
client: {{kubeconfig: /ours, context: filed}}
"""


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of ours."""
    for name in ("EVENTSCHED_DATABASE", "EVENTSCHED_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A configuration with everything."""
    made = tmp_path / "eventsched.yaml"
    made.write_text(FILE)
    return made


def in_effect(*arguments: str) -> Settings:
    """The settings that a command line leads to."""
    parser = argparse.ArgumentParser()
    run.add_to(parser.add_subparsers())
    options = parser.parse_args(["run", *arguments])
    return run.settings_of(options, assemble(options.config), "f.yaml")


def told(settings: Settings) -> dict[str, Any]:
    """What options can say."""
    return {
        "database": settings.database,
        "stream": settings.stream,
        "at": (settings.serving.bind_address, settings.serving.port),
        "logging": (settings.logging.format, settings.logging.level),
        "client": (settings.client.kubeconfig, settings.client.context),
    }


OF_FILE = {
    "database": DatabaseSettings(url_file="/secret/url"),
    "stream": "filed",
    "at": ("0.0.0.0", 7000),
    "logging": ("json", "error"),
    "client": ("/ours", "filed"),
}


def test_the_file_is_used_without_environment_and_options(file: Path, tmp_path: Path) -> None:
    assert in_effect() == Settings()
    assert told(in_effect(f"--config={file}")) == OF_FILE
    first = tmp_path / "first.yaml"
    first.write_text(FIRST)
    assert in_effect(f"--config={first}").client.kubeconfig == "/theirs"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("EVENTSCHED_DATABASE", "postgresql://e/d", DatabaseSettings(url="postgresql://e/d")),
        ("EVENTSCHED_DATA_DIR", "/e", DatabaseSettings(data_dir="/e")),
    ],
)
def test_the_environment_wins_over_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, expected: DatabaseSettings
) -> None:
    """It can only say where the database is."""
    monkeypatch.setenv(name, value)
    assert told(in_effect(f"--config={file}")) == {**OF_FILE, "database": expected}


def test_options_win_over_the_environment_and_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENTSCHED_DATABASE", "postgresql://e/d")
    monkeypatch.setenv("EVENTSCHED_DATA_DIR", "/e")
    options = (
        "--data-dir=/o", "--stream=given", "--bind-address=::1", "--secure-port=0",
        "--log-level=debug", "--log-format=text", "--kubeconfig=/given", "--context=other",
    )  # fmt: skip
    assert told(in_effect(f"--config={file}", *options)) == {
        "database": DatabaseSettings(data_dir="/o"),
        "stream": "given",
        "at": ("::1", 0),
        "logging": ("text", "debug"),
        "client": ("/given", "other"),
    }
    url = in_effect(f"--config={file}", "--database=postgresql://o/d").database
    assert url == DatabaseSettings(url="postgresql://o/d")


def test_the_port_of_the_api(tmp_path: Path) -> None:
    """Options win over the file; the pages need the port."""
    file = tmp_path / "e.yaml"
    file.write_text(f"{FIRST}{SECOND}api: {{port: 80, authorization: off}}\n")
    assert in_effect("--api-port=81", "--ui").api == ApiSettings(81, True)
    assert in_effect(f"--config={file}", "--ui").api == ApiSettings(80, True, "off")
    assert in_effect(f"--config={file}", "--api-port=81").api == ApiSettings(81, False, "off")
    for words, problem in (
        (["--ui"], "--ui: is for the port of the API; add --api-port 8787"),
        ([f"--config={file}", "--api-port=0", "--ui"], "--ui: is for the port"),
        (["--api-port=65536"], "--api-port: 65536 is not a port; use 0 to 65535"),
    ):
        with pytest.raises(InputError) as refused:
            in_effect(*words)
        assert str(refused.value).startswith(problem)


@pytest.mark.parametrize("given", ["options", "environment"])
def test_two_databases_are_refused(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["--database=postgresql://o/d", "--data-dir=/o"]
    if given == "environment":
        arguments = []
        monkeypatch.setenv("EVENTSCHED_DATABASE", "postgresql://e/d")
        monkeypatch.setenv("EVENTSCHED_DATA_DIR", "/e")
    with pytest.raises(InputError, match="two databases are named"):
        in_effect(*arguments)


# --- what is made of them -------------------------------------------------------------------


def job(*arguments: str, config: Path | None = None) -> ServiceOptions:
    """What would be run."""
    given = [f"--config={config}"] if config is not None else []
    settings = in_effect(*given, *arguments)
    return ServiceOptions(assemble(config), settings, "postgresql://u@h/d", None, ())


def test_all_settings_reach_the_terms(file: Path) -> None:
    of = job(config=file)
    plan = service_plan.plan_of(of, "me")
    assert plan.opening == StreamStarted(
        format=FORMAT,
        engine=__version__,
        seed=DEFAULT_SEED,
        inputs={
            "configuration": of.assembly.digest,
            WORK_BUDGET: str(of.settings.work_budget),
        },
        configuration=FIRST,
        plugins=of.assembly.sources,
        flags=CURRENT,
    )
    assert set(of.assembly.sources) <= set(IN_TREE)
    assert (plan.address, plan.stream, plan.holder) == ("postgresql://u@h/d", "filed", "me")
    assert plan.limits == Limits(records=7, size=70_000, snapshot_every=70)
    assert plan.retention.vectors_age == 5400.0
    assert plan.make_engine().position == 0


class Published(NoElection):
    """Keeps the annotations of the Lease."""

    def __init__(self) -> None:
        self.annotations: list[tuple[str, str]] = []

    def annotate(self, key: str, value: str) -> None:
        """See the port."""
        self.annotations.append((key, value))


def test_checkpoints_are_counted_and_published(tmp_path: Path) -> None:
    """The newest one is an annotation of the Lease."""
    key, file = tmp_path / "key.pem", tmp_path / "f.yaml"
    generate(key)
    file.write_text(f"{FIRST}{SECOND}checkpoints: {{key: {key}}}\n")
    metrics, election = Metrics(), Published()
    published = service_plan.PublishedCheckpoints(metrics, election)
    checkpointer = service_plan.plan_of(job(config=file), "me", published).checkpointer
    assert checkpointer is not None
    with capture_logs() as logs:
        checkpointer.committed(Head(5, bytes(32)))
    [line] = logs
    assert election.annotations == [("eventsched.io/checkpoint", line["checkpoint"])]
    published.checkpoint_unwritten()
    text = metrics.exposition()[0].decode()
    assert "\neventsched_checkpoints_total 1.0\n" in text
    assert "\neventsched_checkpoint_write_failures_total 1.0\n" in text


def test_a_term_without_settings() -> None:
    plan = service_plan.plan_of(job(), "me")
    assert (plan.stream, plan.opening.configuration) == ("scheduler", "")
    assert plan.limits == Limits(records=256, size=4 * 2**20, snapshot_every=12_500)
    assert plan.retention.vectors_age == 0.0


def test_the_configuration_that_is_shown_is_the_one_in_effect(file: Path) -> None:
    """With its defaults, also without a file."""
    shown = service_plan.shown_configuration(
        job("--data-dir=/o", "--kubeconfig=/given", config=file)
    )
    assert [each["schedulerName"] for each in shown["kubescheduler"]["profiles"]] == ["mine"]
    assert shown["kubescheduler"]["podInitialBackoffSeconds"] == 1
    assert shown["eventsched"]["database"] == {"url": "", "urlFile": "", "dataDir": "/o"}
    assert shown["eventsched"]["client"]["kubeconfig"] == "/given"
    assert shown["eventsched"]["batch"] == {"records": 7, "bytes": 70_000}
    bare = service_plan.shown_configuration(job())["kubescheduler"]
    assert [each["schedulerName"] for each in bare["profiles"]] == ["default-scheduler"]
    assert bare["leaderElection"]["leaderElect"] is True
