"""The commands of ``kubectl eventsched``."""

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from eventsched import __version__
from eventsched.cli.answers.answer_forms import (
    WIDE,
    YAML,
    add_output_option,
    ends_unread,
    has_pager,
    is_document,
    shown_json,
    yaml_text,
)
from eventsched.cli.answers.pager import paged
from eventsched.cli.main import CommandParser
from eventsched.cluster.files import read_text
from eventsched.cluster.kube.http.access import namespace_in_use
from eventsched.cluster.kube.http.api import JSON, path
from eventsched.domain.errors import InputError, UnavailableError
from eventsched.domain.workload_kinds import POD
from eventsched.history.explain.workloads.workload import parse_target
from eventsched.kubectl_plugin.decision_log import add_log_options, print_log
from eventsched.kubectl_plugin.scheduler_access import scheduler_access
from eventsched.kubectl_plugin.service_proxy import SERVICE_VARIABLE
from eventsched.output.terminal.character_fallback import fall_back_to_ascii
from eventsched.output.terminal.colours import painted
from eventsched.output.terminal.display import display_of_output
from eventsched.process.exit_codes import BAD_INPUT, DIFFERS, ENVIRONMENT, STOPPED

TEXT = "text/plain"
_WIDEST = 1_000
"""Characters of a line that the API makes at most."""
_STORY = ("width", "full", "bars", "colours")
_QUEUES = ("active", "backoff", "unschedulable", "gated")


class ApiQuestion(NamedTuple):
    """A request to the API: its path below /api/v1, its parameters, and a body to post."""

    path: str
    params: Mapping[str, Any]
    body: bytes | None = None


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    made = CommandParser(
        prog="kubectl eventsched",
        description="Asks a running scheduler why pods are where they are, through the API server "
        "and with your own rights. Needs no access to the scheduler's database.",
    )
    made.add_argument("--version", action="version", version=f"eventsched {__version__}")
    commands = made.add_subparsers(title="commands", dest="command", required=True)
    explain = _command(commands, "explain", "show why a pod is where it is, or a workload's pods")
    explain.add_argument(
        "pod", metavar="POD|WORKLOAD", help="a pod's name, or deploy/NAME, job/NAME, group/NAME, …"
    )
    explain.add_argument("--attempt", metavar="N", help="the attempt to explain (default: last)")
    explain.add_argument("--node", metavar="NODE", help="why not that node, or how it scored")
    explain.set_defaults(question=_explain)
    why_not = _command(commands, "why-not", "show what would have to change for another node")
    why_not.add_argument("pod", metavar="POD", help="a pod's name")
    why_not.add_argument("node", metavar="NODE", help="the node where it should land")
    why_not.add_argument("--attempt", metavar="N", help="the attempt (default: the last one)")
    why_not.set_defaults(question=_why_not)
    waiting = "show which pods wait, in which order, and what for"
    queue = _command(commands, "queue", waiting, wide=True)
    queue.add_argument("--queue", choices=_QUEUES, help="only this one")
    queue.add_argument("--at", metavar="POS|TIME", help="then, instead of now")
    queue.set_defaults(question=_queue)
    trial = _command(commands, "try", "say where pods would go if they were submitted")
    trial.add_argument(
        "-f", "--filename", type=Path, required=True, metavar="FILE",
        help="the pods, and other objects that come with them (- is standard input)",
    )  # fmt: skip
    trial.add_argument("--count", metavar="N", help="N pods of the file's only template")
    trial.add_argument("--at", metavar="POS|TIME", help="on the state then, instead of now")
    trial.set_defaults(question=_try)
    for answered in (explain, why_not, queue, trial):
        answered.add_argument("--full", action="store_true", help="show everything")
    listing = "list the newest decisions, and follow those that come"
    log = _command(commands, "log", listing, wide=True)
    add_log_options(log)
    return made


def _command(commands: Any, name: str, text: str, *, wide: bool = False) -> argparse.ArgumentParser:
    """A command with the options that all have. ``wide``: it has a wider table."""
    made: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    made.add_argument("--kubeconfig", type=Path, metavar="FILE", help="as kubectl's")
    made.add_argument("--context", metavar="NAME", help="as kubectl's")
    made.add_argument("-n", "--namespace", metavar="NAMESPACE", help="as kubectl's")
    made.add_argument(
        "--service", metavar="NAMESPACE/NAME", default=os.environ.get(SERVICE_VARIABLE),
        help=f"the Service of the scheduler's API (default: ${SERVICE_VARIABLE}, or the one that "
        "is found in kube-system). Your token is sent to it",
    )  # fmt: skip
    made.add_argument(
        "--service-account", metavar="NAME",
        help="ask with the rights of this account of the namespace: a token for ten minutes is "
        "made for it and sent, instead of your own",
    )  # fmt: skip
    made.add_argument("--stream", metavar="NAME", help="the stream, if the log has several")
    add_output_option(made, "text", wide=wide)
    return made


