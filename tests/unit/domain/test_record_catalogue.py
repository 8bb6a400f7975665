"""The record catalogue is complete: whatever has to know a kind of record knows it.

Each message names the file to touch.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from eventsched.domain import records
from eventsched.domain.objects import Pod
from eventsched.domain.records import AnyRecord, Record
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.record_catalogue import CATALOGUE, Level, RecordKind
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.history.explain.record_text import describe_with_pod, pod_of
from eventsched.process_log.narration import Narrator
from eventsched.web.record_counters import RecordCounters

ROOT = Path(__file__).resolve().parents[3]
RECORDS = "eventsched/domain/records"
GOLDEN = "tests/contract/records-golden.jsonl"
FORMAT = "docs/log-format.md"
KINDS = [row.record for row in CATALOGUE]
EXAMPLES: dict[type[Record], AnyRecord] = {
    type(record): record
    for record in map(records.decode, (ROOT / GOLDEN).read_bytes().splitlines())
}
per_kind = pytest.mark.parametrize("row", CATALOGUE, ids=[row.name for row in CATALOGUE])


def assert_same_kinds(found: Iterable[type], expected: Iterable[type], file: str) -> None:
    """``file`` has to know the expected kinds and no others."""
    has, wants = {kind.__name__ for kind in found}, {kind.__name__ for kind in expected}
    assert not wants - has, f"{file} lacks {', '.join(sorted(wants - has))}"
    assert not has - wants, f"{file} has {', '.join(sorted(has - wants))} besides"


def subclasses(kind: type) -> set[type]:
    direct: set[type] = set(kind.__subclasses__())
    return direct.union(*map(subclasses, direct))


def test_every_kind_is_in_the_union_and_has_a_row() -> None:
    """Other tests may define kinds of their own."""
    defined = {
        kind
        for base in (records.Stimulus, records.Event)
        for kind in subclasses(base)
        if kind.__module__.startswith("eventsched.")
    }
    assert_same_kinds(get_args(AnyRecord), defined, f"AnyRecord in {RECORDS}/record_catalogue.py")
    assert_same_kinds(KINDS, defined, f"CATALOGUE in {RECORDS}/record_catalogue.py")
    assert list(get_args(AnyRecord)) == KINDS, "the rows are in another order than AnyRecord"
    exported = [kind for kind in KINDS if getattr(records, kind.__name__, None) is kind]
    assert_same_kinds(exported, KINDS, f"{RECORDS}/__init__.py")


def test_every_kind_has_a_golden_line() -> None:
    place = f"{GOLDEN} (and EXAMPLES in tests/contract/record_examples.py)"
    assert_same_kinds(EXAMPLES, KINDS, place)


def test_kinds_that_change_the_state_have_a_handler() -> None:
    handlers, ignored = SchedulerState._handlers, SchedulerState._ignore
    handled = [kind for kind, handler in handlers.items() if handler is not ignored]
    wanted = [row.record for row in CATALOGUE if row.changes_state]
    assert_same_kinds(
        handled, wanted, "eventsched/domain/state/scheduler_state.py (or changes_state)"
    )


def test_kinds_with_metrics_are_followed() -> None:
    followed = RecordCounters(CollectorRegistry())._branches
    wanted = [row.record for row in CATALOGUE if row.has_metrics]
    assert_same_kinds(
        followed, wanted, "eventsched/web/record_counters.py (or has_metrics of a row)"
    )


@per_kind
def test_the_pod_of_a_row_is_the_field_that_holds_it(row: RecordKind) -> None:
    types = {field.name: field.type for field in msgspec.structs.fields(row.record)}
    field = "uid" if "uid" in types else "pod.uid" if types.get("pod") is Pod else ""
    assert row.pod == field, f"{RECORDS}/record_catalogue.py: {row.name} names its pod by {field!r}"
    assert row.pod or not (row.moves_pod or row.regroups_pod)


@per_kind
def test_a_kind_has_a_text(row: RecordKind) -> None:
    record = EXAMPLES[row.record]
    try:
        text = describe_with_pod(record, str)
    except KeyError:
        pytest.fail(f"eventsched/history/explain/record_text.py lacks {row.name}")
    assert text != row.name
    assert "\n" not in text
    if (uid := pod_of(record)) is not None and not row.pod.startswith("pod."):
        assert text.startswith(f"{uid} ")


@per_kind
def test_a_kind_is_narrated_at_its_level_or_above(row: RecordKind) -> None:
    logged = [LogEntry(0, 0, 0, EXAMPLES[row.record])]
    [line] = Narrator("s", lambda uid: None).lines(logged, with_debug=True)
    levels = get_args(Level)
    assert levels.index(line.level) >= levels.index(row.level)
    assert line.event


def test_every_kind_has_a_row_in_the_documented_format() -> None:
    text = (ROOT / FORMAT).read_text(encoding="utf-8")
    section = text.partition("\n## Kinds of records\n")[2].partition("\n## ")[0]
    found = re.findall(r"^\| `(\w+)` \| ([\w, ]+) \| (?:`([\w.]+)`)? *\| .+ \|$", section, re.M)
    expected = [
        (
            row.name,
            ("stimulus" if row.is_stimulus else "event") + (", intent" if row.is_intent else ""),
            row.pod,
        )
        for row in CATALOGUE
    ]
    assert found == expected, f"{FORMAT}, Kinds of records, differs from the catalogue"
