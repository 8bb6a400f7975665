"""The scheduler's own settings: the second YAML document of the configuration file.

The first one is a KubeSchedulerConfiguration and means what it means to kube-scheduler. What only
eventsched has (its log, its limits, where it listens) stands here; docs/run.md tells of each field.
Strict like the first: unknown fields, repeated keys and wrong types are refused by name and place.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from eventsched.cluster.files import read_text
from eventsched.domain.errors import InputError
from eventsched.domain.units import nanoseconds
from eventsched.scheduling.config.decoding import Report, RuleError, refuse, salvaged
from eventsched.scheduling.config.document import second_mapping
from eventsched.scheduling.config.sections import Duration
from eventsched.scheduling.cycle.work_budget import DEFAULT_BUDGET

API_VERSION = "eventsched.io/v1alpha1"
KIND = "EventschedConfiguration"

Positive = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
WorkBudget = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
Detail = Literal["full", "digest"]
LogFormat = Literal["auto", "json", "text"]
LogLevel = Literal["debug", "info", "warning", "error"]
Authorization = Literal["delegated", "off"]

_LARGEST_BATCH = 10_000


class SettingsPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Base of all parts; making one with values that mean nothing raises RuleError. Durations stay
    in Go's notation."""

    def __post_init__(self) -> None:
        if found := list(self.problems()):
            raise RuleError(found)

    def problems(self) -> Iterator[InputError]:
        """All that is wrong with the values; ``where`` is the path of the field within."""
        yield from ()


def _named(part: SettingsPart) -> dict[str, object]:
    fields = msgspec.structs.fields(part)
    return {field.encode_name: getattr(part, field.name) for field in fields}


def _duration_problems(where: str, text: str, least: int) -> Iterator[InputError]:
    try:
        found = nanoseconds(text, where)
    except InputError as problem:
        yield problem
        return
    if found < least:
        wanted = "a duration above zero" if least else "0s or more"
        yield InputError(where, f"{text} is out of range", f"use {wanted}")


class DatabaseSettings(SettingsPart, frozen=True):
    """Where the log is: a URL, a file that holds one, or the folder of an embedded database."""

    url: str = ""
    url_file: str = ""
    data_dir: str = ""

    def problems(self) -> Iterator[InputError]:
        """More than one place."""
        given = [name for name, value in _named(self).items() if value]
        if len(given) > 1:
            yield InputError(given[1], f"{' and '.join(given)} are given", "leave one of them")


class BatchSettings(SettingsPart, frozen=True):
    """When a batch is closed: at so many records, or so many bytes of vectors."""

    records: Positive = 256
    bytes: Positive = 4 * 2**20

    def problems(self) -> Iterator[InputError]:
        """A batch is one statement, and one commit."""
        if self.records > _LARGEST_BATCH:
            yield InputError(
                "records", f"{self.records} is out of range", f"use 1 to {_LARGEST_BATCH}"
            )


class RetentionSettings(SettingsPart, frozen=True):
    """How long vectors are kept ("0s": for ever); decisions and their digests always are."""

    detail: Duration = "0s"

    def problems(self) -> Iterator[InputError]:
        """No duration, or a negative one."""
        yield from _duration_problems("detail", self.detail, least=0)


class CheckpointSettings(SettingsPart, frozen=True):
    """Signed checkpoints of the log (docs/verification.md): none without ``key``, the file of an
    Ed25519 private key. ``to`` is a folder that keeps the newest one, beside the log line."""

    key: str = ""
    every: Duration = "10m"
    to: str = ""

    def problems(self) -> Iterator[InputError]:
        """A folder without a key, or no interval."""
        if self.to and not self.key:
            yield InputError("to", "there is no key to sign with", "add key")
        yield from _duration_problems("every", self.every, least=1)


class SnapshotSettings(SettingsPart, frozen=True):
    """After how many records the state is stored, for a faster start."""

    records: Positive = 50_000


class ServingSettings(SettingsPart, frozen=True):
    """Where health, metrics and configuration are served. Port 0 serves nothing there."""

    bind_address: str = "127.0.0.1"
    port: Port = 10259
    cert_file: str = ""
    key_file: str = ""
    authorization: Authorization = "delegated"
    plain_health_port: Port = 0

    def problems(self) -> Iterator[InputError]:
        """Half a certificate."""
        if bool(self.cert_file) != bool(self.key_file):
            given, lacking = ("certFile", "keyFile") if self.cert_file else ("keyFile", "certFile")
            yield InputError(given, f"there is no {lacking} to it", f"add {lacking}")


class LoggingSettings(SettingsPart, frozen=True):
    """How the process logs to stderr; ``auto`` is text on a terminal and JSON elsewhere."""

    format: LogFormat = "auto"
    level: LogLevel = "info"


class ClientSettings(SettingsPart, frozen=True):
    """The way to the API server, and how many requests may be under way."""

    kubeconfig: str = ""
    context: str = ""
    concurrency: Positive = 64
    timeout: Duration = "10s"

    def problems(self) -> Iterator[InputError]:
        """No duration, or none at all."""
        yield from _duration_problems("timeout", self.timeout, least=1)


