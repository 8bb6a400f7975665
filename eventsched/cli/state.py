"""``eventsched state``: what the scheduler believed at a position of its log."""

import argparse
import json
import sys
from typing import Any

from eventsched.cli.answers.answer_forms import add_output_option, print_document
from eventsched.cli.log_access.log_at import AT_HELP, add_log_options, opened_log
from eventsched.domain.errors import InputError
from eventsched.domain.records import Queue
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.history.past_state.named_pods import find_pod_state
from eventsched.history.past_state.state_document import (
    Document,
    node_document,
    pod_document,
    row_of,
    state_document,
)
from eventsched.output.state_output import (
    node_text,
    place_text,
    pod_text,
    pods_text,
    state_text,
    with_times,
)
from eventsched.output.terminal.character_fallback import shows_all

_EVERY_QUEUE = "all"


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "state",
        help="show nodes, pods and queues as the scheduler believed them at a position",
        description="Shows what the scheduler believed at a position or time of its log: nodes and "
        "what is requested of them, pods, queues. -o manifests writes it as Kubernetes objects, "
        "which `simulate --manifests` and `evaluate` read.",
    )
    parser.add_argument("--at", metavar="POS|TIME", help=f"{AT_HELP} (default: now)")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--node", metavar="NODE", help="this node, with its pods")
    shown.add_argument("--pod", metavar="POD", help="this pod: namespace/name, a name or a uid")
    shown.add_argument(
        "--queue", nargs="?", const=_EVERY_QUEUE, choices=(*map(str, Queue), _EVERY_QUEUE),
        metavar="QUEUE", help="the pods in this queue (active, backoff, unschedulable, gated), or "
        "in all",
    )  # fmt: skip
    parser.add_argument("--full", action="store_true", help="show all pods of a long table")
    add_log_options(parser)
    add_output_option(
        parser, "text", more=("manifests",),
        help_text="json and yaml: the whole state, or what is asked for; manifests: a List of "
        "Kubernetes objects as JSON (default: text)",
    )  # fmt: skip
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the state."""
    asked = [name for name in ("node", "pod", "queue") if getattr(options, name) is not None]
    if options.output == "manifests" and asked:
        remedy = f"leave --{asked[0]} out, or take -o json"
        raise InputError("-o manifests", "writes the whole state", remedy)
    with opened_log(options) as opened:
        folded = opened.state(options.at)
        stream = opened.log.stream
    state = folded.state
    if options.output == "manifests":
        _write_manifests(state)
    elif options.output == "text":
        print(_text(state, stream, options))
    else:
        document = {"stream": stream, **_document(state, options)}
        print_document(with_times(document), options.output)
    return 0


def _document(state: SchedulerState, options: argparse.Namespace) -> Document:
    """What the options ask for."""
    place = {"position": state.position, "now": state.now}
    if options.node is not None:
        row = row_of(state, options.node)
        return place | {"node": node_document(state, row), "pods": _pods_on(state, row)}
    if options.pod is not None:
        return place | {"pod": pod_document(state, find_pod_state(state.pods, options.pod))}
    if options.queue is not None:
        return place | {"pods": _queued(state, options.queue)}
    return state_document(state, whole=options.output != "text")


def _text(state: SchedulerState, stream: str, options: argparse.Namespace) -> str:
    document = _document(state, options)
    place = place_text(document, stream)
    if options.node is not None:
        return f"{place}\n{node_text(document['node'], document['pods'], state.now)}"
    if options.pod is not None:
        return f"{place}\n{pod_text(document['pod'])}"
    if options.queue is not None:
        pods = document["pods"]
        empty = "no pod waits" + ("" if options.queue == _EVERY_QUEUE else " in this queue")
        return f"{place}\n{pods_text(pods, state.now, full=options.full) if pods else empty}"
    return state_text(document, stream)


def _pods_on(state: SchedulerState, row: int) -> list[Document]:
    return [pod_document(state, state.pods[uid]) for uid in state.nodes.residents[row]]


def _queued(state: SchedulerState, queue: str) -> list[Document]:
    """The pods in a queue, in the order in which they came to it."""
    waiting = sorted(
        (pod_state for pod_state in state.pods.values() if pod_state.queue is not None),
        key=lambda pod_state: (str(pod_state.queue), pod_state.order),
    )
    return [
        pod_document(state, pod_state)
        for pod_state in waiting
        if queue in (_EVERY_QUEUE, str(pod_state.queue))
    ]


def _write_manifests(state: SchedulerState) -> None:
    """Writes a List, one object a line."""
    from eventsched.history.past_state.state_manifests import state_manifests

    print('{"apiVersion": "v1", "kind": "List", "items": [')
    before = ""
    for item in state_manifests(state):
        sys.stdout.write(f"{before}{json.dumps(item, ensure_ascii=not shows_all(sys.stdout))}")
        before = ",\n"
    print("\n]}")
