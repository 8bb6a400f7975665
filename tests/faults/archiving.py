"""An archive in memory that the product's archiver writes to (eventlog/archive/archiver.py). It may
be killed between any two of its steps."""

from collections.abc import Callable
from contextlib import ExitStack
from datetime import date, timedelta
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any
from unittest.mock import patch

from eventsched import __version__
from eventsched.eventlog.archive import archive_folder, archive_notes, archiver
from eventsched.eventlog.archive.archive_manifest import BATCHES, CONTENTS, FORMAT, Manifest
from eventsched.eventlog.archive.archived_batches import chained_hash
from eventsched.eventlog.chain import Head
from eventsched.eventlog.postgres.stored_batch import StoredBatch

from .cluster import STREAM
from .invariants import ensure

FOLDER = PurePosixPath("/archive")
DAY_ZERO = date(2000, 1, 1)


class ArchiveFolder:
    """The files of an archive by (day, content). ``at_step`` is called before each step."""

    def __init__(self, at_step: Callable[[], None], begin: int, day_length: int) -> None:
        """``begin`` is the time (µs) of DAY_ZERO; a day takes ``day_length`` µs."""
        self.at_step = at_step
        self._begin, self._day_length = begin, day_length
        self.batches: dict[str, list[StoredBatch]] = {}
        """The batches of each day, once their file has its name."""
        self._manifests: dict[str, Manifest] = {}
        self._files: dict[tuple[str, str], str] = {}

    def day_of(self, at: int) -> date:
        """The day of a time (µs)."""
        return DAY_ZERO + timedelta(days=(at - self._begin) // self._day_length)

    def manifests(self, folder: object = FOLDER, stream: str = STREAM) -> list[Manifest]:
        """See archive_folder.manifests."""
        found: list[Manifest] = []
        for day in sorted(self._manifests):
            last = found[-1] if found else None
            archive_folder._require_order(Path(day), self._manifests[day], last)
            found.append(self._manifests[day])
        return found

    def verify_day(self, folder: object, manifest: Manifest) -> None:
        """See archive_folder.verify_day: all files of a day are there, and its chain holds."""
        for content in CONTENTS:
            there = (manifest.day, content) in self._files
            ensure(there, f"the archive has no {content} of {manifest.day}")
        end = Head(manifest.first, bytes.fromhex(manifest.before))
        tokens = {number: bytes.fromhex(token) for number, token, _ in manifest.epochs}
        for batch in self.batches[manifest.day]:
            if batch.epoch in tokens:
                made = chained_hash(batch, STREAM, tokens[batch.epoch], end.hash)
                ensure(made == batch.hash, f"the archive's batch at {batch.first} was changed")
            ensure(batch.first == end.next, f"the archive lacks {end.next}, or has it twice")
            end = Head(batch.first + batch.count, batch.hash)
        ensure(end.next == manifest.next, f"the archive lacks {end.next}")

    def digest_of(self, path: PurePosixPath) -> str:
        """The digest of a file. Raises KeyError if it is not there."""
        day, content, _ = path.name.rsplit(".", 2)
        return self._files[day, content]

    def publish(self, content: str, manifest: Manifest, batches: list[StoredBatch]) -> None:
        """Gives a file its name."""
        self._files[manifest.day, content] = digest(manifest.day, content, batches)
        if content == BATCHES:
            self._manifests[manifest.day] = manifest
            self.batches[manifest.day] = batches

    def remove_last_day(self) -> None:
        """An operator removes the files of the last day, because they are of lost history."""
        day = max(self._manifests)
        del self._manifests[day], self.batches[day]
        self._files = {file: digest for file, digest in self._files.items() if file[0] != day}

    @property
    def stored(self) -> list[StoredBatch]:
        """All batches."""
        return [batch for day in sorted(self.batches) for batch in self.batches[day]]

    def in_place(self, day_writer: "type[MemoryDayWriter]") -> ExitStack:
        """Has the product's archiver write here, with this kind of DayWriter."""
        stack = ExitStack()
        for name in ("manifests", "verify_day", "day_of"):
            stack.enter_context(patch.object(archiver, name, getattr(self, name)))

        def writer(reader: Any, folder: object, day: date, begin: Head) -> MemoryDayWriter:
            return day_writer(self, day, begin)

        stack.enter_context(patch.object(archiver, "DayWriter", writer))
        stack.enter_context(patch.object(archive_notes, "digest_of", self.digest_of))
        return stack


class MemoryDayWriter:
    """The files of a day while they are written; see DayWriter."""

    contents: tuple[str, ...] = CONTENTS
    """The order in which files get their names."""

    def __init__(self, folder: ArchiveFolder, day: date, begin: Head) -> None:
        self.day = day
        self._folder, self._begin, self._head = folder, begin, begin
        self._batches: list[StoredBatch] = []

    def add(self, batch: StoredBatch, token: bytes) -> Head:
        """See DayWriter."""
        self._folder.at_step()
        self._batches.append(batch)
        self._head = Head(batch.first + batch.count, batch.hash)
        return self._head

    def finish(self, epochs: list[tuple[int, bytes, int]]) -> Manifest:
        """See DayWriter."""
        begin, end = self._begin, self._head
        day, batches = self.day.isoformat(), self._batches
        manifest = Manifest(
            format=FORMAT, content=BATCHES, stream=STREAM, day=day,
            first=begin.next, next=end.next, before=begin.hash.hex(), after=end.hash.hex(),
            version=__version__, epochs=[(n, token.hex(), at) for n, token, at in epochs],
            digests={name: digest(day, name, batches) for name in CONTENTS if name != BATCHES},
        )  # fmt: skip
        for content in self.contents:
            self._folder.at_step()
            self._folder.publish(content, manifest, batches)
        return manifest

    def discard(self) -> None:
        """See DayWriter."""


def digest(day: str, content: str, batches: list[StoredBatch]) -> str:
    """The digest of a file with these batches."""
    hashes = b"".join(batch.hash for batch in batches)
    return sha256(f"{day} {content} ".encode() + hashes).hexdigest()
