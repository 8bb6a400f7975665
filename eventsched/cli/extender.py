"""``eventsched extender``: answers another scheduler that asks it as its extender, and logs it."""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from eventsched.cli import run as scheduler
from eventsched.domain import near_names
from eventsched.domain.errors import InputError
from eventsched.process import prometheus_samples
from eventsched.process import settings as process_settings
from eventsched.process.settings import ExtenderSettings, Settings
from eventsched.runtime.assembly import Assembly, assemble
from eventsched.runtime.call_deadlines import Deadlines

STREAM, LEASE = "extender", "eventsched-extender"
"""Instead of the defaults of a scheduler, which may run beside it."""
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "extender",
        help="answer a kube-scheduler that asks this as its extender, and log it",
        description="Serves extender/v1 (filter, prioritize, preempt, bind) until it is stopped, "
        "with the plugins of a profile; see docs/extender-server.md.",
    )
    process = scheduler.add_options(parser)
    process.add_argument(
        "--bind-address", dest="extender_address", metavar="ADDRESS",
        help="where the scheduler asks (default: 127.0.0.1)",
    )  # fmt: skip
    process.add_argument(
        "--port", dest="extender_port", type=int, metavar="PORT", help="default: 8888"
    )
    parser.set_defaults(run=run, bind_address=None)


def run(options: argparse.Namespace) -> int:
    """Answers until it is stopped. Raises InputError and UnavailableError."""
    return scheduler.run_process(options, configured, lambda found: warnings(found.extender))


def configured(
    options: argparse.Namespace, known: Mapping[str, type[Any]]
) -> tuple[Assembly, Settings]:
    """What the file, the environment and the options say now, with plugins that are loaded already.
    Raises InputError."""
    deadlines = Deadlines()
    assembly = assemble(options.config, guard=deadlines, known=known)
    source = str(options.config or "options")
    for sampling in assembly.samplings:
        prometheus_samples.package_of(sampling.source)
    settings = settings_of(options, assembly, source)
    if settings.shadow.enabled:
        raise InputError(
            f"{source}: shadow.enabled", "an extender cannot be a shadow", "use eventsched run"
        )
    deadlines.seconds = process_settings.seconds(settings.plugin_deadline)
    return beside(assembly), settings


def settings_of(options: argparse.Namespace, assembly: Assembly, source: str) -> Settings:
    """The settings in effect. Raises InputError, also for a configuration that asks extenders
    itself and for a profile that it does not have."""
    if assembly.configuration.extenders:
        raise InputError(
            f"{source}: extenders", "an extender asks no extenders", "leave them to the scheduler"
        )
    settings = scheduler.settings_of(options, assembly, source)
    port = options.extender_port
    if port is not None and not 1 <= port <= 65_535:
        raise InputError("--port", f"{port} is not a port", "use 1 to 65535")
    values = {"bind_address": options.extender_address, "port": port}
    extender = msgspec.structs.replace(
        settings.extender, **{name: v for name, v in values.items() if v is not None}
    )
    profile = extender.profile or next(iter(assembly.profiles))
    if profile not in assembly.profiles:
        raise InputError(
            f"{source}: extender.profile",
            f"there is no profile {profile}",
            near_names.offer(profile, assembly.profiles),
        )
    is_default = options.stream is None and settings.stream == Settings().stream
    return msgspec.structs.replace(
        settings,
        extender=msgspec.structs.replace(extender, profile=profile),
        stream=STREAM if is_default else settings.stream,
    )


def beside(assembly: Assembly) -> Assembly:
    """The assembly with its own Lease, if the configured one is the asking scheduler's."""
    configured = assembly.configuration
    election = configured.leader_election
    if election.resource_name != "kube-scheduler":
        return assembly
    election = msgspec.structs.replace(election, resource_name=LEASE)
    return replace(
        assembly, configuration=msgspec.structs.replace(configured, leader_election=election)
    )


def warnings(settings: ExtenderSettings) -> list[str]:
    """Warnings about who can reach it."""
    if settings.bind_address in _LOOPBACK or settings.client_ca_file:
        return []
    offered = "filters, scores" + (" and binds" if settings.paths.bind else "")
    return [
        f"every client that reaches {settings.bind_address}:{settings.port} gets {offered}: "
        "set extender.clientCAFile, or listen on 127.0.0.1"
    ]
