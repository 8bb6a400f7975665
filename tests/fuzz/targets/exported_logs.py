"""Exported logs, as ``verify --file`` and ``replay`` read them."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from eventsched.domain.errors import InputError
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.history.export_reader import FileLog
from eventsched.history.verify.verification import verify_file
from eventsched.history.verify.verified_file import LogFile
from eventsched.history.verify.verified_log import NoLogError
from tests.fuzz.choices import Choices
from tests.fuzz.documents import FOLDER
from tests.fuzz.targets import is_choices

_MOST_CHANGES = 3
_DETAIL = re.compile(rb'\[\d+,(?:\d+|null),"[A-Za-z0-9+/=]*"\]')
"""A detail in a line of an export: its position, its base, and its bytes in base64."""


def fuzz_one(data: bytes) -> None:
    """A file is verified or refused. If one byte of a valid export was replaced, verification finds
    a problem, unless the byte belongs to the form of a vector whose digest is still right: the
    format has several forms of one vector. A file without problems says the same as the valid
    export."""
    original = b""
    same_length = True
    if is_choices(data):
        choices = Choices(data[1:])
        original = choices.of(_exports())
        data, same_length = _changed(original, choices)
    with _file(data) as path:
        is_right = _verified(path)
        _read(path)
        if not is_right or not original or data == original:
            return
        with _file(original) as valid:
            assert _content(path) == _content(valid)
        assert not same_length or _only_vectors_differ(original, data), _difference(original, data)


@lru_cache(maxsize=1)
def _exports() -> list[bytes]:
    return [path.read_bytes() for path in sorted((FOLDER / "exported_logs").iterdir())]


def _changed(original: bytes, choices: Choices) -> tuple[bytes, bool]:
    """A changed export, and whether only bytes were replaced."""
    data = bytearray(original)
    if choices.below(2):
        for _ in range(1 + choices.below(_MOST_CHANGES)):
            data[choices.below(len(data))] = choices.below(256)
        return bytes(data), True
    lines = original.splitlines(keepends=True)
    number = choices.below(len(lines))
    at = choices.below(len(lines[number]))
    match choices.below(5):
        case 0:
            del lines[number]
        case 1:
            lines.insert(number, choices.of(lines))
        case 2:
            lines[number] = lines[number][:at] + choices.take(12) + lines[number][at:]
        case 3:
            cut = at + 1 + choices.below(12)
            lines[number] = lines[number][:at] + choices.take(12) + lines[number][cut:]
        case _:
            lines[number] = lines[number][:at] + b"[" * 5_000 + lines[number][at:]
    return b"".join(lines), False


@contextmanager
def _file(data: bytes) -> Iterator[Path]:
    """A file in memory."""
    handle = os.memfd_create("export")
    try:
        os.write(handle, data)
        yield Path(f"/proc/self/fd/{handle}")
    finally:
        os.close(handle)


def _verified(path: Path) -> bool:
    try:
        result = verify_file(path)
    except NoLogError:
        return False
    for problem in result.problems:
        problem.text.encode(errors="backslashreplace")
    return not result.problems


def _read(path: Path) -> None:
    """As ``replay`` reads it."""
    try:
        log = FileLog(path)
        for stored in log.read():
            log.detail(stored.position)
    except (InputError, CorruptLogError) as error:
        str(error).encode(errors="backslashreplace")


def _content(path: Path) -> list[Any]:
    log = LogFile(path)
    try:
        lines = [(batch, [each.seq for each in details]) for batch, details in log.lines()]
        return [log.stream, log.epochs, log.head, *lines]
    finally:
        log.close()


def _only_vectors_differ(original: bytes, data: bytes) -> bool:
    """Whether only the bytes of details differ."""
    return _DETAIL.sub(b"", data) == _DETAIL.sub(b"", original)


def _difference(original: bytes, data: bytes) -> list[tuple[int, int, int]]:
    pairs = enumerate(zip(original, data, strict=True))
    return [(at, old, new) for at, (old, new) in pairs if old != new]
