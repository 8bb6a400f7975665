"""Verification of files: logs of older versions, damaged files, and every kind of wrong record."""

import base64
import gzip
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventsched.cli.main import main
from eventsched.domain.errors import InputError
from eventsched.domain.records.verdicts import (
    DeltaPart,
    Detail,
    column_digest,
    detail_digest,
)
from eventsched.eventlog import vectors
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.history.export_reader import FileLog
from eventsched.history.verify.tables.verified_rows import uuid
from eventsched.history.verify.verification import Result, verify, verify_file
from eventsched.history.verify.verified_chain import batch_hash
from eventsched.history.verify.verified_file import LogFile
from eventsched.history.verify.verified_log import BatchRow, NoLogError
from tests.properties.strategies import deterministic

HISTORIES = sorted((Path(__file__).parents[2] / "histories").glob("*.jsonl.gz"))
SMALL = next(path for path in HISTORIES if path.name == "0.1-cluster.jsonl.gz")
TOKEN = bytes(range(16))

Item = list[Any]


def at(position: int, record: dict[str, Any], *, time: int = 0, cause: int | None = None) -> Item:
    """An item of a body: a step of its own, unless a cause is given."""
    return [time, position if cause is None else cause, 1, record]


def node(name: str) -> dict[str, Any]:
    """A record."""
    return {"kind": "NodeAdded", "node": {"name": name}}


STARTED = {"kind": "StreamStarted", "format": 1, "engine": "0.1", "seed": "1"}
VERDICT = {
    "kind": "VerdictDefined",
    "number": 1,
    "verdict": {"plugin": "Fit", "code": "Unschedulable", "reasons": ["Insufficient cpu"]},
}
SCORING = {"kind": "ScoringDefined", "number": 1, "columns": [
    {"plugin": "A", "weight": 2}, {"plugin": "B", "weight": 3, "normalization": "min-max"},
    {"plugin": "C", "weight": 1, "normalization": "own"},
]}  # fmt: skip
CODES = np.array([0, 1, 0], dtype=np.uint16)
SCORES = (np.array([7, 0, 9], dtype=np.uint8), np.array([10, 0, 30]), np.array([1, 0, 2]))
OWN = np.array([50, 0, 60])
ROW = np.array([1], dtype=np.int32)
DETAIL = Detail(3, None, CODES, SCORES, (None, None, OWN))
DIGEST = detail_digest(column_digest(CODES), [column_digest(each) for each in (*SCORES, OWN)])
DECIDED = {
    "kind": "PodDecided", "uid": "u", "attempt": 1, "profile": "p", "outcome": "scheduled",
    "node": "c", "row": 2, "score": 2 * 9 + 3 * 100 + 60, "feasible": 2, "evaluated": 3,
    "counts": [[1, 1]], "scoring": 1, "parameters": [[], [10, 30], []], "digest": DIGEST,
}  # fmt: skip
BEFORE = [
    at(0, STARTED), at(1, node("a")), at(2, node("b")), at(3, node("c")), at(4, VERDICT),
    at(5, SCORING),
]  # fmt: skip


def write(path: Path, *bodies: list[Item] | str, details: dict[int, Detail] | None = None) -> Path:
    """A log in a file, its hashes and head as they should be; a body may be any text."""
    first, previous, lines = 0, sha256(b"eventsched/1/s").digest(), []
    for body in bodies:
        text = body if isinstance(body, str) else json.dumps(body)
        count = 1 if isinstance(body, str) else len(body)
        batch = BatchRow(first, count, 1, 0, b"null", b"", text.encode())
        previous = batch_hash(batch, TOKEN, previous)
        kept = [
            [seq, detail.base, base64.b64encode(vectors.pack(detail)).decode()]
            for seq, detail in (details or {}).items()
            if first <= seq < batch.end
        ]
        line = [first, count, 1, 0, "null", previous.hex(), text]
        lines.append({"batch": line, "details": kept})
        first = batch.end
    header = {"format": 1, "stream": "s", "epochs": [[1, TOKEN.hex(), 0]],
              "head": [first, previous.hex()]}  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in (header, *lines)))
    return path


