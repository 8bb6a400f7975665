"""The second document of a configuration file: what it may contain, and the messages about the
rest."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from eventsched.domain.detail_levels import FULL, SUMMARY, DetailLevel, DetailLevels
from eventsched.domain.errors import InputError
from eventsched.process import settings
from eventsched.process.sections.detail_settings import detail_levels
from eventsched.process.sections.settings_part import SettingsPart
from eventsched.process.settings import DatabaseSettings, Settings
from eventsched.scheduling.config.document import first_text
from tests.databases import ROOT

FIRST = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
HEAD = f"{FIRST}---\napiVersion: eventsched.io/v1alpha1\nkind: EventschedConfiguration\n"


def problems(text: str) -> list[str]:
    """All messages about a file."""
    found: list[InputError] = []
    try:
        settings.load(text, "f.yaml", found.append)
    except InputError as fatal:
        found.append(fatal)
    return [str(each) for each in found]


@pytest.mark.parametrize("text", [FIRST, f"{FIRST}---\n", HEAD, '{"kind": "a"}'])
def test_everything_has_a_default(text: str) -> None:
    """Also the document itself."""
    assert settings.load(text, "f.yaml") == Settings()
    assert problems(text) == []


def test_a_budget_of_work_is_a_number_of_units_or_0_for_none() -> None:
    assert Settings().work_budget == 4_000_000
    assert settings.load(HEAD + "workBudget: 0\n", "f.yaml").work_budget == 0
    (problem,) = problems(HEAD + "workBudget: -1\n")
    assert problem.startswith("f.yaml: workBudget")


@pytest.mark.parametrize(
    ("schedulers", "problem"),
    [
        ("[]", "schedulers: is empty; name one, such as default-scheduler"),
        ("[a, b, a]", "schedulers[2]: a is there twice; leave one"),
        ("['a b']", "schedulers[0]: 'a b' cannot be a schedulerName; write the spec."
         "schedulerName of the pods to decide for"),
    ],
)  # fmt: skip
def test_the_schedulers_that_a_shadow_follows(schedulers: str, problem: str) -> None:
    """Each by name, and once."""
    text = f"{HEAD}shadow: {{schedulers: {schedulers}}}\n"
    assert problems(text) == [f"f.yaml: shadow.{problem}"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("api: {port: 10259}", "api.port: 10259 is serving.port; choose another one"),
        ("api: {port: 80}\nserving: {plainHealthPort: 80}",
         "api.port: 80 is serving.plainHealthPort; choose another one"),
        ("api: {port: 80}\nshadow: {enabled: true}",
         "api.authorization: a shadow sends no reviews to the API server; set off, or run "
         "eventsched serve beside it"),
        ("api: {authorization: requestHeaders}", "api.clientCAFile: is missing: every client could "
         "name any user; name the authority of the proxy's certificate"),
        ("api: {clientCAFile: a}", "api.clientCAFile: says which clients may name a user; set "
         "authorization to requestHeaders, or leave it out"),
    ],
)  # fmt: skip
def test_the_port_of_the_api(text: str, problem: str) -> None:
    assert problems(f"{HEAD}{text}\n") == [f"f.yaml: {problem}"]


EVERY_FIELD: dict[str, Any] = {
    "database": {"urlFile": "/etc/eventsched/database-url"},
    "stream": "default-scheduler",
    "batch": {"records": 100, "bytes": 1_000_000},
    "detail": "top:8",
    "retention": {"detail": "168h", "records": "2160h", "requireArchive": False},
    "snapshot": {"records": 1000},
    "checkpoints": {"key": "/etc/eventsched/checkpoint.pem", "every": "1h", "to": "/var/lib"},
    "serving": {
        "bindAddress": "0.0.0.0", "port": 443, "certFile": "c", "keyFile": "k",
        "authorization": "off", "plainHealthPort": 8080,
    },
    "api": {"port": 8787, "ui": True, "authorization": "off"},
    "logging": {"format": "json", "level": "debug"},
    "client": {
        "kubeconfig": "~/.kube/config", "context": "kind", "concurrency": 8, "timeout": "1m30s",
    },
    "extender": {
        "profile": "other", "bindAddress": "0.0.0.0", "port": 8443, "tls": True, "certFile": "c",
        "keyFile": "k", "clientCAFile": "ca", "timeout": "2s",
        "paths": {"filter": "/f", "prioritize": "/s", "preempt": "/p", "bind": "/b"},
    },
    "shadow": {"enabled": True, "schedulers": ("default-scheduler", "batch")},
    "tracing": {"enabled": True},
    "keepAnnotations": ("example.com/",),
    "pluginDeadline": "1s",
    "workBudget": 1,
}  # fmt: skip
"""Each field with a value that is not its default."""


def leaves(part: Any, path: str = "") -> dict[str, Any]:
    """The values of a document by path."""
    if not isinstance(part, dict):
        return {path: part}
    nested = [leaves(value, f"{path}.{name}") for name, value in part.items()]
    return {name: value for found in nested for name, value in found.items()}


def test_every_field_is_read() -> None:
    lines = [f"{name}: {json.dumps(value)}\n" for name, value in EVERY_FIELD.items()]
    found = settings.load(HEAD + "".join(lines), "f.yaml")
    read, default = leaves(msgspec.to_builtins(found)), leaves(msgspec.to_builtins(Settings()))
    assert {name: value for name, value in read.items() if value != default[name]} == leaves(
        EVERY_FIELD
    )
    others = {".database.url", ".database.dataDir", ".api.clientCAFile"}
    assert default.keys() - leaves(EVERY_FIELD).keys() == others, "a field has no value above"
    for name in ("url", "dataDir"):
        given = settings.load(HEAD + f"database: {{{name}: x}}\n", "f.yaml")
        assert msgspec.to_builtins(given.database)[name] == "x"
    api = "api: {authorization: requestHeaders, clientCAFile: x}\n"
    given = settings.load(HEAD + api, "f.yaml")
    assert (given.api.authorization, given.api.client_ca_file) == ("requestHeaders", "x")


def test_durations_are_seconds() -> None:
    assert settings.seconds("168h") == 7 * 24 * 3600
    assert settings.seconds("1m30s") == 90


def test_records_are_kept_at_least_as_long_as_vectors() -> None:
    """0s is forever, for either."""
    for sound in ("{detail: 168h}", "{records: 1h}", "{detail: 1h, records: 1h}"):
        assert problems(HEAD + f"retention: {sound}\n") == []
    assert problems(HEAD + "retention: {detail: 168h, records: 24h}\n") == [
        "f.yaml: retention.records: 24h is shorter than detail, 168h: vectors go with their "
        "records; keep records at least as long"
    ]


def test_an_off_without_quotes_is_off() -> None:
    """YAML reads it as false."""
    found = settings.load(HEAD + "serving: {authorization: off}\n", "f.yaml")
    assert found.serving.authorization == "off"


def test_each_problem_is_named() -> None:
    """With its place and what to do."""
    assert problems(
        HEAD
        + """
