"""The scheduler's own settings: the second YAML document of the configuration file.

The first one is a KubeSchedulerConfiguration and means what it means to kube-scheduler. The second
one holds what only eventsched has: its log, its limits, where it listens. docs/run.md describes
each field. It is read as strictly as the first: unknown fields, repeated keys and wrong types are
errors that name the field and the place.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from eventsched.cluster.files import read_text
from eventsched.domain.errors import InputError
from eventsched.domain.units import nanoseconds
from eventsched.process.sections.api_settings import ApiSettings
from eventsched.process.sections.detail_settings import (
    DetailSettings,
    level_problems,
    unknown_profiles,
)
from eventsched.process.sections.settings_part import SettingsPart, duration_problems, fields_of
from eventsched.process.sections.shadow_settings import ShadowSettings
from eventsched.runtime.snapshot_policy import SNAPSHOT_EVERY
from eventsched.scheduling.config.checking import Checked, check
from eventsched.scheduling.config.decoding import Report, refuse, salvaged
from eventsched.scheduling.config.document import second_mapping
from eventsched.scheduling.config.sections import Duration
from eventsched.scheduling.cycle.work_budget import DEFAULT_BUDGET

API_VERSION = "eventsched.io/v1alpha1"
KIND = "EventschedConfiguration"

Positive = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
WorkBudget = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
LogFormat = Literal["auto", "json", "text"]
LogLevel = Literal["debug", "info", "warning", "error"]
Authorization = Literal["delegated", "off"]

_LARGEST_BATCH = 10_000


class DatabaseSettings(SettingsPart, frozen=True):
    """Where the log is: a URL, a file that holds one, or the folder of an embedded database."""

    url: str = ""
    url_file: str = ""
    data_dir: str = ""

    def problems(self) -> Iterator[InputError]:
        """More than one place."""
        fields = [name for name, value in fields_of(self).items() if value]
        if len(fields) > 1:
            yield InputError(fields[1], f"{' and '.join(fields)} are given", "leave one of them")


class BatchSettings(SettingsPart, frozen=True):
    """When a batch is closed: at this many records or this many bytes of vectors."""

    records: Positive = 256
    bytes: Positive = 4 * 2**20

    def problems(self) -> Iterator[InputError]:
        """Too many records: a batch is one statement and one commit."""
        if self.records > _LARGEST_BATCH:
            yield InputError(
                "records", f"{self.records} is out of range", f"use 1 to {_LARGEST_BATCH}"
            )


class RetentionSettings(SettingsPart, frozen=True):
    """How long vectors (``detail``) and all records are kept; "0s": forever. Records that no
    archive holds are kept longer, unless ``require_archive`` is false."""

    detail: Duration = "0s"
    records: Duration = "0s"
    require_archive: bool = True

    def problems(self) -> Iterator[InputError]:
        """Not a duration, or a negative one; records that would go before their vectors."""
        is_sound = True
        for name in ("detail", "records"):
            for problem in duration_problems(name, getattr(self, name), least=0):
                is_sound = False
                yield problem
        if is_sound and 0 < nanoseconds(self.records) < nanoseconds(self.detail):
            yield InputError(
                "records",
                f"{self.records} is shorter than detail, {self.detail}: vectors go with their "
                "records",
                "keep records at least as long",
            )


class CheckpointSettings(SettingsPart, frozen=True):
    """Signed checkpoints of the log (docs/verification.md). ``key`` is the file of an Ed25519
    private key; without it there are none. Each checkpoint is a log line; the newest ones are also
    in a file in the folder ``to``, if set."""

    key: str = ""
    every: Duration = "10m"
    to: str = ""

    def problems(self) -> Iterator[InputError]:
        """A folder without a key, or no interval."""
        if self.to and not self.key:
            yield InputError("to", "there is no key to sign with", "add key")
        yield from duration_problems("every", self.every, least=1)


class SnapshotSettings(SettingsPart, frozen=True):
    """How many records, at least, lie between two snapshots of the state: two for each pod if these
    are more. A start loads the newest snapshot, and a state of the past the one before it."""

    records: Positive = SNAPSHOT_EVERY


class ServingSettings(SettingsPart, frozen=True):
    """Where health, metrics and configuration are served. Port 0 turns a port off."""

    bind_address: str = "127.0.0.1"
    port: Port = 10259
    cert_file: str = ""
    key_file: str = ""
    authorization: Authorization = "delegated"
    plain_health_port: Port = 0

    def problems(self) -> Iterator[InputError]:
        """A certificate without its key, or the reverse."""
        if bool(self.cert_file) != bool(self.key_file):
            present, missing = (
                ("certFile", "keyFile") if self.cert_file else ("keyFile", "certFile")
            )
            yield InputError(present, f"is set, but {missing} is not", f"add {missing}")


class LoggingSettings(SettingsPart, frozen=True):
    """How the process logs to stderr; ``auto`` is text on a terminal and JSON elsewhere."""

    format: LogFormat = "auto"
    level: LogLevel = "info"


class TracingSettings(SettingsPart, frozen=True):
    """Whether attempts are sent as OpenTelemetry traces; where to, the variables OTEL_* say."""

    enabled: bool = False


class ClientSettings(SettingsPart, frozen=True):
    """How to reach the API server, and how many requests may be under way."""

    kubeconfig: str = ""
    context: str = ""
    concurrency: Positive = 64
    timeout: Duration = "10s"

    def problems(self) -> Iterator[InputError]:
        """Not a duration, or not above zero."""
        yield from duration_problems("timeout", self.timeout, least=1)


class PathSettings(SettingsPart, frozen=True):
    """The path of each verb of ``eventsched extender``; "" turns a verb off."""

    filter: str = "/filter"
    prioritize: str = "/prioritize"
    preempt: str = "/preempt"
    bind: str = "/bind"

    def problems(self) -> Iterator[InputError]:
        """Not a path, or the path of another verb."""
        seen: dict[object, str] = {"": ""}
        for name, path in fields_of(self).items():
            if path and not str(path).startswith("/"):
                yield InputError(name, f"{path!r} is not a path", "start it with /")
            elif path and path in seen:
                yield InputError(name, f"{path} is the path of {seen[path]}", "choose another one")
            seen[path] = name


class ExtenderSettings(SettingsPart, frozen=True):
    """How and where ``eventsched extender`` answers. ``profile`` "" is the first one. With ``tls``
    the port speaks HTTPS. With ``clientCAFile`` it accepts only clients with a certificate of that
    CA."""

    profile: str = ""
    bind_address: str = "127.0.0.1"
    port: Port = 8888
    tls: bool = False
    cert_file: str = ""
    key_file: str = ""
    client_ca_file: str = msgspec.field(name="clientCAFile", default="")
    paths: PathSettings = PathSettings()
    timeout: Duration = "4s"

    def problems(self) -> Iterator[InputError]:
        """A certificate without its key, TLS files without ``tls``, a timeout of zero."""
        if bool(self.cert_file) != bool(self.key_file):
            present, missing = (
                ("certFile", "keyFile") if self.cert_file else ("keyFile", "certFile")
            )
            yield InputError(present, f"is set, but {missing} is not", f"add {missing}")
        if not self.tls and (self.cert_file or self.client_ca_file):
            field = "certFile" if self.cert_file else "clientCAFile"
            yield InputError(field, "is for HTTPS", "add tls: true, or leave it out")
        yield from duration_problems("timeout", self.timeout, least=1)


class Settings(SettingsPart, frozen=True):
    """The whole document except apiVersion and kind."""

    database: DatabaseSettings = DatabaseSettings()
    stream: str = "scheduler"
    batch: BatchSettings = BatchSettings()
    detail: str | DetailSettings = "full"
    retention: RetentionSettings = RetentionSettings()
    snapshot: SnapshotSettings = SnapshotSettings()
    checkpoints: CheckpointSettings = CheckpointSettings()
    serving: ServingSettings = ServingSettings()
    api: ApiSettings = ApiSettings()
    logging: LoggingSettings = LoggingSettings()
    client: ClientSettings = ClientSettings()
    extender: ExtenderSettings = ExtenderSettings()
    shadow: ShadowSettings = ShadowSettings()
    tracing: TracingSettings = TracingSettings()
    keep_annotations: tuple[str, ...] = ()
    """Annotations to keep besides those that plugins declare: names, or prefixes that end with
    ``/`` or ``*``."""
    plugin_deadline: Duration = "5s"
    """How long one call of a plugin may take, unless the plugin is in-tree."""
    work_budget: WorkBudget = DEFAULT_BUDGET
    """Units of work that an attempt may use (scheduling/cycle/work_budget.py); 0 for no limit."""

    def problems(self) -> Iterator[InputError]:
        """A stream's name that cannot be part of a decision's id, a plugin deadline of zero, an
        unknown level of detail, a bad pattern of annotations, one port for two things, an API that
        a shadow cannot authorize."""
        yield from stream_problems("stream", self.stream)
        yield from duration_problems("pluginDeadline", self.plugin_deadline, least=1)
        if isinstance(self.detail, str):
            yield from level_problems("detail", self.detail)
        if self.api.port:
            yield from self._api_problems()
        for i, name in enumerate(self.keep_annotations):
            if not name or "*" in name[:-1]:
                remedy = "write a name, or a prefix that ends with / or *"
                yield InputError(
                    f"keepAnnotations[{i}]", f"{name!r} is not an annotation's name", remedy
                )

    def _api_problems(self) -> Iterator[InputError]:
        serving, port = self.serving, self.api.port
        for name, other in (
            ("port", serving.port), ("plainHealthPort", serving.plain_health_port),
        ):  # fmt: skip
            if port == other:
                yield InputError("api.port", f"{port} is serving.{name}", "choose another one")
        if self.shadow.enabled and self.api.authorization != "off":
            problem = "a shadow sends no reviews to the API server"
            remedy = "set off, or run eventsched serve beside it"
            yield InputError("api.authorization", problem, remedy)


def stream_problems(where: str, name: str) -> Iterator[InputError]:
    """What is wrong with a stream's name."""
    if not name or len(name) > 63 or not all(c.isalnum() or c in "-_." for c in name):
        yield InputError(
            where,
            f"{name!r} cannot be a stream's name",
            "use 1 to 63 letters, digits, and the signs - _ .",
        )


