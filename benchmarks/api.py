"""``python -m benchmarks.api``: how long the answers of the HTTP API take, inside the process.

Makes a log by a simulation (or takes that of a folder) and asks every operation of the API some
times, each time about another decision or pod, without a socket. Medians of wall time and of the
CPU time of this process; the database's own time is in the first. Ratios are to ``/streams``, which
asks the database one short question: compare those between runs.
"""

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from starlette.types import ASGIApp, Message

from benchmarks.queries import RESULTS
from eventsched.api.application import ROOT, application
from eventsched.api.desk.asked import Desk
from eventsched.api.gates.gate import OpenGate
from eventsched.api.operations import EVENTS, OPERATIONS
from eventsched.cli.main import main as eventsched
from eventsched.output.terminal.tables import table
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import opened_streams
from eventsched.runtime import gc_tuning

_LOAD = "nodes=100,pods=3000,shape=tight,rate=20,runtime=300,rollouts=3m,seed=2"
_POD = b"""
apiVersion: v1
kind: Pod
metadata: {name: wanted}
spec: {containers: [{name: main, image: a, resources: {requests: {cpu: 500m, memory: 512Mi}}}]}
"""
_BASE = "/streams"
"""The answer that the others are compared with."""


class Question(NamedTuple):
    """A request; words in braces stand for what ``_place`` finds. ``of`` is the operation's path if
    the request's is another one; ``first`` is what ends the answer, of one that has no end."""

    path: str
    of: str = ""
    body: bytes = b""
    first: bytes = b""


QUESTIONS = (
    Question(_BASE),
    Question("/now"),
    Question("/now?at={position}", "/now"),
    Question("/activity"),
    Question("/position"),
    Question("/position?at={position}", "/position"),
    Question("/decisions"),
    Question("/decisions?before={position}&outcome=unschedulable", "/decisions"),
    Question("/decisions?pod={name}&namespace={namespace}", "/decisions"),
    Question("/decisions/{position}"),
    Question("/decisions/{position}/verdicts"),
    Question("/decisions/{position}/columns"),
    Question("/decisions/{position}/changes/{other}"),
    Question("/pods"),
    Question("/pods?ever=true", "/pods"),
    Question("/pods?at={position}", "/pods"),
    Question("/pods/groups?by=owner", "/pods/groups"),
    Question("/pods/groups?by=reason", "/pods/groups"),
    Question("/pods/{namespace}/{name}/explain"),
    Question("/pods/{namespace}/{name}/timeline"),
    Question(
        "/pods/{namespace}/{name}/why-not?attempt={attempt}&node={node}",
        "/pods/{namespace}/{name}/why-not",
    ),
    Question(
        "/workloads/{namespace}/rs/{owner}/explain", "/workloads/{namespace}/{kind}/{name}/explain"
    ),
    Question("/state"),
    Question("/state?at={position}&part=pods", "/state"),
    Question("/queue"),
    Question("/queue/anomalies"),
    Question("/evictions"),
    Question("/refusals"),
    Question("/refusals?until={position}", "/refusals"),
    Question("/queue/flushed"),
    Question("/diff?from={earlier}&to={position}", "/diff"),
    Question("/try", body=_POD),
    Question("/events?after={earlier}", "/events", first=b"event: decision"),
)


class Taken(NamedTuple):
    """Seconds of one answer, and its bytes."""

    wall: float
    cpu: float
    size: int


