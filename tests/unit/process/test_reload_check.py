"""Which changes of a configuration are taken up, and which need a restart."""

from pathlib import Path

import pytest

from eventsched.process.reload_check import needing_restart, needs_term
from eventsched.process.service_plan import ServiceOptions
from eventsched.process.settings import Settings, load
from eventsched.runtime.assembly import assemble

FIRST = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
SECOND = "---\napiVersion: eventsched.io/v1alpha1\nkind: EventschedConfiguration\n"


def job(folder: Path, first: str = "", second: str = "") -> ServiceOptions:
    """What a file says."""
    file = folder / "eventsched.yaml"
    file.write_text(f"{FIRST}{first}\n{SECOND}{second}\n")
    settings = load(file.read_text(), "f") if second else Settings()
    return ServiceOptions(assemble(file), settings, "postgresql://u@h/d", None, ())


@pytest.mark.parametrize(
    ("first", "second", "fields"),
    [
        ("leaderElection: {resourceName: other}", "", ["leaderElection.resourceName"]),
        ("leaderElection: {leaderElect: false}", "", ["leaderElection.leaderElect"]),
        ("", "stream: other", ["stream"]),
        ("", "database: {url: postgresql://x/y}", ["database.url"]),
        ("", "serving: {port: 1, certFile: /c, keyFile: /k}",
         ["serving.port", "serving.certFile", "serving.keyFile"]),
        ("", "client: {concurrency: 7}", ["client.concurrency"]),
        ("", "extender: {paths: {filter: /f}}", ["extender.paths.filter"]),
        ("", "extender: {bindAddress: 0.0.0.0, port: 1}",
         ["extender.bindAddress", "extender.port"]),
        ("", "extender: {tls: true, certFile: /c, keyFile: /k, clientCAFile: /a}",
         ["extender.tls", "extender.certFile", "extender.keyFile", "extender.clientCAFile"]),
        ("", "extender: {timeout: 1s, profile: other}", ["extender.timeout"]),
        ("", "shadow: {enabled: true, schedulers: [other]}", ["shadow.enabled"]),
    ],
)  # fmt: skip
def test_what_is_open_for_the_life_of_the_process_needs_a_restart(
    tmp_path: Path, first: str, second: str, fields: list[str]
) -> None:
    found = list(needing_restart(job(tmp_path), job(tmp_path, first, second)))
    assert [problem.where for problem in found] == [f"configuration: {name}" for name in fields]
    assert {problem.problem for problem in found} == {"has changed, which needs a restart"}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("profiles: [{schedulerName: a}, {schedulerName: b}]", ""),
        ("podMaxBackoffSeconds: 3", ""),
        ("extenders: [{urlPrefix: 'http://127.0.0.1:1', filterVerb: filter}]", ""),
        ("", "batch: {records: 7}"),
        ("", "detail: digest"),
        ("", "retention: {detail: 1h}"),
        ("", "snapshot: {records: 7}"),
        ("", "keepAnnotations: [a/b]"),
        ("", "pluginDeadline: 1s"),
        ("", "workBudget: 7"),
        ("", "extender: {profile: other}"),
    ],
)
def test_what_terms_read_is_taken_up_between_two(tmp_path: Path, first: str, second: str) -> None:
    before, after = job(tmp_path), job(tmp_path, first, second)
    assert list(needing_restart(before, after)) == []
    assert needs_term(before, after)


@pytest.mark.parametrize(("first", "second"), [("# a remark", ""), ("", "logging: {level: debug}")])
def test_what_no_term_reads_begins_none(tmp_path: Path, first: str, second: str) -> None:
    before, after = job(tmp_path), job(tmp_path, first, second)
    assert list(needing_restart(before, after)) == []
    assert not needs_term(before, after)


def test_every_setting_is_on_one_side(tmp_path: Path) -> None:
    """A new field is decided upon here: it needs a restart, or terms read it."""
    assert set(Settings.__struct_fields__) == {
        "database", "stream", "serving", "api", "client", "extender", "shadow",
        "tracing",  # a restart
        "logging",  # at once
        "batch", "detail", "retention", "snapshot", "checkpoints", "keep_annotations",
        "plugin_deadline", "work_budget",  # a term
    }  # fmt: skip
