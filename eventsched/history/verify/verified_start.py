"""Where verification begins if the first records were dropped: at the hash that a seal proves, and
with what the checkpoint of that seal says.

Written from docs/log-format.md, like all of verification.
"""

import json
import zlib
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any, NamedTuple

from eventsched.history.verify.verified_decisions import Facts
from eventsched.history.verify.verified_log import KeptStart, Log
from eventsched.history.verify.verified_preemptions import LivePods

Report = Callable[[int, str], None]
Record = dict[str, Any]
_MISSHAPEN = (KeyError, TypeError, ValueError, AttributeError, IndexError, zlib.error)
_POD_NUMBER = 15
"""The field of a pod in a checkpoint with the position of its PodAdded record."""


class CheckpointState(NamedTuple):
    """What a checkpoint says about its position: ``pods`` are those that there are, ``verdicts``
    and ``columns`` the dictionaries as in the log's records."""

    position: int
    facts: Facts
    live_pods: LivePods
    pods: frozenset[str]
    verdicts: list[Record]
    columns: list[list[Record]]


def start_hash(start: KeptStart, report: Report) -> bytes:
    """The hash of the batch before the start, which the seal has."""
    record = start.record
    try:
        if record["kind"] != "PartitionSealed" or record["next"] != start.position:
            raise ValueError(f"it is {record}")
        return bytes.fromhex(record["after"])
    except _MISSHAPEN as problem:
        report(
            start.position, f"records before {start.position} were dropped, and no seal at "
            f"position {start.seal} says what they were ({problem!r})",
        )  # fmt: skip
        return b""


def checkpoint_state(start: KeptStart, report: Report) -> CheckpointState | None:
    """What the checkpoint says; None, with a report, if it is not what the seal says."""
    try:
        position = start.record["checkpoint"]
        if sha256(start.checkpoint).hexdigest() != start.record["digest"]:
            raise ValueError("its SHA-256 is another one")
        return _decoded(position, json.loads(zlib.decompress(start.checkpoint))["engine"])
    except _MISSHAPEN as problem:
        report(
            start.position, "the checkpoint of the seal at position "
            f"{start.seal} is not there or was changed ({problem!r})",
        )  # fmt: skip
        return None


def _decoded(position: int, state: Record) -> CheckpointState:
    facts = Facts()
    for row, (name, node) in enumerate(state["nodes"]):
        facts.names.append(name)
        if node is not None:
            facts.live[name] = row
    for number, verdict in enumerate(state["verdicts"], 1):
        facts.take({"kind": "VerdictDefined", "number": number, "verdict": verdict})
    for number, columns in enumerate(state["scorings"], 1):
        facts.take({"kind": "ScoringDefined", "number": number, "columns": columns})
    live_pods, pods = LivePods(), set()
    for number, pod in _numbered_pods(state):
        pods.add(pod["uid"])
        live_pods.take(number, {"kind": "PodAdded", "pod": pod})
    return CheckpointState(
        position, facts, live_pods, frozenset(pods), state["verdicts"], state["scorings"]
    )


def _numbered_pods(state: Record) -> Iterator[tuple[int, Record]]:
    """The pods that there are, by the positions of their PodAdded records."""
    for entry in state["pods"]:  # format 1
        yield entry[_POD_NUMBER], entry[0]
    for block in state.get("pod_blocks", ()):  # format 2
        shared = [state["shared"]["pods"][index] for index in block["shared"]]
        own = zip(block["number"], shared, block["uid"], block["started_at"], strict=True)
        for number, pod, uid, started_at in own:
            yield number, {**pod, "uid": uid, "started_at": started_at}


class SealCheck:
    """Checks the seals in a log against its chain, and the column that lists them."""

    def __init__(self, log: Log, report: Report) -> None:
        self._log, self._report = log, report
        self._rows = {} if log.tables is None else log.tables.seals()
        self._found: set[int] = set()

    def check(self, position: int, record: Record) -> None:
        """Checks one seal. Raises KeyError, TypeError and ValueError for one of a wrong shape."""
        for place, field in ((record["first"], "before"), (record["next"], "after")):
            found = self._log.hash_at(place)
            if found is not None and found.hex() != record[field]:
                self._report(
                    position, f"the seal has the hash {record[field]} at {place}, expected "
                    f"{found.hex()}",
                )  # fmt: skip
        row = self._rows.get(record["partition"])
        if self._log.tables is not None and (row is None or row > position):
            self._report(
                position, f"partition {record['partition']} has no seal, expected this one"
            )
        self._found.add(position)

    def finish(self, start: int) -> None:
        """Reports seals of partitions that no record from position ``start`` on is."""
        for partition, position in self._rows.items():
            if position >= start and position not in self._found:
                self._report(position, f"partition {partition} has this seal, expected none")
