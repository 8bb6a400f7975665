"""``eventsched run``: the scheduler of a cluster."""

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from eventsched.cli.log_access.database_options import DATA_DIR, DATABASE, add_database_options
from eventsched.cluster.files import read_text
from eventsched.domain.errors import InputError
from eventsched.process import prometheus_samples
from eventsched.process import settings as process_settings
from eventsched.process.configuration_files import ConfigurationFiles
from eventsched.process.sections.detail_settings import unknown_profiles
from eventsched.process.sections.shadow_settings import (
    KUBE_SCHEDULER,
    NO_REVIEWS,
    ShadowSettings,
    name_problems,
)
from eventsched.process.settings import DatabaseSettings, Settings
from eventsched.runtime.assembly import Assembly, assemble, registry
from eventsched.runtime.call_deadlines import Deadlines
from eventsched.scheduling.config.extenders import problems as unusable

SHADOW_STREAM = "shadow"
"""A shadow's stream by default: it cannot continue a scheduler's."""


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "run",
        help="schedule the pods of a cluster",
        description="Schedules the pods of a cluster until it is stopped (SIGTERM, Ctrl-C). "
        "Options override the environment, which overrides the file; see docs/run.md.",
    )
    process = add_options(parser)
    process.add_argument("--bind-address", metavar="ADDRESS", help="default: 127.0.0.1")
    shadow = parser.add_argument_group("a shadow")
    shadow.add_argument(
        "--shadow",
        action="store_true",
        help="bind nothing: decide for the pods of another scheduler, and compare (docs/shadow.md)",
    )
    shadow.add_argument(
        "--follow", action="append", metavar="NAME",
        help="with --shadow: a schedulerName to decide for; may be repeated (default: "
        f"{KUBE_SCHEDULER})",
    )  # fmt: skip
    parser.set_defaults(run=run)


def add_options(parser: argparse.ArgumentParser) -> Any:
    """Adds the options of a process that serves a cluster; returns the group for further ones."""
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="a KubeSchedulerConfiguration; eventsched's own settings in a second YAML document",
    )
    parser.add_argument(
        "--plugin", type=Path, action="append", default=[], metavar="FILE.py",
        help="a file with plugins that the configuration names; may be repeated",
    )  # fmt: skip
    cluster = parser.add_argument_group("the cluster")
    cluster.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="default: $KUBECONFIG, the service account of the pod, ~/.kube/config",
    )
    cluster.add_argument("--context", metavar="NAME", help="a context of the kubeconfig")
    add_database_options(parser, stream=False)
    parser.add_argument("--stream", metavar="NAME", help="the log's name (default: scheduler)")
    process = parser.add_argument_group("the process")
    process.add_argument(
        "--secure-port", type=int, metavar="PORT", help="default: 10259; 0 for none"
    )
    process.add_argument(
        "--api-port", type=int, metavar="PORT",
        help="serve the HTTP API beside it, to users of the cluster (docs/api.md); default: 0, "
        "not at all",
    )  # fmt: skip
    process.add_argument(
        "--ui", action="store_true", default=None, help="with the API's port: the pages as well"
    )
    process.add_argument("--log-level", choices=("debug", "info", "warning", "error"))
    process.add_argument("--log-format", choices=("auto", "json", "text"))
    process.add_argument(
        "--tracing", action="store_true", default=None,
        help="send attempts as OpenTelemetry traces, as the variables OTEL_* say",
    )  # fmt: skip
    return process


def run(options: argparse.Namespace) -> int:
    """Schedules until it is stopped. Raises InputError and UnavailableError."""
    return run_process(options, _configured, _shadow_warnings)


def run_process(
    options: argparse.Namespace,
    configured: Callable[[argparse.Namespace, Mapping[str, type[Any]]], tuple[Assembly, Settings]],
    warnings: Callable[[Settings], Sequence[str]] = lambda _: (),
) -> int:
    """Runs a process whose configuration file may change until it is stopped; returns the exit
    code. ``configured`` reads options, environment and file, with plugins that are loaded already.
    Raises InputError and UnavailableError."""
    files = None
    if options.config is not None and str(options.config) != "-":
        files = ConfigurationFiles(options.config, options.plugin)
    known = registry(options.plugin)
    read = partial(configured, options, known)
    assembly, settings = read()
    return _started(
        options, assembly, settings, *warnings(settings), files=files, read=read, known=known
    )


def _configured(
    options: argparse.Namespace, known: Mapping[str, type[Any]]
) -> tuple[Assembly, Settings]:
    """What the file, the environment and the options say now, with plugins that are loaded already.
    Raises InputError."""
    deadlines = Deadlines()
    assembly = assemble(options.config, guard=deadlines, known=known)
    source = str(options.config or "options")
    for problem in unusable(assembly.configuration.extenders):
        raise problem.within(source)
    for sampling in assembly.samplings:
        prometheus_samples.package_of(sampling.source)
    settings = with_shadow(options, settings_of(options, assembly, source))
    deadlines.seconds = process_settings.seconds(settings.plugin_deadline)
    return assembly, settings