def load(text: str, source: str, report: Report = refuse) -> Settings:
    """The settings in a configuration file's text; the defaults if it has no second document.
    ``source`` is the file's name, for messages. Each problem is passed to ``report``, which raises
    InputError by default. Raises InputError in any case if the document cannot be read further."""
    problems: list[InputError] = []
    fatal: InputError | None = None
    settings = Settings()
    try:
        raw = second_mapping(text, problems.append)
        if raw is not None:
            _require(raw)
            _restore_off(raw)
            settings = salvaged(raw, Settings, "", problems.append) or settings
    except InputError as error:
        fatal = error
    for problem in problems:
        report(_at(source, problem))
    if fatal is not None:
        raise _at(source, fatal)
    return settings


def problems(
    text: str, source: str, reported: Iterable[InputError] = (), profiles: Collection[str] = ()
) -> list[InputError]:
    """Every problem that ``load`` finds and that is not among ``reported``: the reader of the first
    document reports syntax errors too. ``profiles`` are those of the first document; without any
    it is not checked that there is each one that is named."""
    found: list[InputError] = []
    try:
        settings = load(text, source, found.append)
        if profiles:
            found += unknown_profiles(settings.detail, profiles, source)
    except InputError as fatal:
        found.append(fatal)
    known = {str(problem) for problem in reported}
    return [problem for problem in found if str(problem) not in known]


