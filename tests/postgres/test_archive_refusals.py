"""Archives that ``eventsched db archive`` does not continue, and files that are not read."""

import gc
import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventsched.domain.errors import InputError, InUseError
from eventsched.eventlog.archive.archive_folder import held, manifests, verify_day
from eventsched.eventlog.archive.archive_log import ArchiveLog
from eventsched.eventlog.archive.archive_manifest import (
    BATCHES,
    DECISIONS,
    DETAILS,
    KEY,
    Manifest,
    day_file,
)
from eventsched.eventlog.archive.archiver import archive
from eventsched.eventlog.archive.parquet import PartFile
from eventsched.eventlog.postgres.reader import Reader
from tests.databases import Server, migrate
from tests.postgres.archives import (
    DAYS,
    FIRST_DAY,
    LATER,
    OWN,
    STREAM,
    archived,
    contents,
    spread,
    step,
    write,
)
from tests.postgres.histories import TIGHT, simulated


def refusal(address: str, folder: Path) -> str:
    """How archiving further is refused, without the folder; nothing is written."""
    before = contents(folder)
    with pytest.raises(InputError) as refused:
        archived(address, STREAM, folder)
    assert contents(folder) == before
    return str(refused.value).replace(f"{folder}/", "")


def test_a_folder_that_cannot_be_written(four_days: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError) as refused:
        archived(four_days, STREAM, tmp_path / "file")
    assert str(refused.value) == (
        f"{tmp_path}/file/{OWN}: cannot be written: Not a directory; "
        "name a folder that this user may write and that has room"
    )