class PathSettings(SettingsPart, frozen=True):
    """The path of each verb of ``eventsched extender``; "" for one that is not offered."""

    filter: str = "/filter"
    prioritize: str = "/prioritize"
    preempt: str = "/preempt"
    bind: str = "/bind"

    def problems(self) -> Iterator[InputError]:
        """Not a path, or the path of another verb."""
        seen: dict[object, str] = {"": ""}
        for name, path in _named(self).items():
            if path and not str(path).startswith("/"):
                yield InputError(name, f"{path!r} is no path", "begin it with a slash")
            elif path and path in seen:
                yield InputError(name, f"{path} is that of {seen[path]}", "choose another one")
            seen[path] = name


class ExtenderSettings(SettingsPart, frozen=True):
    """What ``eventsched extender`` answers with and where: ``profile`` "" is the first one. With
    ``tls`` the port speaks HTTPS, with ``clientCAFile`` only to who has a certificate of it."""

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
        """Files that nobody looks at, half a certificate, no time at all."""
        if bool(self.cert_file) != bool(self.key_file):
            given, lacking = ("certFile", "keyFile") if self.cert_file else ("keyFile", "certFile")
            yield InputError(given, f"there is no {lacking} to it", f"add {lacking}")
        if not self.tls and (self.cert_file or self.client_ca_file):
            given = "certFile" if self.cert_file else "clientCAFile"
            yield InputError(given, "is for HTTPS", "add tls: true, or leave it out")
        yield from _duration_problems("timeout", self.timeout, least=1)


class Settings(SettingsPart, frozen=True):
    """The whole document, apiVersion and kind apart."""

    database: DatabaseSettings = DatabaseSettings()
    stream: str = "scheduler"
    batch: BatchSettings = BatchSettings()
    detail: Detail = "full"
    retention: RetentionSettings = RetentionSettings()
    snapshot: SnapshotSettings = SnapshotSettings()
    checkpoints: CheckpointSettings = CheckpointSettings()
    serving: ServingSettings = ServingSettings()
    logging: LoggingSettings = LoggingSettings()
    client: ClientSettings = ClientSettings()
    extender: ExtenderSettings = ExtenderSettings()
    keep_annotations: tuple[str, ...] = ()
    """Annotations that are kept besides those that plugins declare: names, or beginnings that end
    with ``/`` or ``*``."""
    plugin_deadline: Duration = "5s"
    """How long a call of a plugin that is not in-tree may take."""
    work_budget: WorkBudget = DEFAULT_BUDGET
    """Units of work that an attempt may take (scheduling/cycle/work_budget.py); 0 for no bound."""

    def problems(self) -> Iterator[InputError]:
        """A stream needs a name that can stand in a decision's id; and no time at all for plugins
        is none."""
        yield from stream_problems("stream", self.stream)
        yield from _duration_problems("pluginDeadline", self.plugin_deadline, least=1)
        for i, name in enumerate(self.keep_annotations):
            if not name or "*" in name[:-1]:
                remedy = "write a name, or a beginning that ends with / or *"
                yield InputError(f"keepAnnotations[{i}]", f"{name!r} is no annotation", remedy)


def stream_problems(where: str, name: str) -> Iterator[InputError]:
    """What is wrong with a stream's name."""
    if not name or len(name) > 63 or not all(c.isalnum() or c in "-_." for c in name):
        yield InputError(
            where,
            f"{name!r} cannot be a stream's name",
            "use 1 to 63 letters, digits, and the signs - _ .",
        )


def load(text: str, source: str, report: Report = refuse) -> Settings:
    """The settings in a configuration file's text; all defaults where it has no second document.
    ``source`` is the file's name, for messages. Raises InputError for the first thing that is
    wrong, unless ``report`` takes it; in any case for what leaves nothing to read on."""
    found: list[InputError] = []
    fatal: InputError | None = None
    settings = Settings()
    try:
        raw = second_mapping(text, found.append)
        if raw is not None:
            _require(raw)
            _mend_off(raw)
            settings = salvaged(raw, Settings, "", found.append) or settings
    except InputError as problem:
        fatal = problem
    for each in found:
        report(_at(source, each))
    if fatal is not None:
        raise _at(source, fatal)
    return settings


def kept_annotations(config: Path | None) -> tuple[str, ...]:
    """``keepAnnotations`` of a configuration file. Raises InputError as ``load``."""
    return () if config is None else load(read_text(config), str(config)).keep_annotations


def database_url(settings: DatabaseSettings, source: str) -> str | None:
    """The URL, read from its file where it is in one; None where there is none. Raises InputError
    for a file that cannot be read or is empty."""
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


def seconds(duration: str) -> float:
    """A checked duration in seconds."""
    return nanoseconds(duration) / 1e9


def _require(raw: dict[str, object]) -> None:
    """Checks apiVersion and kind, and takes them out."""
    for field, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        found = raw.pop(field, None)
        if found is None:
            raise InputError(_SECOND + field, f"{field} is missing", f"add {field}: {wanted}")
        if found != wanted:
            raise InputError(_SECOND + field, f"{found!r} is not supported", f"use {wanted}")


def _mend_off(raw: dict[str, object]) -> None:
    """``authorization: off`` without quotes is false in YAML."""
    serving = raw.get("serving")
    if isinstance(serving, dict) and serving.get("authorization") is False:
        raw["serving"] = {**serving, "authorization": "off"}


_SECOND = "second document: "


def _at(source: str, problem: InputError) -> InputError:
    where = f"{source}: {problem.where}" if problem.where else source
    return InputError(where, problem.problem, problem.remedy)
