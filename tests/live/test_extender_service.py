"""What ``eventsched extender`` makes of its options and its file."""

import argparse
from pathlib import Path

import pytest

from eventsched.cli import extender
from eventsched.domain.errors import InputError
from eventsched.process import service
from eventsched.process import settings as process_settings
from eventsched.process.reload_check import needing_restart, needs_term
from eventsched.process.service_plan import ServiceOptions, plan_of
from eventsched.process.settings import ExtenderSettings, PathSettings, Settings
from eventsched.runtime.assembly import assemble, registry
from eventsched.web.http.https_server import Options

FIRST = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: one
- schedulerName: two
"""
SECOND = "---\napiVersion: eventsched.io/v1alpha1\nkind: EventschedConfiguration\n"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of ours."""
    for name in ("EVENTSCHED_DATABASE", "EVENTSCHED_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)


def in_effect(folder: Path, text: str, *arguments: str) -> Settings:
    """The settings that a file and a command line lead to."""
    file = folder / "e.yaml"
    file.write_text(text)
    parser = argparse.ArgumentParser()
    extender.add_to(parser.add_subparsers())
    options = parser.parse_args(["extender", "--config", str(file), *arguments])
    return extender.settings_of(options, assemble(file), "e.yaml")


def test_the_defaults(tmp_path: Path) -> None:
    found = in_effect(tmp_path, FIRST)
    assert found == Settings(stream="extender", extender=ExtenderSettings(profile="one"))
    assert service.extender_options(found.extender) == Options(
        "127.0.0.1", None, plain_health_port=8888
    )
    assert extender.warnings(found.extender) == []


def test_the_file_and_the_options(tmp_path: Path) -> None:
    more = """
stream: audit
extender:
  profile: two
  bindAddress: 0.0.0.0
  port: 7000
  tls: true
  certFile: c
  keyFile: k
  clientCAFile: ca
  paths: {filter: /a, prioritize: "", preempt: "", bind: /b}
  timeout: 1s
"""
    options = ("--bind-address", "::1", "--port", "7001", "--secure-port", "0")
    found = in_effect(tmp_path, FIRST + SECOND + more, *options)
    paths = PathSettings(filter="/a", prioritize="", preempt="", bind="/b")
    assert (found.stream, found.serving.port) == ("audit", 0)
    assert found.extender == ExtenderSettings(
        "two", "::1", 7001, tls=True, cert_file="c", key_file="k", client_ca_file="ca",
        paths=paths, timeout="1s",
    )  # fmt: skip
    assert service.extender_options(found.extender) == Options(
        "::1", 7001, Path("c"), Path("k"), None, Path("ca")
    )


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        (FIRST + "extenders: [{urlPrefix: http://x, filterVerb: f}]\n", (),
         "e.yaml: extenders: an extender asks no extenders; leave them to the scheduler"),
        (FIRST + SECOND + "extender: {profile: three}\n", (),
         "e.yaml: extender.profile: there is no profile three; there are: one, two"),
        (FIRST, ("--port", "0"), "--port: 0 is not a port; use 1 to 65535"),
    ],
)  # fmt: skip
def test_invalid_options(tmp_path: Path, text: str, arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(InputError) as wrong:
        in_effect(tmp_path, text, *arguments)
    assert str(wrong.value) == said


def test_each_problem_of_the_section_is_named() -> None:
    more = """
extender:
  port: 70000
  certFile: c
  timeout: 0s
  paths: {filter: f, prioritize: /bind}
"""
    found: list[InputError] = []
    process_settings.load(FIRST + SECOND + more, "f.yaml", found.append)
    said = sorted(map(str, found))
    assert said[-1].startswith("f.yaml: extender.timeout: ")
    assert [each.split(": ")[1] for each in said] == [
        "extender.certFile", "extender.paths.bind", "extender.paths.filter", "extender.port",
        "extender.timeout",
    ]  # fmt: skip


def test_a_port_that_is_reachable_from_other_hosts_is_warned_about() -> None:
    anywhere = ExtenderSettings(bind_address="0.0.0.0")
    [said] = extender.warnings(anywhere)
    assert said.startswith(
        "every client that reaches 0.0.0.0:8888 gets filters, scores and binds: "
    )
    guarded = ExtenderSettings(bind_address="0.0.0.0", tls=True, client_ca_file="ca")
    assert extender.warnings(guarded) == []


def test_the_log_names_the_served_profile_and_the_lease_differs(tmp_path: Path) -> None:
    settings = in_effect(tmp_path, FIRST)
    assembly = extender.beside(assemble(tmp_path / "e.yaml"))
    assert assembly.configuration.leader_election.resource_name == "eventsched-extender"
    assert assembly.profiles.keys() == {"one", "two"}
    plan = plan_of(ServiceOptions(assembly, settings, "a", None, (), serves=True), "me")
    assert plan.opening.inputs == {
        "configuration": assembly.digest,
        "serves": "one",
        "workBudget": str(settings.work_budget),
    }
    assert plan.stream == "extender"


def test_a_configured_lease_name_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "e.yaml"
    file.write_text(FIRST + "leaderElection: {resourceName: mine}\n")
    assembly = extender.beside(assemble(file))
    assert assembly.configuration.leader_election.resource_name == "mine"


def test_a_changed_file_is_read_as_at_a_start(tmp_path: Path) -> None:
    """With the extender's own defaults and refusals."""
    file = tmp_path / "e.yaml"
    file.write_text(FIRST)
    parser = argparse.ArgumentParser()
    extender.add_to(parser.add_subparsers())
    options = parser.parse_args(["extender", "--config", str(file)])
    known = registry(())
    assembly, settings = extender.configured(options, known)
    assert assembly.configuration.leader_election.resource_name == extender.LEASE
    assert (settings.stream, settings.extender.profile) == (extender.STREAM, "one")
    before = ServiceOptions(assembly, settings, "postgresql://u@h/d", None, (), serves=True)
    file.write_text(FIRST.replace("schedulerName: one", "schedulerName: three"))
    assembly, settings = extender.configured(options, known)
    assert settings.extender.profile == "three"
    after = before._replace(assembly=assembly, settings=settings)
    assert list(needing_restart(before, after)) == []
    assert needs_term(before, after)
    file.write_text(f"{FIRST}extenders: [{{urlPrefix: 'http://127.0.0.1:1', filterVerb: f}}]\n")
    with pytest.raises(InputError, match="an extender asks no extenders"):
        extender.configured(options, known)
