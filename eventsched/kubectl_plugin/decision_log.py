"""``kubectl eventsched log``: the newest decisions of a scheduler, and those that come.

A decision is a line, made here from the API's JSON: what follows has to know the position to go on
from. Only fields that a line needs are read, so the scheduler may be of another version.
"""

import argparse
import asyncio
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import msgspec

from eventsched.cli.answers.answer_forms import WIDE, document_of_several, is_document
from eventsched.cluster.kube.http.api import JSON
from eventsched.domain.errors import InputError, UnavailableError
from eventsched.domain.workload_kinds import POD
from eventsched.history.explain.workloads.workload import parse_target
from eventsched.output.terminal.tables import printable
from eventsched.output.time_format import moment, read_moment

MOST_LINES = 1_000
"""Decisions at most before those that are followed."""
_WAIT = "20s"
"""How long the API waits for a decision before it answers that there is none."""
_RETRY_SECONDS = 2.0
_FILTERS = ("node", "owner", "reason", "plugin", "outcome")
_LINE = "{:>9}  {:<23}  {:<13}  {:>7}  {:<40}  {}"
_WIDE = "{:>9}  {:<23}  {:<13}  {:>7}  {:<40}  {:<20}  {:>11}  {:<24}  {}"
_HEADER = ("POSITION", "TIME", "OUTCOME", "ATTEMPT", "POD")
_WIDE_HEADER = ("PROFILE", "FEASIBLE", "RUNNER-UP")


class _LoggedDecision(msgspec.Struct, frozen=True, kw_only=True):
    position: int
    at: str
    outcome: str
    attempt: int
    uid: str
    namespace: str | None = None
    pod: str | None = None
    profile: str = ""
    node: str | None = None
    score: int | None = None
    runner_up: str | None = None
    feasible: int = 0
    evaluated: int = 0
    plugin: str | None = None
    reason: str | None = None


class _DecisionPage(msgspec.Struct, frozen=True, kw_only=True):
    head: int
    decisions: list[msgspec.Raw]
    next: int | None = None


