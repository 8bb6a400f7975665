"""The report of a shadow, on a history that diverges in exactly the pods that it should."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from eventsched.cli.main import main
from eventsched.domain import records
from eventsched.domain.behaviours import CURRENT, Behaviour
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.stimuli import SHADOWS
from eventsched.eventlog.port import Batch, StoredRecord
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.testing import STREAM_STARTED
from tests.builders import GIB, SECOND, engine_with, make_node, make_pod
from tests.postgres.anomalous import starving

STREAM = "shadow"
OPENING = msgspec.structs.replace(
    STREAM_STARTED, inputs={SHADOWS: "default-scheduler"}, flags=(*CURRENT, Behaviour.SHADOWS)
)
CPU = {f"p{number}": 1000 for number in range(12)} | {"p3": 3000, "huge": 64_000}
"""What the pods request."""


class Shadowed:
    """A shadow's log in the making: what it sees, and what its engine decides. Times are s."""

    def __init__(self) -> None:
        self.entries: list[LogEntry] = []
        self.now = 0
        self._engine = engine_with()
        self.sees(OPENING)
        for name in ("a", "b", "c"):
            self.sees(records.NodeAdded(node=make_node(name, cpu=8000, memory=32 * GIB)))
        self.sees(records.NodeAdded(node=make_node("tiny", cpu=2000, memory=16 * GIB)))

    def sees(self, stimulus: records.Stimulus) -> None:
        self.entries += self._engine.observe(stimulus, self.now * SECOND)

    def arrives(self, name: str, *, is_decided: bool = True) -> str:
        """A pod comes. Returns the node that is chosen for it, "" for none."""
        self.sees(records.PodAdded(pod=make_pod(name, cpu=CPU.get(name, 1000))))
        if is_decided:
            self.entries += self._engine.schedule_next()
        reservation = self._engine.state.reservations.get(name)
        return reservation.node if reservation is not None else ""

    def is_placed(self, name: str, node: str) -> None:
        """The other scheduler binds a pod."""
        pod = make_pod(name, cpu=CPU.get(name, 1000), node_name=node)
        self.sees(records.PodUpdated(pod=pod))

    def write(self, address: str) -> None:
        details = {e.position: e.detail for e in self.entries if e.detail is not None}
        with closing(PostgresEventLog(address, STREAM, holder="test")) as log:
            log.begin(Batch([StoredRecord.of(entry) for entry in self.entries], details))
            log.finish()


def diverging() -> tuple[Shadowed, dict[str, tuple[str, str]]]:
    """Twelve pods, of which three are placed on another node (p3 on one that is too small here),
    and three with another fate. Returns the differing pods with both nodes, too."""
    shadowed, differing = Shadowed(), {}
    for number in range(12):
        name = f"p{number}"
        chosen = shadowed.arrives(name)
        shadowed.now += 2
        node = chosen
        if number == 3:
            node = "tiny"
        elif number in (5, 8):
            node = next(each for each in ("a", "b", "c") if each != chosen)
        shadowed.is_placed(name, node)
        if node != chosen:
            differing[name] = chosen, node
    shadowed.arrives("early", is_decided=False)
    shadowed.is_placed("early", "a")
    shadowed.arrives("huge")
    shadowed.is_placed("huge", "b")
    shadowed.arrives("deleted")
    shadowed.now += 1
    shadowed.sees(records.PodDeleted(uid="deleted"))
    differing["huge"] = "", "b"
    return shadowed, differing


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(["shadow", "report", *words]) == 0
    return capsys.readouterr().out


def test_a_history_that_diverges_in_some_pods(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shadowed, differing = diverging()
    shadowed.write(database)
    where = ("--database", database, "--stream", STREAM)
    found: dict[str, Any] = json.loads(printed(capsys, *where, "-o", "json"))
    assert found["outcomes"] == {
        "same": 9, "different": 3, "only_there": 1, "only_here": 1, "undecided": 1,
    }  # fmt: skip
    assert found["agreement"] == 9 / 12
    assert {
        each["pod"]: (each["chosen"], each["node"]) for each in reversed(found["differing"])
    } == {f"default/{name}": nodes for name, nodes in differing.items()}
    assert found["refused"] == [
        {"plugin": "NodeResourcesFit", "reason": "Insufficient cpu", "pods": 2}
    ]
    assert found["both_pass"]["equal"] + found["both_pass"]["lower"] <= 2
    assert found["first"] == {"here": 12, "there": 2}
    assert found["waits"] == {
        "here": {"p50": 0, "p99": 0}, "there": {"p50": 2 * SECOND, "p99": 2 * SECOND},
    }  # fmt: skip
    assert (found["used"]["nodes"], found["used_here"]["nodes"]) == (4, 3)  # nothing is on tiny
    exported = tmp_path / "log.jsonl"
    assert main(["log", "export", *where, str(exported)]) == 0
    text = printed(capsys, *where)
    assert printed(capsys, "--file", str(exported)) == text
    assert "the same node for 75.0% of 12 pods that both placed" in text
    for name, (chosen, node) in differing.items():
        [line] = [line for line in text.splitlines() if line.startswith(f"default/{name} ")]
        assert line.split()[1:3] == [node, chosen or "-"]
    some = next(e for e in shadowed.entries if isinstance(e.record, records.PlacementCompared))
    part = json.loads(printed(capsys, *where, "--from", str(some.position + 1), "-o", "json"))
    assert part["outcomes"]["same"] == 8


def test_the_plugin_that_prefers_the_node_chosen_here(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The emptier node wins by NodeResourcesFit; the other scheduler takes the fuller one."""
    shadowed = Shadowed()
    for name, node in (("p0", "a"), ("p1", "b")):
        shadowed.arrives(name)
        shadowed.is_placed(name, node)
    assert shadowed.arrives("p2") == "c"
    shadowed.is_placed("p2", "a")
    shadowed.write(database)
    found = json.loads(printed(capsys, "--database", database, "-o", "json"))
    [last, *_] = found["differing"]
    assert (last["pod"], last["node"], last["chosen"]) == ("default/p2", "a", "c")
    assert last["score"] < last["chosen_score"]
    preferred = {each["plugin"]: each["pods"] for each in found["both_pass"]["plugins"]}
    assert preferred.get("NodeResourcesFit")


def test_what_is_refused(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    starving().write(database, "scheduler")
    where: tuple[str, ...] = ("--database", database)
    assert main(["shadow", "report", *where]) == 2
    assert "stream scheduler: is not the log of a shadow" in capsys.readouterr().err
    shadowed = Shadowed()
    shadowed.write(database)
    where += ("--stream", STREAM)
    assert "no pod was compared yet" in printed(capsys, *where)
    assert main(["shadow", "report", *where, "--from", "5", "--until", "2"]) == 2
    assert "--from: is position 5, after --until (2)" in capsys.readouterr().err