def test_a_disk_that_fills_up(
    four_days: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The days before are kept, nothing of the day is left, and the next run goes on with it."""
    finish, files = PartFile.finish, iter(range(100))

    def finished(file: PartFile, manifest: Manifest) -> None:
        if next(files) == 7:
            raise OSError(28, "No space left on device")
        finish(file, manifest)

    monkeypatch.setattr(PartFile, "finish", finished)
    with pytest.raises(InputError) as refused:
        archived(four_days, STREAM, tmp_path)
    assert str(refused.value) == (
        f"{tmp_path}/{OWN}: cannot be written: No space left on device; "
        "name a folder that this user may write and that has room"
    )
    gc.collect()  # what was discarded is not written to
    assert {path.name[:10] for path in (tmp_path / OWN).iterdir()} == set(DAYS[:2])
    assert [each.day for each in archived(four_days, STREAM, tmp_path)] == DAYS[2:]
    for each in manifests(tmp_path, STREAM):
        verify_day(tmp_path, each)


def test_a_missing_day(four_days: str, own_archive: Path) -> None:
    for content in (BATCHES, DETAILS, DECISIONS):
        day_file(own_archive / OWN, DAYS[1], content).unlink()
    assert refusal(four_days, own_archive).endswith(
        "files of the days between are missing; restore them from a copy"
    )


@pytest.mark.parametrize("content", [DETAILS, DECISIONS])
def test_a_missing_file_of_a_day(four_days: str, own_archive: Path, content: str) -> None:
    day_file(own_archive / OWN, DAYS[1], content).unlink()
    assert refusal(four_days, own_archive) == (
        f"{OWN}/{DAYS[1]}.{content}.parquet: is missing; "
        "restore the file from a copy, or archive into an empty folder"
    )


def changed(path: Path, at: int) -> None:
    """Changes a byte of a file."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("content", [BATCHES, DETAILS, DECISIONS])
def test_an_altered_file_of_the_last_day(four_days: str, own_archive: Path, content: str) -> None:
    changed(day_file(own_archive / OWN, DAYS[-1], content), 300)
    told = refusal(four_days, own_archive)
    assert told.startswith(f"{OWN}/{DAYS[-1]}.{content}.parquet: ")
    assert "altered" in told or "damaged" in told
    assert told.endswith("restore the file from a copy, or archive into an empty folder")


def rewritten(path: Path, column: str, value: Any) -> None:
    """Writes a file again with another value in the third row, and its manifest."""
    table = pq.read_table(path).replace_schema_metadata({KEY: pq.read_metadata(path).metadata[KEY]})
    values = table.column(column).to_pylist()
    values[2] = value
    index = table.schema.get_field_index(column)
    array = pa.array(values, type=table.schema.field(column).type)
    pq.write_table(table.set_column(index, column, array), path)


@pytest.mark.parametrize(
    ("column", "value"), [("body", "[]"), ("mark", "1"), ("epoch", 9), ("token", bytes(16))]
)
def test_an_altered_batch(own_archive: Path, column: str, value: Any) -> None:
    path = day_file(own_archive / OWN, DAYS[1], BATCHES)
    rewritten(path, column, value)
    with pytest.raises(InputError, match="was altered: the batch at position"):
        verify_day(own_archive, manifests(own_archive, STREAM)[1])


def test_another_streams_file(four_days: str, own_archive: Path, tmp_path: Path) -> None:
    spread(four_days, TIGHT, "other")
    archived(four_days, "other", tmp_path / "other")
    for path in (tmp_path / "other/other").glob(f"{DAYS[2]}*"):
        shutil.copy(path, own_archive / OWN)
    assert refusal(four_days, own_archive) == (
        f"{OWN}/{DAYS[2]}.batches.parquet: is of stream other, not {STREAM}; "
        "move it to the archive of that stream"
    )


@pytest.mark.parametrize("days", [DAYS[2:3], DAYS])
def test_another_logs_files(
    four_days: str, own_archive: Path, one_server: Server, tmp_path: Path, days: list[str]
) -> None:
    """Of a stream of the same name: some of its days, or all of them."""
    with one_server.fresh(migrate) as other:
        simulated(other)
        spread(other, TIGHT, STREAM)
        archived(other, STREAM, tmp_path / "other")
    for day in days:
        for path in (tmp_path / "other" / OWN).glob(f"{day}*"):
            shutil.copy(path, own_archive / OWN)
    told = refusal(four_days, own_archive)
    assert ("they are different logs" in told) == (days == DAYS)
    assert ("one of them is of another log" in told) == (days != DAYS)


def test_a_database_that_is_behind(own_archive: Path, database: str) -> None:
    """It has another log, or an old backup was restored."""
    write(database, STREAM, FIRST_DAY, [step(0)], {})
    assert "but stream four/days of " in (told := refusal(database, own_archive))
    assert "ends at 1: it is another log, or has lost its end; name the database of this" in told


def test_files_that_are_no_archive(four_days: str, own_archive: Path) -> None:
    path = day_file(own_archive / OWN, "2024-03-02", BATCHES)
    path.write_bytes(b"PAR1")
    assert "2024-03-02.batches.parquet: is damaged (" in refusal(four_days, own_archive)
    pq.write_table(pa.table({"first": [1]}), path)
    assert refusal(four_days, own_archive) == (
        f"{OWN}/2024-03-02.batches.parquet: is not a file of an archive; remove it from the folder"
    )
    table = pq.read_table(day_file(own_archive / OWN, DAYS[-1], BATCHES))
    pq.write_table(table.replace_schema_metadata({KEY: b'{"format":2}'}), path)
    assert refusal(four_days, own_archive) == (
        f"{OWN}/2024-03-02.batches.parquet: has format 2, and this version reads format 1; "
        "read it with the version that wrote it"
    )


def test_another_process_archives(four_days: str, tmp_path: Path) -> None:
    with closing(Reader(four_days, STREAM, keeps_connection=True)) as reader:
        running = archive(reader, tmp_path, LATER, LATER)
        next(running)
        with pytest.raises(InUseError, match="another process archives into it"):
            archived(four_days, STREAM, tmp_path)
        assert [each.day for each in running] == DAYS[1:]


@pytest.mark.parametrize(
    ("field", "value"), [("day", "yesterday"), ("before", "xyz"), ("after", "00"), ("next", 0)]
)
def test_an_altered_manifest(own_archive: Path, field: str, value: Any) -> None:
    path = day_file(own_archive / OWN, DAYS[1], BATCHES)
    fields = {**json.loads(pq.read_metadata(path).metadata[KEY]), field: value}
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({KEY: json.dumps(fields)}), path)
    with pytest.raises(InputError, match="has an altered manifest"):
        held(own_archive, STREAM)


def test_a_file_without_statistics(own_archive: Path) -> None:
    """Which say where to look for a position."""
    path = day_file(own_archive / OWN, DAYS[1], BATCHES)
    metadata = {KEY: pq.read_metadata(path).metadata[KEY]}
    table = pq.read_table(path).replace_schema_metadata(metadata)
    pq.write_table(table, path, write_statistics=False)
    with pytest.raises(InputError, match="is damaged"):
        list(ArchiveLog(own_archive).read())
