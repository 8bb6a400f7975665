"""Judges the history of a cluster that eventsched scheduled, without any code of eventsched.

    python tests/cluster/soak/judge.py HISTORY

A history is a file of JSON lines, one per operation, in any order. Times are microseconds since
1970 UTC, by one clock. ``revision`` is the number that etcd gave a change: it orders all changes of
nodes and pods. ``pod`` is a uid.

The kinds, and the fields that each has:

- ``term``: a writer's term was committed. ``epoch``, ``first``, ``committed``.
- ``batch``: records were committed together. ``first``, ``count``, ``epoch``, ``committed``.
- ``intended``: a record in the log decides a bind. ``position``, ``epoch``, ``pod``, ``node``,
  ``committed``.
- ``bound``: the API server received a request to bind. ``pod``, ``node``, ``position`` of the
  record that the request names (or null), ``received``, ``code`` (null without a known answer).
  ``node`` is null if the API server was killed before it logged what was asked for.
- ``node``: a node appeared or changed. ``revision``, ``node``, ``allocatable``.
- ``removed``: a node is gone. ``revision``, ``node``.
- ``created``: a pod appeared. ``revision``, ``pod``.
- ``seen``: a pod is on a node. ``revision``, ``pod``, ``node``, ``requests``.
- ``ended``: a pod was deleted, or has run to its end. ``revision``, ``pod``.
- ``settled``: the faults are over, and there was room and time for every pod. ``revision``.

The rules:

- ``once``: a pod is bound with success at most once, by a request that the log and the store show.
  A pod that is there at ``settled`` is on a node.
- ``commit``: no request to bind is received before the record that decides it was committed.
- ``room``: no node has more on it than it offers, when a pod comes to it, in the store's order.
- ``epoch``: the epochs of terms increase by one, their commit times never go back, and no record of
  an older epoch follows or is committed after the beginning of a newer term.
- ``form``: the history itself makes sense.

The exit code is 0 without violations, 1 with some, 2 if the file is not a history.
"""

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

Line = dict[str, Any]

FIELDS = {
    "term": {"epoch", "first", "committed"},
    "batch": {"first", "count", "epoch", "committed"},
    "intended": {"position", "epoch", "pod", "node", "committed"},
    "bound": {"pod", "node", "position", "received", "code"},
    "node": {"revision", "node", "allocatable"},
    "removed": {"revision", "node"},
    "created": {"revision", "pod"},
    "seen": {"revision", "pod", "node", "requests"},
    "ended": {"revision", "pod"},
    "settled": {"revision"},
}
"""The fields that a line of each kind has at least."""
SUFFIXES: dict[str, Fraction | int] = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
}  # fmt: skip
"""Of quantities (Kubernetes documentation, "Quantity")."""


class Violation(NamedTuple):
    """What was broken, and how."""

    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


class NotAHistoryError(Exception):
    """A line that cannot be read; the message says which and why."""


