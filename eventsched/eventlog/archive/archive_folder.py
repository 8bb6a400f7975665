"""The folder of an archive: which positions of which streams its files hold."""

from pathlib import Path
from typing import NamedTuple

from eventsched.domain.errors import InputError
from eventsched.eventlog.archive.archive_manifest import (
    BATCHES,
    CONTENTS,
    RESTORE,
    Manifest,
    day_file,
    stream_folder,
    stream_of,
)
from eventsched.eventlog.archive.archived_batches import read_batches
from eventsched.eventlog.archive.parquet import digest_of, read_manifest
from eventsched.eventlog.chain import genesis


class HeldRange(NamedTuple):
    """The records of a day that an archive holds: those from position ``first`` to before ``next``.
    ``hash_before`` and ``hash_after`` are those of the batches that end at these positions."""

    day: str
    first: int
    next: int
    hash_before: bytes
    hash_after: bytes


def held(folder: Path, stream: str) -> list[HeldRange]:
    """The ranges of positions that an archive holds of a stream, in order; each begins where the
    one before ends. None if the archive has nothing of the stream.

    Reads the manifests, and checks that they fit each other and that every file is there; the rows
    are not read (``verify_day`` does that). Raises InputError if files are missing in the middle,
    or are those of another stream or log."""
    return [
        HeldRange(
            manifest.day, manifest.first, manifest.next,
            bytes.fromhex(manifest.before), bytes.fromhex(manifest.after),
        )
        for manifest in manifests(folder, stream)
    ]  # fmt: skip


def manifests(folder: Path, stream: str) -> list[Manifest]:
    """The manifests of the files of batches, in order of position; see ``held``."""
    own = stream_folder(folder, stream)
    found: list[Manifest] = []
    for path in sorted(own.glob(f"[0-9]*.{BATCHES}.parquet")):
        manifest = _checked(path, stream, BATCHES)
        _require_order(path, manifest, found[-1] if found else None)
        for content in CONTENTS:
            if content != BATCHES:
                _require_same_range(day_file(own, manifest.day, content), manifest, content)
        found.append(manifest)
    return found


def _checked(path: Path, stream: str, content: str) -> Manifest:
    """A file's manifest, if it is what the file's name says."""
    manifest = read_manifest(path)
    if manifest.stream != stream:
        problem = f"is of stream {manifest.stream}, not {stream}"
        raise InputError(str(path), problem, "move it to the archive of that stream")
    if path.name != day_file(path.parent, manifest.day, manifest.content).name:
        problem = f"is the file {manifest.day}.{manifest.content}.parquet under another name"
        raise InputError(str(path), problem, RESTORE)
    if manifest.content != content or not manifest.first < manifest.next:
        raise InputError(str(path), "has an altered manifest", RESTORE)
    return manifest


def _require_order(path: Path, manifest: Manifest, last: Manifest | None) -> None:
    if last is None:
        if manifest.first == 0 and manifest.before != genesis(manifest.stream).hex():
            raise InputError(str(path), "does not begin its stream: it was altered", RESTORE)
        return
    if manifest.first > last.next:
        problem = (
            f"begins at position {manifest.first}, and {last.day} ends at {last.next}: files of "
            "the days between are missing"
        )
        raise InputError(str(path), problem, "restore them from a copy")
    if (manifest.first, manifest.before) != (last.next, last.after):
        problem = f"does not continue the file of {last.day}: one of them is of another log"
        raise InputError(
            str(path), problem, "keep the files of different logs in different folders"
        )


def _require_same_range(path: Path, batches: Manifest, content: str) -> None:
    """Requires that the other file of a day belongs to its file of batches."""
    manifest = _checked(path, batches.stream, content)
    ends = (manifest.first, manifest.next, manifest.before, manifest.after)
    if ends != (batches.first, batches.next, batches.before, batches.after):
        raise InputError(str(path), f"does not belong to the {BATCHES} of its day", RESTORE)


def verify_day(folder: Path, manifest: Manifest) -> None:
    """Requires that the files of a day are what was written: recomputes the chain of the batches,
    and compares the SHA-256 of the other files. Raises InputError."""
    own = stream_folder(folder, manifest.stream)
    for _ in read_batches(day_file(own, manifest.day, BATCHES), manifest):
        pass
    verify_digests(folder, manifest)


def verify_digests(folder: Path, manifest: Manifest) -> None:
    """Requires that the files of a day beside its batches have the SHA-256 that the manifest of the
    batches names. Raises InputError."""
    own = stream_folder(folder, manifest.stream)
    for content, digest in manifest.digests.items():
        path = day_file(own, manifest.day, content)
        try:
            is_same = digest_of(path) == digest
        except OSError as problem:
            reason = f"cannot be read: {problem.strerror or problem}"
            raise InputError(str(path), reason, RESTORE) from problem
        if not is_same:
            raise InputError(str(path), "was altered: its SHA-256 is another one", RESTORE)


def archived_streams(folder: Path) -> list[str]:
    """The streams of an archive. Raises InputError if the folder cannot be read."""
    try:
        folders = sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError as problem:
        reason = f"cannot be read: {problem.strerror or problem}"
        raise InputError(str(folder), reason, "name the folder of an archive") from problem
    return [stream_of(path) for path in folders if any(path.glob(f"*.{BATCHES}.parquet"))]


def choose_archived(folder: Path, stream: str | None) -> str:
    """The named stream of an archive, or its only one. Raises InputError."""
    streams = archived_streams(folder)
    there = f"there are: {', '.join(streams) or 'none'}"
    if stream is not None:
        if stream not in streams:
            raise InputError("--stream", f"the archive {folder} has no stream {stream}", there)
        return stream
    if not streams:
        raise InputError(str(folder), "holds no archive", "name the folder of `db archive --to`")
    if len(streams) > 1:
        raise InputError("--stream", f"the archive holds {len(streams)} streams", there)
    return streams[0]