# --- logs that are right ----------------------------------------------------------------


@pytest.mark.parametrize("path", HISTORIES, ids=[path.name for path in HISTORIES])
def test_what_older_versions_wrote_is_right(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = verify_file(path)
    assert result.problems == []
    log = FileLog(path)
    stored = list(log.read())
    assert result.details == sum(b'"digest":' in each.body for each in stored)
    only_answers = b'"serves":' in stored[0].body
    preemptions = sum(each.kind == "PreemptionDecided" for each in stored)
    assert result.decisions + preemptions >= result.details
    assert (result.details == 0) == only_answers
    assert [each.position for each in stored] == list(range(log.head.next))
    assert len(stored) == result.records
    for each in stored:
        assert each.record is not None
    assert main(["verify", "--file", str(path)]) == 0
    assert capsys.readouterr().out.startswith(f"stream {result.stream}: {result.records} records")


def test_a_log_by_hand_is_right(tmp_path: Path) -> None:
    result = verify_file(write(tmp_path / "log", BEFORE, [at(6, DECIDED)], details={6: DETAIL}))
    assert result.problems == []
    assert (result.records, result.batches, result.decisions, result.details) == (7, 2, 1, 1)


def test_a_uid_that_is_no_uuid_stands_as_its_md5() -> None:
    assert uuid("bf098305-9ed0-5591-b5f9-5dbe4212775a") == "bf098305-9ed0-5591-b5f9-5dbe4212775a"
    assert uuid("x") == "9dd4e461-268c-8034-f5c8-564e155c67a6"
    assert uuid("BF098305-9ED0-5591-B5F9-5DBE4212775A") != "bf098305-9ed0-5591-b5f9-5dbe4212775a"


# --- records that are wrong -------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"node": "b"}, "node 'b' was chosen, but row 2 names 'c'"),
        ({"row": 3}, "node 'c' was chosen, but row 3 is not there"),
        ({"node": "", "row": -1}, "outcome scheduled without a node"),
        ({"outcome": "lost"}, "unknown outcome 'lost'"),
        ({"scoring": 2}, "scoring 2 is not defined"),
        ({"parameters": [[], [10], []]}, "parameters"),
        ({"counts": [[1, 2]]}, "verdicts on 4 nodes (counts, feasible), expected on all"),
        ({"counts": [[2, 1]]}, "counts [[2, 1]], expected [[1, 1]] by the vectors"),
        ({"feasible": 1, "counts": [[1, 2]]}, "feasible 1, expected 2 by the vectors"),
        ({"evaluated": 2}, "evaluated 2, expected 3 by the vectors"),
        ({"score": 5}, "score 5, expected 378 by the vectors"),
        ({"node": "a", "row": 0}, "score 378, expected 64 by the vectors"),
        ({"node": "b", "row": 1}, "row 1 was chosen, but its code is 1"),
        ({"parameters": [[], [10, 40], []]}, "score 378, expected 276 by the vectors"),
        ({"scoring": 0, "parameters": []}, "scoring 0, but there are 3 score columns"),
        ({"digest": "00"}, "the vectors have digest"),
        ({"digest": ""}, "a detail row of a decision that has no vectors"),
        ({"uid": None, "outcome": None}, "unknown outcome None"),
        ({"row": "2"}, "the record is not of its shape"),
        ({"counts": 7}, "the record is not of its shape"),
    ],
)
def test_what_a_decision_says_wrongly(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    decided = {**DECIDED, **change}
    result = verify_file(write(tmp_path / "log", BEFORE, [at(6, decided)], details={6: DETAIL}))
    assert [problem.position for problem in result.problems] == [6]
    assert said in result.problems[0].text


@pytest.mark.parametrize(
    ("items", "position", "said"),
    [
        ([at(0, node("a"))], 0, "a record NodeAdded, expected StreamStarted"),
        ([at(0, STARTED), at(1, STARTED)], 1, "a record StreamStarted, expected it at position 0"),
        ([at(0, STARTED, time=5), at(1, node("a"), time=4)], 1, "time 4, expected 5 or later"),
        ([at(0, STARTED), at(1, node("a")), at(2, node("b"), cause=0)], 2, "cause 0, expected 1"),
        ([at(0, STARTED), [0, 1, 0, node("a")]], 1, "version 0, expected 1 or more"),
        ([at(0, STARTED), [0, 1, True, node("a")]], 1, "not of its shape"),
        ([at(0, STARTED), [0, 1, 1]], 1, "not of its shape"),
        ([at(0, STARTED), at(1, {"kind": 5})], 1, "not of its shape"),
        ([at(0, STARTED), at(1, {})], 1, "not of its shape"),
        ([at(0, STARTED), at(1, {"kind": "NodeAdded"})], 1, "not of its shape"),
        ([at(0, STARTED), at(1, node("a")), at(2, node("a"))], 2, "node 'a' is added, but"),
        ([at(0, STARTED), at(1, {"kind": "NodeDeleted", "name": "x"})], 1, "'x' is deleted, but"),
        ([*BEFORE, at(6, VERDICT)], 6, "verdict 1 cannot be defined (again)"),
        ([*BEFORE, at(6, SCORING)], 6, "scoring 1 cannot be defined (again)"),
        ([*BEFORE, at(6, DECIDED)], 6, "has a digest, but there is no detail row"),
    ],
)
def test_what_records_say_wrongly(
    tmp_path: Path, items: list[Item], position: int, said: str
) -> None:
    first = verify_file(write(tmp_path / "log", items)).first
    assert first is not None
    assert first.position == position
    assert said in first.text


@pytest.mark.parametrize(
    ("body", "said"),
    [("[", "not JSON"), ("{}", "no array"), ("[]", "0 items, expected 1"), ("[NaN]", "NaN"),
     ("[1]", "not of its shape")],
)  # fmt: skip
def test_bodies_that_are_none(tmp_path: Path, body: str, said: str) -> None:
    first = verify_file(write(tmp_path / "log", body)).first
    assert first is not None
    assert first.position == 0
    assert said in first.text


@pytest.mark.parametrize(
    ("detail", "said"),
    [
        (Detail(2, None, CODES[:2], ()), "2 rows, expected 3"),
        (Detail(3, 5, DeltaPart(ROW, CODES[:1]), ()), "a delta to the vectors of position 5"),
        (Detail(3, 6, DeltaPart(ROW, CODES[:1]), ()), "base 6 is not an earlier position"),
        (Detail(3, None, None, ()), "column 0 is missing in a whole record"),
        (Detail(4, None, np.zeros(4, np.uint16), ()), "4 rows, but only 3 exist"),
    ],
)
def test_details_that_do_not_fit(tmp_path: Path, detail: Detail, said: str) -> None:
    path = write(tmp_path / "log", BEFORE, [at(6, DECIDED)], details={6: detail})
    first = verify_file(path).first
    assert first is not None
    assert first.position == 6
    assert said in first.text


RANKED = {**DECIDED, "runner_up": "a", "runner_up_score": 2 * 7 + 0 + 50}
BOTH = np.array([0, 2], dtype=np.int32)


def best(
    rows: np.ndarray[Any, Any] = BOTH, codes: np.ndarray[Any, Any] = CODES, own: int = 60
) -> Detail:
    """The partial vectors of RANKED, of these rows; as they should be, or not."""
    normalized = OWN.copy()
    normalized[2] = own
    scores = tuple(DeltaPart(rows, column[rows]) for column in SCORES)
    return Detail(
        3, None, codes, scores, (None, None, DeltaPart(rows, normalized[rows])), is_partial=True
    )


NO_NODE = 65_535


@pytest.mark.parametrize(
    "detail",
    [best(), best(codes=np.array([0, NO_NODE, 0], np.uint16)),
     best(ROW + 1, np.array([NO_NODE, 1, 0], np.uint16))],
)  # fmt: skip
def test_partial_vectors_that_are_right(tmp_path: Path, detail: Detail) -> None:
    result = verify_file(write(tmp_path / "log", BEFORE, [at(6, RANKED)], details={6: detail}))
    assert result.problems == []
    assert (result.details, result.partial, result.thinned) == (1, 1, 0)


@pytest.mark.parametrize(
    ("detail", "changes", "said"),
    [
        (best(own=61), {}, "score 378, expected 379"),
        (best(codes=np.array([0, 1, 1], np.uint16)), {}, "2 rows with code 1, but the decision"),
        (best(codes=np.array([0, 2, 0], np.uint16)), {}, "1 rows with code 2, but the decision"),
        (best(ROW - 1, np.array([0, 1, NO_NODE], np.uint16)), {}, "best nodes are in rows [0]"),
        (best(codes=np.array([0, 0, 0], np.uint16)), {}, "best nodes are in rows [0, 1, 2]"),
        (best(), {"runner_up_score": 65}, "the runner-up is 'a' with 65, expected one with 64"),
        (best(), {"runner_up": "b"}, "the runner-up is 'b' with 64, expected one with 64"),
        (Detail(3, None, CODES, (), (), is_partial=True), {}, "but there are 0 score columns"),
    ],
)
def test_partial_vectors_that_contradict_the_decision(
    tmp_path: Path, detail: Detail, changes: dict[str, Any], said: str
) -> None:
    path = write(tmp_path / "log", BEFORE, [at(6, {**RANKED, **changes})], details={6: detail})
    first = verify_file(path).first
    assert first is not None
    assert first.position == 6
    assert said in first.text


def test_a_gone_node_is_gone_in_the_vectors(tmp_path: Path) -> None:
    gone = [*BEFORE, at(6, {"kind": "NodeDeleted", "name": "b"})]
    codes = np.array([0, 65_535, 0], dtype=np.uint16)
    digest = detail_digest(column_digest(codes), [])
    decided = {"kind": "PodDecided", "uid": "u", "attempt": 1, "profile": "p", "feasible": 2,
               "outcome": "error", "evaluated": 2, "digest": digest}  # fmt: skip
    detail = Detail(3, None, codes, ())
    for items, said in ((gone, None), (BEFORE, "verdicts on 2 nodes")):
        position = len(items)
        path = write(tmp_path / "log", [*items, at(position, decided)], details={position: detail})
        first = verify_file(path).first
        assert (first is None) == (said is None)
        assert first is None or said is None or said in first.text


# --- damaged files ----------------------------------------------------------------------


def lines_of(path: Path) -> list[bytes]:
    """The lines of a compressed file."""
    return gzip.decompress(path.read_bytes()).splitlines(keepends=True)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda lines: lines[:-1], "expected 42 by the head"),
        (lambda lines: [lines[0], *lines[2:]], "records are missing"),
        (lambda lines: [lines[0], lines[1], lines[1], *lines[2:]], "a batch begins at 0"),
        (lambda lines: [*lines[:-1], lines[-1][:-9]], "line 3: it does not end"),
        (lambda lines: [lines[0].replace(b"epochs", b"epoxhs"), *lines[1:]], "line 1: not the"),
        (lambda lines: [*lines[:-1], b"{}\n"], "line 3: not of the file form"),
        (lambda lines: [*lines[:-1], lines[-1].replace(b'[[', b'[["x",', 1)], "line 3: not of"),
        (lambda lines: [lines[0].replace(b'"cluster"', b'"other"'), *lines[1:]], "hash of the"),
    ],
)  # fmt: skip
def test_damaged_files(tmp_path: Path, edit: Any, said: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"".join(edit(lines_of(SMALL))))
    first = verify_file(path).first
    assert first is not None
    assert said in first.text


