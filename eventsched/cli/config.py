"""``eventsched config``: checks a KubeSchedulerConfiguration, completes it, compares two."""

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml

from eventsched.cli.answers.answer_forms import add_output_option, is_document, print_document
from eventsched.cluster.files import read_text
from eventsched.domain.errors import InputError
from eventsched.output.terminal.tables import table
from eventsched.process.exit_codes import BAD_INPUT, DIFFERS
from eventsched.process.settings import check_text
from eventsched.runtime.assembly import registry
from eventsched.scheduling.config.checking import Checked, running_points
from eventsched.scheduling.config.completion import completed
from eventsched.scheduling.config.differences import differences


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "config",
        help="check a KubeSchedulerConfiguration, complete it, or compare two",
        description="Reads a KubeSchedulerConfiguration as kube-scheduler v1.36 does; FILE may be "
        "- for stdin. v1beta1 to v1beta3 are read too, with a warning. A second YAML document "
        "holds eventsched's own settings, for `eventsched run`.",
    )
    actions = parser.add_subparsers(title="actions", dest="action", required=True)
    action = _action(
        actions, "check", _check, "list every problem, or the plugins by extension point"
    )
    add_output_option(action)
    action = _action(actions, "show", _show, "print it with all defaults")
    add_output_option(action, "yaml")
    summary = "list differences in effect; exit 1 if there are any"
    add_output_option(_action(actions, "diff", _diff, summary, 2), "text")


def _action(
    actions: Any, name: str, run: Any, summary: str, files: int | None = None
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=summary, description=summary)
    parser.add_argument("file", metavar="FILE", nargs=files)
    parser.add_argument(
        "--plugin",
        type=Path,
        action="append",
        default=[],
        metavar="FILE.py",
        help="a file with plugins that the configuration names; may be repeated",
    )
    parser.set_defaults(run=run)
    return parser


def _check(options: argparse.Namespace) -> int:
    [checked] = _read(options, options.file)
    if checked.problems:
        return BAD_INPUT
    if is_document(options.output):
        profiles = {profile.name: running_points(profile) for profile in checked.profiles}
        print_document({"profiles": profiles}, options.output)
        return 0
    rows = [
        (profile.name, point, ", ".join(names))
        for profile in checked.profiles
        for point, names in running_points(profile).items()
    ]
    print(table(("profile", "point", "plugins"), rows))
    return 0


def _show(options: argparse.Namespace) -> int:
    [checked] = _read(options, options.file)
    if checked.problems:
        return BAD_INPUT
    document = completed(checked.configuration, checked.profiles)
    if is_document(options.output):
        print_document(document, options.output)
    else:
        print(yaml.safe_dump(document, allow_unicode=True), end="")
    return 0


def _diff(options: argparse.Namespace) -> int:
    old, new = _read(options, *options.file)
    if old.problems or new.problems:
        return BAD_INPUT
    changes = list(
        differences((old.configuration, old.profiles), (new.configuration, new.profiles))
    )
    if is_document(options.output):
        print_document({"changes": changes}, options.output)
    else:
        print("\n".join(changes) or "no difference in effect")
    return DIFFERS if changes else 0


def _read(options: argparse.Namespace, *files: str) -> list[Checked]:
    """Each file, checked; its problems and warnings are on stderr, a line each."""
    if files.count("-") > 1:
        raise InputError("-", "stdin can be read only once", "name one of the two as a file")
    plugins = registry(options.plugin)
    checked = []
    for file in files:
        source = "stdin" if file == "-" else file
        text = _text(file)
        checked.append(check_text(text, source, plugins))
        for problem in checked[-1].problems:
            print(f"eventsched config: {_line(problem)}", file=sys.stderr)
        for warning in checked[-1].warnings:
            print(f"eventsched config: {source}: warning: {_line(warning)}", file=sys.stderr)
    return checked


def _line(message: object) -> str:
    return " ".join(str(message).splitlines())


def _text(file: str) -> str:
    if file != "-":
        return read_text(Path(file))
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("stdin", "is not UTF-8 text", "send it as UTF-8") from None