# --- questions --------------------------------------------------------------------------------


def _explain(options: argparse.Namespace, namespace: str) -> ApiQuestion:
    target = parse_target(options.pod, options.namespace)
    within = target.namespace or namespace
    if target.kind == POD:
        params = {"attempt": options.attempt, "node": options.node}
        return ApiQuestion(
            path("pods", within, target.name, "explain"), params | _words(options, *_STORY)
        )
    for option in ("attempt", "node"):
        if getattr(options, option) is not None:
            problem = f"is about one pod, and {target.word} is a workload"
            raise InputError(f"--{option}", problem, "name one of its pods, or leave it out")
    kind = target.full_name.split("/")[-2]
    return ApiQuestion(
        path("workloads", within, kind, target.name, "explain"), _words(options, *_STORY)
    )


def _why_not(options: argparse.Namespace, namespace: str) -> ApiQuestion:
    target = parse_target(options.pod, options.namespace)
    if target.kind != POD:
        raise InputError("POD", f"{target.word} is a workload", "name one of its pods")
    place = path("pods", target.namespace or namespace, target.name, "why-not")
    words = _words(options, "width", "colours")
    return ApiQuestion(place, {"node": options.node, "attempt": options.attempt, **words})


def _queue(options: argparse.Namespace, namespace: str) -> ApiQuestion:
    words = _words(options, "width", "full", "colours")
    params = {"queue": options.queue, "at": options.at, **words}
    if is_document(options.output):
        params |= {"limit": "1000"}
    if options.output == WIDE:
        params |= {"wide": "true"}
    return ApiQuestion("/queue", params)


def _try(options: argparse.Namespace, namespace: str) -> ApiQuestion:
    words = _words(options, "width", "full", "colours")
    params = {"count": options.count, "at": options.at, **words}
    if options.output == "text":
        params["text"] = "true"
    return ApiQuestion("/try", params, read_text(options.filename).encode())


def _words(options: argparse.Namespace, *names: str) -> dict[str, str | None]:
    """Some of the parameters of an answer in words; those that say nothing are None, so that a
    scheduler of an earlier version need not know them."""
    if is_document(options.output):
        return {}
    display = display_of_output()
    words = {
        "width": str(min(display.width, _WIDEST)) if display.width else None,
        "full": "true" if options.full else None,
        "bars": "true" if display.bars else None,
        "colours": "true" if display.paint is painted else None,
    }
    return {name: words[name] for name in names}


# --- answers ----------------------------------------------------------------------------------


async def _run(options: argparse.Namespace) -> int:
    """Runs one command and returns its exit code. Raises InputError and UnavailableError."""
    namespace = options.namespace or namespace_in_use(options.kubeconfig, options.context)
    if options.command == "log":
        async with scheduler_access(options, namespace) as api:
            return await print_log(api, options, namespace)
    question: ApiQuestion = options.question(options, namespace)
    accept = JSON if is_document(options.output) or question.body is not None else TEXT
    async with scheduler_access(options, namespace) as api:
        answer = await api.ask(question.path, question.params, accept, question.body)
    return _printed(options, question, answer)


def _printed(options: argparse.Namespace, question: ApiQuestion, answer: bytes) -> int:
    """Prints the answer, and returns the exit code."""
    is_trial = question.body is not None
    trial = msgspec.json.decode(answer) if is_trial else {}
    if options.output == YAML:
        sys.stdout.write(yaml_text(msgspec.json.decode(answer)))
    elif is_trial and options.output == "text":
        for warning in trial["warnings"]:
            print(f"warning: {warning}", file=sys.stderr)
        print(trial["text"])
    else:
        text = answer.decode().rstrip("\n")
        print(shown_json(text) if is_document(options.output) else text)
    return DIFFERS if is_trial and trial["pending"] else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    fall_back_to_ascii(sys.stdout)
    options = parser().parse_args(arguments)
    prog = f"kubectl eventsched {options.command}"
    code = 0
    try:
        with paged(wanted=has_pager(options), ends_unread=ends_unread(options)):
            code = asyncio.run(_run(options))
    except InputError as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return BAD_INPUT
    except UnavailableError as error:
        print(f"{prog}: {' '.join(str(error).split())}", file=sys.stderr)
        return ENVIRONMENT
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe; the interpreter must not flush into it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return STOPPED
    return code