class AsksApi(Protocol):
    """Asks the API of a scheduler."""

    async def ask(self, question: str, params: Mapping[str, str | None], accept: str) -> bytes:
        """The answer. Raises InputError and UnavailableError."""
        ...


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command, except for those that all have."""
    parser.add_argument("pod", nargs="?", metavar="POD", help="only of this pod: its name")
    parser.add_argument("-f", "--follow", action="store_true", help="and those that come")
    parser.add_argument(
        "-A", "--all-namespaces", action="store_true", help="of all namespaces that you may see"
    )
    parser.add_argument(
        "--limit", default="20", metavar="N",
        help=f"the newest N, at most {MOST_LINES} (default: 20)",
    )  # fmt: skip
    parser.add_argument("--since", metavar="POS|TIME", help="from then on: a time, or 10m ago")
    parser.add_argument(
        "--outcome", choices=("scheduled", "unschedulable", "waiting", "error"),
        help="only with this outcome",
    )  # fmt: skip
    parser.add_argument("--node", metavar="NODE", help="only those that chose this node")
    parser.add_argument("--owner", metavar="NAME", help="only of pods of this controller")
    parser.add_argument("--reason", metavar="TEXT", help="only if nodes were refused for it")
    parser.add_argument("--plugin", metavar="NAME", help="only if it refused nodes")


def log_filter(options: argparse.Namespace, namespace: str) -> dict[str, str | None]:
    """The parameters of /decisions that the options mean. Raises InputError."""
    pod, within = None, options.namespace or namespace
    if options.pod is not None:
        target = parse_target(options.pod, options.namespace)
        if target.kind != POD:
            problem, remedy = f"{target.word} is a workload", "name a pod, or use --owner NAME"
            raise InputError("POD", problem, remedy)
        pod, within = target.name, target.namespace or within
    if options.all_namespaces:
        if options.namespace is not None or pod is not None:
            other = "-n" if options.namespace is not None else "POD"
            raise InputError("-A", f"excludes {other}", "leave one of them out")
        return {name: getattr(options, name) for name in _FILTERS}
    return {"namespace": within, "pod": pod, **{each: getattr(options, each) for each in _FILTERS}}


def number_of_lines(text: str) -> int:
    """The value of ``--limit``. Raises InputError."""
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) > MOST_LINES:
        raise InputError("--limit", f"{text!r} is out of range", f"write 0 to {MOST_LINES}")
    return int(text)


async def print_log(
    api: AsksApi,
    options: argparse.Namespace,
    namespace: str,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> int:
    """Prints the newest decisions, the newest last, and then follows if that is wanted: until it is
    cancelled. Raises InputError, and UnavailableError for the first page."""
    wanted = log_filter(options, namespace)
    limit = number_of_lines(options.limit)
    head, newest = await _newest(api, {**wanted, "from": options.since}, limit)
    if not is_document(options.output):
        header = _HEADER + (_WIDE_HEADER if options.output == WIDE else ())
        print(_line(options.output).format(*header, "WHAT"))
    for decision in newest:
        print(_written(decision, options.output))
    sys.stdout.flush()
    if options.follow:
        await _follow(api, wanted, head, options.output, sleep)
    return 0


async def _newest(
    api: AsksApi, wanted: Mapping[str, str | None], limit: int
) -> tuple[int, deque[msgspec.Raw]]:
    """The head of the log, and the newest decisions up to it, the oldest first."""
    page = await _page(api, {**wanted, "limit": str(limit or 1)})
    head, found = page.head, deque(reversed(page.decisions[:limit]))
    while page.next is not None and len(found) < limit:
        more = {"before": str(page.next), "limit": str(limit - len(found))}
        page = await _page(api, {**wanted, **more})
        found.extendleft(page.decisions)
    return head, found


async def _follow(
    api: AsksApi,
    wanted: Mapping[str, str | None],
    position: int,
    output: str,
    sleep: Callable[[float], Awaitable[None]],
) -> None:
    """Prints decisions from a position on as they come. While the API does not answer, as during
    an upgrade, it is asked again."""
    is_lost = False
    while True:
        try:
            page = await _page(api, {**wanted, "after": str(position), "wait": _WAIT})
        except UnavailableError as error:
            if not is_lost:
                text = " ".join(str(error).split())
                print(f"{text}; asked again every {_RETRY_SECONDS:g} s", file=sys.stderr)
            is_lost = True
            await sleep(_RETRY_SECONDS)
            continue
        is_lost = False
        for decision in page.decisions:
            print(_written(decision, output))
        sys.stdout.flush()
        position = max(position, page.head) if page.next is None else page.next


async def _page(api: AsksApi, params: Mapping[str, str | None]) -> _DecisionPage:
    answer = await api.ask("/decisions", params, JSON)
    return msgspec.json.decode(answer, type=_DecisionPage)


def _line(output: str) -> str:
    return _WIDE if output == WIDE else _LINE


def _written(decision: msgspec.Raw, output: str) -> str:
    """A decision as one line, of JSON as the API sent it or of words, or as YAML."""
    if is_document(output):
        return document_of_several(bytes(decision).decode(), output)
    row = msgspec.json.decode(decision, type=_LoggedDecision)
    pod = row.uid if row.pod is None else f"{row.namespace}/{row.pod}"
    at = moment(read_moment(row.at, 0, virtual=True))
    cells: tuple[object, ...] = (row.position, at, row.outcome, row.attempt, pod)
    if output == WIDE:
        cells += (row.profile, f"{row.feasible}/{row.evaluated}", row.runner_up or "-")
    return printable(" ".join(_line(output).format(*cells, _what(row)).splitlines()))


def _what(row: _LoggedDecision) -> str:
    """Where the pod goes, or why it goes nowhere."""
    if row.node is not None:
        return row.node if row.score is None else f"{row.node} (score {row.score})"
    return ": ".join(filter(None, (row.plugin, row.reason))) or "-"