strem: x
batch: {records: 0}
detail: ful
retention: {detail: 7d}
serving: {certFile: a, port: x}
database: {url: a, dataDir: b}
client: {timeout: 0s, concurrency: 0}
stream: a/b
"""
    ) == [
        "f.yaml: strem: unknown field 'strem'; did you mean 'stream'?",
        "f.yaml: batch.records: Expected int >= 1; correct this value",
        "f.yaml: retention.detail: '7d' is not a duration; write one such as 15s or 1m30s",
        "f.yaml: serving.port: a string where an integer is due; write an integer",
        "f.yaml: serving.certFile: is set, but keyFile is not; add keyFile",
        "f.yaml: database.dataDir: url and dataDir are given; leave one of them",
        "f.yaml: client.concurrency: Expected int >= 1; correct this value",
        "f.yaml: client.timeout: 0s is out of range; use a duration above zero",
        "f.yaml: stream: 'a/b' cannot be a stream's name; "
        "use 1 to 63 letters, digits, and the signs - _ .",
        "f.yaml: detail: 'ful' is not a level of detail; "
        "use full, summary, or top:K with K from 1 to 1000",
    ]


def levels(text: str) -> DetailLevels:
    """The levels of a document."""
    return detail_levels(settings.load(HEAD + text, "f.yaml").detail)


def test_levels_of_detail_by_profile() -> None:
    assert levels("") == DetailLevels(FULL, {})
    assert levels("detail: digest\n") == levels("detail: summary\n") == DetailLevels(SUMMARY, {})
    assert levels("detail: top:8\n").of("any") == DetailLevel(8)
    found = levels("detail: {default: summary, profiles: {batch: top:8, bulk: full}}\n")
    assert [found.of(name) for name in ("batch", "bulk", "other")] == [
        DetailLevel(8), FULL, SUMMARY,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{default: all}", "f.yaml: detail.default: 'all' is not a level of detail; use full, "),
        ("{profiles: {a: top:0}}", "f.yaml: detail.profiles.a: 'top:0' is not a level of detail"),
        (
            "{profile: {}}",
            "f.yaml: detail.profile: unknown field 'profile'; did you mean 'profiles",
        ),
        ("8", "f.yaml: detail: an integer where a string or a mapping is due"),
    ],
)
def test_levels_that_are_none(text: str, said: str) -> None:
    [problem] = problems(f"{HEAD}detail: {text}\n")
    assert problem.startswith(said)


def test_a_level_of_an_unknown_profile_is_refused() -> None:
    """With the nearest names."""
    text = HEAD + "detail: {profiles: {batsch: summary, batch: full}}\n"
    found = settings.problems(text, "f.yaml", (), ["default-scheduler", "batch", "bulk"])
    assert [str(problem) for problem in found] == [
        "f.yaml: detail.profiles.batsch: there is no profile batsch; did you mean batch?"
    ]


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (
            "stream: a\n",
            "f.yaml: second document: apiVersion: apiVersion is missing; "
            "add apiVersion: eventsched.io/v1alpha1",
        ),
        (
            "apiVersion: eventsched.io/v1alpha1\nkind: Settings\n",
            "f.yaml: second document: kind: 'Settings' is not supported; "
            "use EventschedConfiguration",
        ),
        ("- a\n", "f.yaml: not a mapping of fields; write fields and their values"),
        (
            "a: 1\n---\nb: 2\n",
            "f.yaml: holds more than two documents; leave the two that are meant",
        ),
        ("a: [\n", "f.yaml: line 5: not YAML: expected the node content, but found '<stream end>'; "
         "correct the syntax"),
    ],
)  # fmt: skip
def test_what_is_no_settings_document(second: str, said: str) -> None:
    """One line."""
    assert problems(f"{FIRST}---\n{second}") == [said]


def test_the_first_text_is_the_first_document_alone() -> None:
    """What is kept of a configuration has no database's password in it."""
    text = HEAD + "database: {url: postgresql://u:secret@h/d}\n"
    assert first_text(text) == FIRST
    assert first_text(FIRST) == FIRST
    assert first_text(f"---\n{text}") == f"---\n{FIRST}"
    assert first_text("a: [") == "a: ["
    assert first_text('{"a": 1}') == '{"a": 1}'