class History:
    """The lines by kind; those with a revision in its order."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._by_kind: dict[str, list[Line]] = {kind: [] for kind in FIELDS}
        for number, line in enumerate(lines, 1):
            kind = line.get("kind")
            if kind not in FIELDS:
                raise NotAHistoryError(f"line {number}: the kind {kind!r} is not known")
            if missing := FIELDS[kind] - line.keys():
                raise NotAHistoryError(f"line {number}: {kind} lacks {sorted(missing)}")
            self._by_kind[kind].append(line)

    def of(self, kind: str) -> list[Line]:
        """The lines of a kind."""
        return self._by_kind[kind]

    def stored(self) -> list[Line]:
        """The changes of nodes and pods in the order of the store."""
        found = (line for lines in self._by_kind.values() for line in lines if "revision" in line)
        return sorted(found, key=lambda line: int(line["revision"]))

    def counts(self) -> dict[str, int]:
        """How many operations of each kind there are."""
        return {kind: len(lines) for kind, lines in self._by_kind.items()}


def read(lines: Iterable[str]) -> History:
    """The history in a file. Raises NotAHistoryError."""
    found = []
    for number, text in enumerate(lines, 1):
        try:
            line = json.loads(text)
        except ValueError as error:
            raise NotAHistoryError(f"line {number}: {error}") from None
        if not isinstance(line, dict):
            raise NotAHistoryError(f"line {number}: this is not an object")
        found.append(line)
    return History(found)


def judge(history: History) -> list[Violation]:
    """All violations, by rule."""
    return [
        *(Violation("form", text) for text in _form(history)),
        *(Violation("once", text) for text in _once(history)),
        *(Violation("commit", text) for text in _commit(history)),
        *(Violation("room", text) for text in _room(history)),
        *(Violation("epoch", text) for text in _epoch(history)),
    ]


# --- form ---------------------------------------------------------------------------------


def _form(history: History) -> Iterator[str]:
    """Rules without which the others would find nothing: pods of the log and of the requests are
    those of the store, and there is something to judge."""
    created = {line["pod"] for line in history.of("created")}
    for kind in ("seen", "ended", "bound"):
        for line in history.of(kind):
            if line["pod"] not in created:
                yield f"{kind} is about pod {line['pod']}, which was never created"
    for kind in ("term", "batch", "intended", "bound", "node", "seen", "settled"):
        if not history.of(kind):
            yield f"there is no line of the kind {kind}"


# --- once ---------------------------------------------------------------------------------


def _once(history: History) -> Iterator[str]:
    yield from _successes(history)
    yield from _places(history)
    yield from _agreement(history)
    yield from _left_out(history)


def _successes(history: History) -> Iterator[str]:
    """At most one request of a pod succeeds."""
    nodes = defaultdict(list)
    for line in history.of("bound"):
        if _succeeded(line):
            nodes[line["pod"]].append(line["node"])
    for pod, found in nodes.items():
        if len(found) > 1:
            yield f"pod {pod} was bound {len(found)} times with success, to {found}"


def _places(history: History) -> Iterator[str]:
    """A pod on a node stays there."""
    place: dict[str, str] = {}
    for line in history.stored():
        if line["kind"] == "seen":
            before = place.setdefault(line["pod"], line["node"])
            if before != line["node"]:
                yield f"pod {line['pod']} moved from {before} to {line['node']}"


def _agreement(history: History) -> Iterator[str]:
    """What the API server answered is what the store shows: a success leads to a pod on that node,
    and a pod on a node comes from a request that succeeded or whose answer is not known."""
    asked = defaultdict(set)
    for line in history.of("bound"):
        if _succeeded(line) or line["code"] is None:
            asked[line["pod"]].add(line["node"])
    seen = {(line["pod"], line["node"]) for line in history.of("seen")}
    for pod, node in sorted(seen):
        if not asked[pod] & {node, None}:
            yield f"pod {pod} is on {node}, and no request to bind it there can have succeeded"
    for line in history.of("bound"):
        if _succeeded(line) and (line["pod"], line["node"]) not in seen:
            yield f"pod {line['pod']} was bound to {line['node']}, and was never on it"


def _left_out(history: History) -> Iterator[str]:
    """Pods without a node when there was room and time for all."""
    for settled in history.of("settled"):
        waiting: dict[str, None] = {}
        for line in history.stored():
            if line["revision"] > settled["revision"]:
                break
            if line["kind"] == "created":
                waiting[line["pod"]] = None
            elif line["kind"] in ("seen", "ended"):
                waiting.pop(line["pod"], None)
        for pod in waiting:
            yield f"pod {pod} was never bound, although there was room and time"


def _succeeded(line: Line) -> bool:
    return line["code"] is not None and 200 <= line["code"] < 300


# --- commit -------------------------------------------------------------------------------


def _commit(history: History) -> Iterator[str]:
    """Every request, whatever its answer was, follows the commit of a record that decides it."""
    records = {line["position"]: line for line in history.of("intended")}
    decided = defaultdict(list)
    for line in history.of("intended"):
        for node in (line["node"], None):
            decided[line["pod"], node].append(line["committed"])
    for line in history.of("bound"):
        what = f"a request to bind pod {line['pod']} to {line['node']}"
        if line["position"] is None:
            committed = min(decided[line["pod"], line["node"]], default=None)
        else:
            record = records.get(line["position"])
            fits = record and (record["pod"], record["node"]) == (line["pod"], line["node"])
            committed = record["committed"] if record and fits else None
        if committed is None:
            yield f"{what} is of no record in the log (it names {line['position']})"
        elif line["received"] < committed:
            early = committed - line["received"]
            yield f"{what} was received {early} µs before its record was committed"


# --- room ---------------------------------------------------------------------------------


class _Cluster:
    """What nodes offer, and what is on them."""

    def __init__(self) -> None:
        self._offered: dict[str, dict[str, Fraction]] = {}
        self._requests: dict[str, dict[str, Fraction]] = {}
        self._place: dict[str, str] = {}
        self._used: dict[str, Counter[str]] = defaultdict(Counter)

    def offer(self, node: str, allocatable: dict[str, str]) -> None:
        self._offered[node] = {name: quantity(text) for name, text in allocatable.items()}

    def remove(self, node: str) -> None:
        self._offered.pop(node, None)

    def place(self, pod: str, node: str, requests: dict[str, str]) -> Iterator[str]:
        """Puts a pod on a node, or changes what it requests there; says what is too much."""
        asked = {name: quantity(text) for name, text in requests.items()}
        asked["pods"] = Fraction(1)
        if self._place.get(pod) == node and self._requests[pod] == asked:
            return
        self.end(pod)
        self._place[pod], self._requests[pod] = node, asked
        used = self._used[node]
        for name, amount in asked.items():
            used[name] += amount  # type: ignore[assignment]
        offered = self._offered.get(node)
        if offered is None:
            yield f"pod {pod} came to {node}, which is not there"
            return
        for name in asked:
            if used[name] > offered.get(name, 0):
                there = sorted(each for each, place in self._place.items() if place == node)
                yield (
                    f"{node} offers {float(offered.get(name, 0)):g} of {name} and has "
                    f"{float(used[name]):g} on it, once pod {pod} came to it; on it: {there}"
                )

    def end(self, pod: str) -> None:
        node = self._place.pop(pod, None)
        if node is not None:
            for name, amount in self._requests.pop(pod).items():
                self._used[node][name] -= amount  # type: ignore[assignment]


def _room(history: History) -> Iterator[str]:
    cluster = _Cluster()
    over: set[str] = set()
    for line in history.stored():
        match line["kind"]:
            case "node":
                cluster.offer(line["node"], line["allocatable"])
            case "removed":
                cluster.remove(line["node"])
            case "seen" if line["pod"] in over:
                yield f"pod {line['pod']} is on {line['node']} after its end"
            case "seen":
                for text in cluster.place(line["pod"], line["node"], line["requests"]):
                    yield f"at revision {line['revision']}: {text}"
            case "ended":
                over.add(line["pod"])
                cluster.end(line["pod"])


def quantity(text: str | int) -> Fraction:
    """A quantity such as ``250m``, ``1Gi``, ``1e3`` or ``2``. Raises NotAHistoryError."""
    number = str(text)
    for size in (2, 1):
        if number[-size:] in SUFFIXES and number[:-size]:
            return _fraction(number[:-size]) * SUFFIXES[number[-size:]]
    return _fraction(number)


def _fraction(text: str) -> Fraction:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise NotAHistoryError(f"{text!r} is not a quantity") from None


# --- epoch --------------------------------------------------------------------------------


def _epoch(history: History) -> Iterator[str]:
    # A term that begins between two batches has the position of the second one: it goes first.
    order = {"term": 0, "batch": 1}
    lines = [*history.of("term"), *history.of("batch")]
    lines.sort(key=lambda line: (line["first"], order[line["kind"]], line["epoch"]))
    epoch = committed = position = 0
    for line in lines:
        what = f"{line['kind']} of epoch {line['epoch']} at {line['first']}"
        if line["committed"] < committed:
            yield f"{what} was committed {committed - line['committed']} µs before what precedes it"
        committed = line["committed"]
        if line["kind"] == "term":
            if line["epoch"] != epoch + 1:
                yield f"{what} follows epoch {epoch}"
            epoch = line["epoch"]
        else:
            if line["epoch"] != epoch:
                yield f"{what} is in the term of epoch {epoch}"
            if line["first"] != position:
                yield f"{what} follows a record at {position - 1}"
            position = line["first"] + line["count"]
    yield from _in_their_batch(history)


def _in_their_batch(history: History) -> Iterator[str]:
    """A record's epoch and commit are those of its batch."""
    batches = {
        position: line
        for line in history.of("batch")
        for position in range(line["first"], line["first"] + line["count"])
    }
    for line in history.of("intended"):
        batch = batches.get(line["position"])
        if batch is None:
            yield f"the record at {line['position']} is in no batch"
        elif any(line[name] != batch[name] for name in ("epoch", "committed")):
            yield f"the record at {line['position']} has another epoch or commit than its batch"


def main(arguments: list[str]) -> int:
    """Prints the counts and the violations of a history."""
    try:
        with open(arguments[0], encoding="utf-8") as file:
            history = read(file)
        violations = judge(history)
    except (NotAHistoryError, OSError, IndexError) as error:
        print(f"this is not a history: {error}", file=sys.stderr)
        return 2
    print("operations:", ", ".join(f"{count} {kind}" for kind, count in history.counts().items()))
    for violation in violations:
        print(f"VIOLATION {violation}")
    print(f"{len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