@pytest.mark.parametrize("kept", [0.01, 0.1, 0.6, 0.99])
def test_a_compressed_file_that_was_cut_off(tmp_path: Path, kept: float) -> None:
    path = tmp_path / "log.jsonl.gz"
    whole = HISTORIES[-1].read_bytes()
    path.write_bytes(whole[: int(len(whole) * kept)])
    result = verify_file(path)
    assert result.first is not None
    assert len(result.problems) == 1
    assert "line" in result.first.text


def test_files_that_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_text("hello\n")
    with pytest.raises(InputError, match="cannot be read: No such file"):
        FileLog(tmp_path / "nothing")
    with pytest.raises(InputError, match="line 1: not the beginning of an exported log"):
        FileLog(tmp_path / "text")
    assert main(["verify", "--file", str(tmp_path / "nothing")]) == 2
    assert main(["verify", "--file", str(tmp_path / "text"), "--data-dir", "x"]) == 2
    capsys.readouterr()
    assert main(["verify", "--file", str(tmp_path / "text")]) == 2
    assert capsys.readouterr().err == (
        f"eventsched verify: {tmp_path / 'text'}: line 1: not the beginning of an exported log; "
        "name a file that `eventsched log export` wrote\n"
    )


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda first: b"", "not the beginning of an exported log"),
        (lambda first: b"[1, 2]\n", "not the beginning of an exported log"),
        (lambda first: b'{"name":"x"}\n', "not the beginning of an exported log"),
        (lambda first: first.replace(b'"format":1', b'"format":9'), "format 9, not 1"),
    ],
)
def test_files_that_begin_otherwise(tmp_path: Path, edit: Any, said: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(edit(lines_of(SMALL)[0]))
    with pytest.raises(NoLogError, match=said):
        verify_file(path)


def test_a_damaged_file_is_corrupt_where_it_is_read(tmp_path: Path) -> None:
    lines = lines_of(SMALL)
    (tmp_path / "log").write_bytes(b"".join(lines[:-1]) + b"{}\n")
    log = FileLog(tmp_path / "log")
    with pytest.raises(CorruptLogError, match="line 3: not of the file form"):
        list(log.read())


@deterministic(300)
@given(data=st.data())
def test_whatever_byte_is_changed_it_is_found_or_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    lines = lines_of(SMALL)
    number = data.draw(st.integers(0, len(lines) - 1))
    line = bytearray(lines[number])
    place = data.draw(st.integers(0, len(line) - 2))
    line[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != line[place]))
    lines[number] = bytes(line)
    path = tmp_path_factory.getbasetemp() / "edited.jsonl"
    path.write_bytes(b"".join(lines))
    try:
        result = verify_file(path)
    except NoLogError:
        assert number == 0
        return
    assert result.problems or meaning(path) == meaning(SMALL)
    assert result.first is None or (result.first.position or 0) <= 42


def meaning(path: Path) -> Any:
    """All that a file says."""
    log = FileLog(path)
    stored = list(log.read())
    whole = {
        each.position: (detail.codes.tolist(), [s.tolist() for s in detail.scores if s is not None])
        for each in stored
        if (detail := log.detail(each.position)) is not None and detail.codes is not None
    }
    return log.stream, log.head, list(log.batches()), stored, whole


def test_a_log_that_is_not_read_from_a_file(tmp_path: Path) -> None:
    log = LogFile(write(tmp_path / "log", BEFORE))
    try:
        result: Result = verify(log)
    finally:
        log.close()
    assert (result.first, result.is_whole, result.records) == (None, True, 6)