def test_a_url_in_a_file(tmp_path: Path) -> None:
    """A mounted secret; without its newline."""
    file = tmp_path / "url"
    given = DatabaseSettings(url_file=str(file))
    with pytest.raises(InputError, match=r"f.yaml: database.urlFile: .*: No such file"):
        settings.database_url(given, "f.yaml")
    file.write_text("\n")
    with pytest.raises(InputError, match="is empty"):
        settings.database_url(given, "f.yaml")
    file.write_bytes(b"\xff\n")
    with pytest.raises(InputError, match="is not UTF-8 text"):
        settings.database_url(given, "f.yaml")
    file.write_text("postgresql://u@h/d\n")
    assert settings.database_url(given, "f.yaml") == "postgresql://u@h/d"
    assert settings.database_url(DatabaseSettings(url="u"), "f.yaml") == "u"
    assert settings.database_url(DatabaseSettings(), "f.yaml") is None


def fields(part: type[SettingsPart], prefix: str = "") -> Iterator[str]:
    """The paths of all fields."""
    for field in msgspec.structs.fields(part):
        path = f"{prefix}{field.encode_name}"
        if isinstance(field.type, type) and issubclass(field.type, SettingsPart):
            yield from fields(field.type, f"{path}.")
        else:
            yield path


def documented(page: str, prefix: str = "") -> Iterator[str]:
    """The paths in the first column of a page's tables; ``.url`` after ``database.dataDir`` is
    ``database.url``."""
    text = (ROOT / "docs" / page).read_text()
    for column in re.findall(r"^\| ((?:`[\w.]+`(?:, )?)+) \|", text, re.MULTILINE):
        group = ""
        for name in re.findall(r"`([\w.]+)`", column):
            path = f"{group}{name}" if name.startswith(".") else f"{prefix}{name}"
            group = path.rpartition(".")[0]
            yield path


def test_every_setting_is_documented() -> None:
    """A row in docs/run.md, or in the page that it refers to."""
    found = {
        *documented("run.md"),
        *documented("serving.md", "serving."),
        *documented("extender-server.md"),
    }
    assert [path for path in fields(Settings) if path not in found] == []
