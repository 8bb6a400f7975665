"""docs/architecture.md names files, classes and functions that exist. Its traced pod is real."""

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest

import eventsched
from eventsched.cluster.messages import BindPod, Bound, PodSeen
from eventsched.domain.records import Event, Record
from eventsched.scheduling.queueing.engine_step import EngineStep
from tests.builders import make_node, make_pod
from tests.databases import ROOT
from tests.faults.database import stored_of
from tests.leader_harness import LeaderHarness

TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PACKAGE = Path(eventsched.__file__).parent
NAMED = re.compile(r"`([\w.]+)` \(`([\w/]+\.py)`\)")
"""A class or function, and its module."""
NOT_RUN = ("cluster/kube/", "eventlog/postgres/", "process/", "runtime/live/")
"""Modules with input and output. The example runs without them."""


def section(heading: str) -> str:
    """The text under a heading, up to the next one."""
    _, found, rest = TEXT.partition(f"\n{heading}\n")
    assert found, heading
    return re.split(r"\n#+ ", rest)[0]


TRACE = section("## One pod, record by record")
OWNERS = section("### Who owns which state")


def rows(text: str) -> list[list[str]]:
    """The cells of a table's rows, without its head."""
    lines = [line for line in text.split("\n") if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_files_exist() -> None:
    paths = set(re.findall(r"`([\w/]+/[\w/]+\.py)`", TEXT))
    assert len(paths) > 80
    missing = [p for p in paths if not (PACKAGE / p).is_file() and not (ROOT / p).is_file()]
    assert missing == []


@pytest.mark.parametrize("text", [TRACE, OWNERS], ids=["trace", "owners"])
def test_names_exist(text: str) -> None:
    names = NAMED.findall(text)
    assert len(names) > 20
    for name, path in names:
        value: Any = importlib.import_module(f"eventsched.{path[:-3].replace('/', '.')}")
        for part in name.split("."):
            assert hasattr(value, part), f"{path} has no {name}"
            value = getattr(value, part)


def test_each_owner_has_one_row() -> None:
    owners = [row[0] for row in rows(OWNERS)]
    assert len(owners) == len(set(owners)) > 15


def example(harness: LeaderHarness) -> list[Record]:
    """Schedules a pod on n1, shows it bound, and restarts before the bind's outcome is known.
    Returns the records of the first leader."""
    harness.commit(harness.lead(make_node()))
    requests = harness.send(PodSeen(make_pod(), 30))
    [bind] = harness.commit(requests)
    assert isinstance(bind, BindPod)
    successor = LeaderHarness(harness)
    successor.lead(make_node(), make_pod())
    harness.commit(harness.send(Bound(bind)))
    on_node = msgspec.structs.replace(make_pod(), node_name="n1")
    assert harness.send(PodSeen(on_node, 31)) == []
    return [stored.record for batch in harness.batches for stored in stored_of(batch)]


@contextmanager
def functions_called() -> Iterator[set[tuple[str, str]]]:
    """The functions of eventsched that are called in the block: module's path and name."""
    called: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            path = Path(frame.f_code.co_filename).relative_to(PACKAGE).as_posix()
            called.add((frame.f_code.co_qualname, path))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield called
    finally:
        sys.setprofile(before)


def test_the_example_calls_each_function_that_the_trace_names() -> None:
    with functions_called() as called:
        example(LeaderHarness())
    named = {pair for pair in NAMED.findall(TRACE) if not pair[1].startswith(NOT_RUN)}
    assert len(named) > 25
    assert sorted(named - called) == []


def test_the_trace_has_the_records_of_the_example(monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, each with the function that emits it (for events) and the one that applies it."""
    stacks: dict[str, set[str]] = {}
    original: Callable[..., None] = EngineStep.record

    def noted(step: EngineStep, record: Record, *more: Any) -> None:
        frame: FrameType | None = sys._getframe()
        names = stacks.setdefault(type(record).__name__, set())
        while frame is not None:
            names.add(frame.f_code.co_qualname)
            frame = frame.f_back
        original(step, record, *more)

    monkeypatch.setattr(EngineStep, "record", noted)
    harness = LeaderHarness()
    logged = example(harness)
    table = rows(TRACE)
    first = int(table[0][0])
    shown = [(int(position), record.strip("`")) for position, record, _, _ in table]
    kinds = [type(record).__name__ for record in logged]
    assert shown == list(enumerate(kinds[first:], first))
    handlers = harness.leader.engine.state._handlers
    for (_, _, made_by, applied_by), record in zip(table, logged[first:], strict=True):
        [(handler, _)] = NAMED.findall(applied_by)
        assert handlers[type(record)].__qualname__ == handler
        makers = NAMED.findall(made_by)
        if isinstance(record, Event):
            assert makers[0][0] in stacks[type(record).__name__]