def kept_annotations(config: Path | None) -> tuple[str, ...]:
    """``keepAnnotations`` of a configuration file. Raises InputError like ``load``."""
    return () if config is None else load(read_text(config), str(config)).keep_annotations


def database_url(settings: DatabaseSettings, source: str) -> str | None:
    """The database's URL, read from ``url_file`` if that is set; None if neither is set. Raises
    InputError if the file cannot be read or is empty."""
    if not settings.url_file:
        return settings.url or None
    where = f"{source}: database.urlFile"
    try:
        text = Path(settings.url_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "is not UTF-8 text"
        raise InputError(
            where, f"{settings.url_file}: {reason}", "mount the secret there"
        ) from None
    if not text:
        raise InputError(where, f"{settings.url_file} is empty", "put the database's URL into it")
    return text


def check_text(text: str, source: str, plugins: Mapping[str, type]) -> Checked:
    """A configuration, checked: the first document, and the second one with eventsched's own
    settings (docs/run.md). ``source`` names it."""
    checked = check(text, source, plugins)
    profiles = [profile.name for profile in checked.profiles]
    new = problems(text, source, checked.problems, profiles)
    return replace(checked, problems=(*checked.problems, *new))


def seconds(duration: str) -> float:
    """A checked duration in seconds."""
    return nanoseconds(duration) / 1e9


def _require(raw: dict[str, object]) -> None:
    """Checks apiVersion and kind, and removes them."""
    for field, supported in (("apiVersion", API_VERSION), ("kind", KIND)):
        value = raw.pop(field, None)
        if value is None:
            raise InputError(_SECOND + field, f"{field} is missing", f"add {field}: {supported}")
        if value != supported:
            raise InputError(_SECOND + field, f"{value!r} is not supported", f"use {supported}")


def _restore_off(raw: dict[str, object]) -> None:
    """``authorization: off`` without quotes is false in YAML."""
    for name in ("serving", "api"):
        section = raw.get(name)
        if isinstance(section, dict) and section.get("authorization") is False:
            raw[name] = {**section, "authorization": "off"}


_SECOND = "second document: "


def _at(source: str, problem: InputError) -> InputError:
    where = f"{source}: {problem.where}" if problem.where else source
    return InputError(where, problem.problem, problem.remedy)