def main() -> int:
    """Makes the log, asks, and prints a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.api", description=__doc__)
    parser.add_argument("--until", default="8m", help="virtual time of the simulation")
    parser.add_argument("--data-dir", type=Path, help="the log of an earlier simulation")
    parser.add_argument("--runs", type=int, default=9, help="of each question, the first apart")
    options = parser.parse_args()
    gc_tuning.freeze()  # as serve does
    with _folder(options) as folder, opened_streams(None, folder) as streams:
        app = application(Desk(streams, FoldedStates()), OpenGate(local_only=False))
        found = asyncio.run(_measured(app, options.runs))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "api.json").write_text(json.dumps(found, indent=1) + "\n")
    print(f"{found['records']:,} records; {options.runs} answers to each question\n")
    print(report(found["answers"]))
    return 0


def row_answers(url: str, runs: int = 7) -> dict[str, Any]:
    """The answers from rows alone, over a database whose log may have no snapshots and no pods that
    exist or wait, such as that of big_log.py."""
    with opened_streams(url, None) as streams:
        app = application(Desk(streams, FoldedStates()), OpenGate(local_only=False))
        answers: dict[str, Any] = asyncio.run(_measured(app, runs, only_rows=True))["answers"]
    return answers


def answers_to(url: str, paths: Sequence[str], runs: int) -> Iterator[tuple[str, list[float]]]:
    """Each path with the seconds of wall time of its answers; the first one does not count."""

    async def taken(app: ASGIApp, path: str) -> list[float]:
        return [(await _taken(app, Question(path), {})).wall for _ in range(runs + 1)][1:]

    with opened_streams(url, None) as streams:
        app = application(Desk(streams, FoldedStates()), OpenGate(local_only=False))
        for path in paths:
            yield path, asyncio.run(taken(app, path))


def report(answers: dict[str, Any]) -> str:
    """The answers as a table."""
    base = answers[_BASE]["wall"]
    rows = [
        [path, *(f"{each[name] * 1e3:.1f}" for name in ("first", "wall", "most", "cpu")),
         f"{each['wall'] / base:.1f}", each["bytes"]]
        for path, each in answers.items()
    ]  # fmt: skip
    return table(("ms", "first", "median", "most", "cpu", f"x {_BASE}", "bytes"), rows)


@contextmanager
def _folder(options: argparse.Namespace) -> Iterator[Path]:
    if options.data_dir is not None:
        yield options.data_dir
        return
    with tempfile.TemporaryDirectory(prefix="evs-api-", dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        words = ["simulate", "--generate", _LOAD, "--until", options.until, "--data-dir", folder]
        assert eventsched(words) == 0
        yield Path(folder)


async def _measured(app: ASGIApp, runs: int, *, only_rows: bool = False) -> dict[str, Any]:
    """Asks every question, each time about another decision from the second half of the log; only
    those that are answered from rows, for ``only_rows``, about any decision."""
    _require_whole()
    [stream] = (await _json(app, _BASE))["streams"]
    head, answers = stream["head"], {}
    pods = (await _json(app, "/pods?limit=1000"))["pods"]
    owners = sorted({pod["owner_name"] for pod in pods}) or [""]
    find = _decision if only_rows else _place
    places = [
        await find(app, head // 2 + head * number // (2 * runs + 2), owners[number % len(owners)])
        for number in range(runs + 1)
    ]
    for question in _from_rows(bool(pods)) if only_rows else QUESTIONS:
        first, *rest = [await _taken(app, question, place) for place in places]
        answers[question.path] = {
            "first": first.wall,
            "wall": statistics.median(each.wall for each in rest),
            "most": max(each.wall for each in rest),
            "cpu": statistics.median(each.cpu for each in rest),
            "bytes": round(statistics.median(each.size for each in rest)),
        }
    return {"records": head, "answers": answers}


def _require_whole() -> None:
    asked = {question.of or question.path.partition("?")[0] for question in QUESTIONS}
    known = {each.path for each in (*OPERATIONS, EVENTS)}
    assert asked == known, f"not asked: {known - asked}; unknown: {asked - known}"


def _from_rows(has_pods: bool) -> list[Question]:
    """The questions that are answered from rows; those about pods that exist, if there are some."""
    slow = {each.path for each in OPERATIONS if each.slow or each.method == "POST"}
    slow_with = {each.path: f"?{each.slow_with}=" for each in OPERATIONS if each.slow_with}
    return [
        question
        for question in QUESTIONS
        if (path := question.of or question.path.partition("?")[0]) not in slow
        and slow_with.get(path, " ") not in question.path
        and (has_pods or "{owner}" not in question.path)
    ]


async def _decision(app: ASGIApp, position: int, owner: str) -> dict[str, Any]:
    """The first decision after a position, as what questions are about; compared with itself."""
    found = await _json(app, f"/decisions?after={position}&limit=1")
    [decision] = found["decisions"]
    return await _about(app, decision, decision["position"], owner)


async def _place(app: ASGIApp, position: int, owner: str) -> dict[str, Any]:
    """What questions are about: an owner, and the first decision after a position that found no
    node for a pod, not for the first time."""
    found = await _json(app, f"/decisions?after={position}&outcome=unschedulable&limit=1000")
    for decision in found["decisions"]:
        if decision["attempt"] == 1:
            continue
        detail = await _json(app, f"/decisions/{decision['position']}")
        return await _about(app, decision, detail["previous"], owner)
    raise SystemExit(f"no pod was tried twice after position {position}: take a fuller cluster")


async def _about(app: ASGIApp, decision: dict[str, Any], other: int, owner: str) -> dict[str, Any]:
    """The words of questions about a decision."""
    verdicts = await _json(app, f"/decisions/{decision['position']}/verdicts?limit=1")
    return {
        "position": decision["position"],
        "other": other,
        "namespace": decision["namespace"],
        "name": decision["pod"],
        "attempt": decision["attempt"],
        "node": verdicts["verdicts"][0]["node"],
        "owner": owner,
        "earlier": max(0, decision["position"] - 1_000),
    }


async def _taken(app: ASGIApp, question: Question, place: dict[str, Any]) -> Taken:
    path = question.path.format(**place)
    wall, cpu = time.perf_counter(), time.process_time()
    size = len(await _answer(app, path, question))
    return Taken(time.perf_counter() - wall, time.process_time() - cpu, size)


async def _json(app: ASGIApp, path: str) -> Any:
    return json.loads(await _answer(app, path, Question(path)))


async def _answer(app: ASGIApp, path: str, question: Question) -> bytes:
    """The body of the answer, up to ``first`` if there is one."""
    body, status, has_left = bytearray(), [0], asyncio.Event()

    async def receive() -> Message:
        if question.body and not body and not has_left.is_set():
            has_left.set()
            return {"type": "http.request", "body": question.body, "more_body": False}
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        status[0] = message.get("status", status[0])
        body.extend(message.get("body", b""))
        if question.first and question.first in body:
            came.set()

    came, parts = asyncio.Event(), urlsplit(f"{ROOT}{path}")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http",
        "method": "POST" if question.body else "GET", "path": parts.path,
        "raw_path": quote(parts.path).encode(), "query_string": parts.query.encode(),
        "root_path": "", "headers": [(b"host", b"127.0.0.1")], "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8787),
    }  # fmt: skip
    answering = asyncio.ensure_future(app(scope, receive, send))
    if question.first:
        ready = asyncio.ensure_future(came.wait())
        await asyncio.wait((answering, ready), return_when=asyncio.FIRST_COMPLETED)
        for task in (answering, ready):
            task.cancel()
        await asyncio.gather(answering, ready, return_exceptions=True)
    else:
        await answering
    if status[0] != 200 or (question.first and not came.is_set()):
        raise SystemExit(f"{path}: {status[0]} {bytes(body[:500])!r}")
    return bytes(body)


if __name__ == "__main__":
    raise SystemExit(main())
