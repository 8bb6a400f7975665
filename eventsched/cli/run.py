"""``eventsched run``: the scheduler of a cluster."""

import argparse
import os
from pathlib import Path
from typing import Any

import msgspec

from eventsched.cli.places import DATA_DIR, DATABASE, add_database_options
from eventsched.cluster.files import read_text
from eventsched.domain.errors import InputError
from eventsched.runtime.assembly import Assembly, assemble
from eventsched.runtime.deadlines import Deadlines
from eventsched.runtime.live import settings as live
from eventsched.runtime.live.settings import DatabaseSettings, Settings
from eventsched.scheduling.extenders.configured import problems as unusable


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "run",
        help="schedule the pods of a cluster",
        description="Schedules the pods of a cluster until it is told to stop (SIGTERM, Ctrl-C). "
        "Options win over the environment, and that over the file; docs/run.md tells more.",
    )
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
    process.add_argument("--bind-address", metavar="ADDRESS", help="default: 127.0.0.1")
    process.add_argument(
        "--secure-port", type=int, metavar="PORT", help="default: 10259; 0 for none"
    )
    process.add_argument("--log-level", choices=("debug", "info", "warning", "error"))
    process.add_argument("--log-format", choices=("auto", "json", "text"))
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Schedules until it is told to stop. Raises InputError and UnavailableError."""
    deadlines = Deadlines()
    assembly = assemble(options.config, options.plugin, deadlines)
    source = str(options.config or "options")
    for problem in unusable(assembly.configuration.extenders):
        raise problem.within(source)
    text = read_text(options.config) if options.config is not None else ""
    settings = _with_options(live.load(text, source) if text else Settings(), options)
    deadlines.seconds = live.seconds(settings.plugin_deadline)
    database, data_dir = _place(options, settings.database, source)
    kubeconfig = _kubeconfig(options, settings, assembly)
    try:
        from eventsched.cli import service
        from eventsched.eventlog.database import written
    except ModuleNotFoundError as lacking:
        raise InputError(
            "this command",
            f"needs the package {lacking.name}",
            "install it: pip install 'eventsched[cluster]'",
        ) from lacking
    service.begin_logging(settings, [*assembly.warnings])
    with written(database, data_dir) as address:
        return service.serve(
            service.Job(assembly, settings, address, kubeconfig, tuple(options.plugin))
        )


def _with_options(settings: Settings, options: argparse.Namespace) -> Settings:
    """The settings as the options leave them."""
    port = options.secure_port
    if port is not None and not 0 <= port <= 65_535:
        raise InputError("--secure-port", f"{port} is no port", "use 0 to 65535")
    if options.stream is not None:
        for problem in live.stream_problems("--stream", options.stream):
            raise problem
    return msgspec.structs.replace(
        settings,
        stream=options.stream or settings.stream,
        serving=_given(settings.serving, bind_address=options.bind_address, port=port),
        logging=_given(settings.logging, level=options.log_level, format=options.log_format),
        client=_given(settings.client, context=options.context),
    )


def _given(part: Any, **values: Any) -> Any:
    return msgspec.structs.replace(part, **{k: v for k, v in values.items() if v is not None})


def _place(
    options: argparse.Namespace, settings: DatabaseSettings, source: str
) -> tuple[str | None, Path | None]:
    """The URL or the folder: of the options, else of the environment, else of the file."""
    if options.database is not None or options.data_dir is not None:
        return options.database, options.data_dir
    url, folder = os.environ.get(DATABASE), os.environ.get(DATA_DIR)
    if url or folder:
        return url or None, Path(folder) if folder else None
    url = live.database_url(settings, source)
    return url, Path(settings.data_dir) if settings.data_dir else None


def _kubeconfig(options: argparse.Namespace, settings: Settings, assembly: Assembly) -> Path | None:
    """The option's, else that of the settings, else that of the scheduler's configuration."""
    if options.kubeconfig is not None:
        return Path(options.kubeconfig)
    named = settings.client.kubeconfig or assembly.configuration.client_connection.kubeconfig
    return Path(named).expanduser() if named else None
