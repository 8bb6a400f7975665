"""Exports with changes that verification of a file once did not notice, or could not read."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from eventsched.domain import records
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.eventlog.port import StoredSnapshot
from eventsched.eventlog.postgres.stored_batch import decode_records
from eventsched.history.verify.verification import verify_file
from eventsched.history.verify.verified_log import NoLogError
from eventsched.runtime.leader.followed_stream import StreamState
from eventsched.runtime.snapshot_policy import label
from tests.builders import engine_of
from tests.databases import ROOT

EXPORT = ROOT / "tests/fuzz/documents/exported_logs/01-three-epochs.jsonl"
NESTED = "[" * 3_000 + "]" * 3_000


def written(path: Path, *lines: Any) -> Path:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def test_an_epoch_may_not_begin_inside_a_batch(tmp_path: Path) -> None:
    header, *batches = map(json.loads, EXPORT.read_text().splitlines())
    assert verify_file(written(tmp_path / "log", header, *batches)).problems == []
    header["epochs"][1][2] -= 1
    first = verify_file(written(tmp_path / "log", header, *batches)).first
    assert first is not None
    assert first.text == (
        "epoch 2 begins inside the batch that ends at 9, expected the end of a batch"
    )


def test_the_last_epoch_may_not_begin_inside_the_last_batch(tmp_path: Path) -> None:
    header, *batches = map(json.loads, EXPORT.read_text().splitlines())
    header["epochs"].append([4, "ef" * 16, header["head"][0]])
    assert verify_file(written(tmp_path / "log", header, *batches)).problems == []
    header["epochs"][3][2] -= 1
    first = verify_file(written(tmp_path / "log", header, *batches)).first
    assert first is not None
    assert first.text.startswith("epoch 4 begins inside the batch that ends at")


@pytest.mark.parametrize("change", ["token", "head", "hash", "detail"])
def test_bytes_are_written_in_one_form(change: str, tmp_path: Path) -> None:
    header, *batches = map(json.loads, EXPORT.read_text().splitlines())
    if change == "token":
        header["epochs"][1][1] = header["epochs"][1][1].upper()
    elif change == "head":
        header["head"][1] = header["head"][1].upper()
    elif change == "hash":
        batches[0]["batch"][5] = batches[0]["batch"][5].upper()
    else:
        detail = next(
            detail for batch in batches for detail in batch["details"] if "=" in detail[2]
        )
        at = detail[2].index("=") - 1
        detail[2] = detail[2][:at] + chr(ord(detail[2][at]) + 1) + detail[2][at + 1 :]
    path = written(tmp_path / "log", header, *batches)
    # The header is compared as it is written, without blanks.
    path.write_text(path.read_text().replace(": ", ":").replace(", ", ","))
    assert verify_file(path).problems


def test_lines_that_are_nested_too_deeply(tmp_path: Path) -> None:
    header = EXPORT.read_text().partition("\n")[0]
    path = tmp_path / "log"
    path.write_text(f'{{"format":1,"stream":{NESTED}}}\n')
    assert verify_file(path).problems
    path.write_text(f"{NESTED}\n")
    with pytest.raises(NoLogError):
        verify_file(path)
    path.write_text(f'{header}\n{{"batch":{NESTED}}}\n')
    first = verify_file(path).first
    assert first is not None
    assert "RecursionError" in first.text


def test_records_that_are_nested_too_deeply_are_damaged() -> None:
    body = f'{{"kind":"PodDecided","x":{NESTED}}}'
    with pytest.raises(msgspec.DecodeError):
        records.decode(body.encode())
    with pytest.raises(CorruptLogError):
        decode_records(0, f"[[0,0,1,{body}]]")


@pytest.mark.parametrize(
    ("field", "value"),
    [("nodes", [["a", None], ["a", None]]), ("scorings", NESTED)],
)
def test_a_snapshot_that_does_not_fit_together_is_not_used(field: str, value: Any) -> None:
    stream_state = StreamState(engine_of(), "s")
    snapshot = stream_state.snapshot(stream_state.head, ()).finish()
    body = msgspec.json.decode(snapshot.body)
    body["engine"][field] = msgspec.Raw(value.encode()) if value is NESTED else value
    changed = StoredSnapshot(0, b"", snapshot.digest, label(), msgspec.json.encode(body))
    assert StreamState(engine_of(), "s").restore(snapshot)
    assert not StreamState(engine_of(), "s").restore(changed)