def _started(
    options: argparse.Namespace,
    assembly: Assembly,
    settings: Settings,
    *warnings: str,
    **reloading: Any,
) -> int:
    """Runs the process until it is stopped; returns the exit code. ``reloading`` are the fields of
    ``ServiceOptions`` by which a changed configuration is taken up. Raises InputError and
    UnavailableError."""
    source = str(options.config or "options")
    database = process_settings.database_url(settings.database, source)
    data_dir = Path(settings.database.data_dir) if settings.database.data_dir else None
    kubeconfig = Path(settings.client.kubeconfig) if settings.client.kubeconfig else None
    try:
        from eventsched.cluster.kube.http.access import require_files
        from eventsched.eventlog.address_file import AddressFile
        from eventsched.eventlog.database import writer_address
        from eventsched.process import api_child, service, service_plan
    except ModuleNotFoundError as missing:
        raise InputError(
            "this command",
            f"needs the package {missing.name}",
            "install it: pip install 'eventsched[cluster]'",
        ) from missing
    if settings.tracing.enabled:
        require_tracing()
    require_files(kubeconfig, os.environ, settings.client.context or None)
    service.require_free(settings.serving)
    api_child.require_free(settings)
    service_plan.checkpointer_of(settings)
    service.begin_logging(settings, [*assembly.warnings, *warnings])
    if data_dir is not None:
        service.logger.info("starting the embedded database", folder=str(data_dir))
    with writer_address(database, data_dir) as address:
        if data_dir is not None:
            service.logger.info("the embedded database runs", folder=str(data_dir))
        file = settings.database.url_file
        where = AddressFile(Path(file), address) if file else address
        return service.serve(
            service_plan.ServiceOptions(
                assembly, settings, where, kubeconfig, tuple(options.plugin),
                options.command == "extender", **reloading,
            )
        )  # fmt: skip


def require_tracing() -> None:
    """Raises InputError if the packages of OpenTelemetry are not installed."""
    try:
        import_module("eventsched.process.tracing.span_export")
    except ModuleNotFoundError as missing:
        remedy = "install it: pip install 'eventsched[otel]'"
        raise InputError("tracing", f"needs the package {missing.name}", remedy) from missing


def settings_of(options: argparse.Namespace, assembly: Assembly, source: str) -> Settings:
    """The settings in effect: options override the environment, which overrides the file named
    ``source``; the scheduler's configuration may also name a kubeconfig. Raises InputError."""
    text = read_text(options.config) if options.config is not None else ""
    settings = process_settings.load(text, source) if text else Settings()
    for problem in unknown_profiles(settings.detail, assembly.profiles, source):
        raise problem
    port, api_port = options.secure_port, options.api_port
    for name, number in (("--secure-port", port), ("--api-port", api_port)):
        if number is not None and not 0 <= number <= 65_535:
            raise InputError(name, f"{number} is not a port", "use 0 to 65535")
    if options.ui and not (settings.api.port if api_port is None else api_port):
        raise InputError("--ui", "is for the port of the API", "add --api-port 8787")
    if options.stream is not None:
        for problem in process_settings.stream_problems("--stream", options.stream):
            raise problem
    return msgspec.structs.replace(
        settings,
        database=_database_settings(options) or settings.database,
        stream=options.stream or settings.stream,
        serving=_replaced(settings.serving, bind_address=options.bind_address, port=port),
        api=_replaced(settings.api, port=api_port, ui=options.ui),
        logging=_replaced(settings.logging, level=options.log_level, format=options.log_format),
        tracing=_replaced(settings.tracing, enabled=options.tracing),
        client=_replaced(
            settings.client,
            context=options.context,
            kubeconfig=_kubeconfig(options, settings, assembly),
        ),
    )


def with_shadow(options: argparse.Namespace, settings: Settings) -> Settings:
    """The settings with the options of a shadow. Raises InputError."""
    enabled = options.shadow or settings.shadow.enabled
    if options.follow and not enabled:
        raise InputError("--follow", "is for a shadow", "add --shadow")
    schedulers = tuple(options.follow or settings.shadow.schedulers)
    for problem in name_problems(options.follow) if options.follow else ():
        raise InputError("--follow", problem.problem, problem.remedy)
    is_default = options.stream is None and settings.stream == Settings().stream
    return msgspec.structs.replace(
        settings,
        shadow=ShadowSettings(enabled=enabled, schedulers=schedulers),
        stream=SHADOW_STREAM if enabled and is_default else settings.stream,
    )


def _shadow_warnings(settings: Settings) -> tuple[str, ...]:
    """What a shadow cannot do with these settings."""
    serving = settings.serving
    if settings.shadow.enabled and serving.port and serving.authorization == "delegated":
        return (f"/metrics will answer 500: {NO_REVIEWS}",)
    return ()


Section = TypeVar("Section", bound=msgspec.Struct)


def _replaced(part: Section, **values: Any) -> Section:
    return msgspec.structs.replace(part, **{k: v for k, v in values.items() if v is not None})


def _database_settings(options: argparse.Namespace) -> DatabaseSettings | None:
    """The database that the options, else the environment, name; None if neither does."""
    url, folder = options.database, options.data_dir
    if url is None and folder is None:
        url, folder = os.environ.get(DATABASE) or None, os.environ.get(DATA_DIR) or None
    if url is not None and folder is not None:
        raise InputError("options", "two databases are named", "give --data-dir or --database")
    if url is not None:
        return DatabaseSettings(url=url)
    return DatabaseSettings(data_dir=str(folder)) if folder is not None else None


def _kubeconfig(options: argparse.Namespace, settings: Settings, assembly: Assembly) -> str:
    """That of the option, else of the settings, else of the scheduler's configuration; "" for the
    default locations."""
    if options.kubeconfig is not None:
        return str(options.kubeconfig)
    path = settings.client.kubeconfig or assembly.configuration.client_connection.kubeconfig
    return str(Path(path).expanduser()) if path else ""
