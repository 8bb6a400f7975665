"""Reads the file format of docs/log-format.md, for verification and for replay from a file."""

import gzip
import json
import shutil
import tempfile
import zlib
from array import array
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from eventsched.history.verify.verified_log import (
    BatchRow,
    DamagedError,
    Epoch,
    HeadRow,
    NoLogError,
    Packed,
)

FORMAT = 1
_MISSHAPEN = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What reading a line of a wrong shape raises."""


class LogFile:
    """An exported file. A compressed one is unpacked into a temporary file, so that any line can be
    read again."""

    def __init__(self, path: Path) -> None:
        """Raises OSError if the file cannot be read, DamagedError if its first line is damaged, and
        NoLogError if it is not an exported log."""
        self._path = path
        self._damage = ""
        self._file = self._opened()
        try:
            self._stream, self.epochs, self.head = self._header()
        except BaseException:
            self.close()
            raise
        self._begin = self._file.tell()
        self._unread_details: list[Packed] = []
        self._firsts, self._offsets = array("q"), array("q")

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self._stream

    @property
    def tables(self) -> None:
        """None: a file has no derived rows."""
        return

    @property
    def start(self) -> None:
        """None: an export is whole."""
        return

    def hash_at(self, position: int) -> bytes | None:
        """None: not known."""
        del position
        return None

    def batches(self) -> Iterator[BatchRow]:
        """The batches in order of the lines. Raises DamagedError."""
        for batch, details in self.lines():
            self._unread_details += details
            yield batch

    def lines(self, first: int = 0) -> Iterator[tuple[BatchRow, list[Packed]]]:
        """The batch that holds position ``first`` and all later ones, with their details; earlier
        ones too if the file has not been read so far. Raises DamagedError."""
        index = bisect_right(self._firsts, first) - 1
        offset, number = (self._begin, 2) if index < 0 else (self._offsets[index], index + 2)
        while True:
            self._file.seek(offset)
            line = self._file.readline()
            if not line.endswith(b"\n"):
                break
            batch, details = self._parsed(line, f"line {number}")
            if not self._firsts or batch.first > self._firsts[-1]:
                self._firsts.append(batch.first)
                self._offsets.append(offset)
            offset += len(line)
            number += 1
            yield batch, details
        if line or self._damage:
            raise DamagedError(f"line {number}", self._damage or "it does not end")

    def details(self, end: int) -> list[Packed]:
        """See Log."""
        details, self._unread_details = self._unread_details, []
        return details

    def detail(self, seq: int) -> Packed | None:
        """See Log."""
        index = bisect_right(self._firsts, seq) - 1
        if index < 0:
            return None
        self._file.seek(self._offsets[index])
        _, details = self._parsed(self._file.readline(), "a line")
        return next((detail for detail in details if detail.seq == seq), None)

    @property
    def details_at_first(self) -> int:
        """See Log."""
        return 0

    def details_now(self) -> int:
        """See Log."""
        return 0

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _opened(self) -> IO[bytes]:
        if self._path.suffix != ".gz":
            return self._path.open("rb")
        unpacked = tempfile.TemporaryFile()  # noqa: SIM115  closed by close()
        try:
            with gzip.open(self._path) as packed:
                shutil.copyfileobj(packed, unpacked, 1 << 20)
        except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
            self._damage = f"the file is damaged ({problem})"
        except BaseException:
            unpacked.close()
            raise
        unpacked.seek(0)
        return unpacked

    def _header(self) -> tuple[str, list[Epoch], HeadRow]:
        line = self._file.readline()
        try:
            header = json.loads(line)
            if header["format"] != FORMAT:
                raise NoLogError("line 1", f"format {header['format']!r}, not {FORMAT}")
            epochs = [
                Epoch(_integer(epoch), _of_hex(token), _integer(first))
                for epoch, token, first in header["epochs"]
            ]
            following, digest = header["head"]
            head = HeadRow(_integer(following), _of_hex(digest))
            return str(header["stream"]), epochs, head
        except _MISSHAPEN as problem:
            if self._damage:
                raise DamagedError("line 1", self._damage) from problem
            error = DamagedError if line.startswith(b'{"format":') else NoLogError
            raise error("line 1", "not the beginning of an exported log") from problem

    def _parsed(self, line: bytes, where: str) -> tuple[BatchRow, list[Packed]]:
        try:
            parsed = json.loads(line)
            first, count, epoch, written_at, mark, digest, body = parsed["batch"]
            numbers = [_integer(number) for number in (first, count, epoch, written_at)]
            details = [
                Packed(_integer(seq), base if base is None else _integer(base), _of_base64(packed))
                for seq, base, packed in parsed["details"]
            ]  # fmt: skip
            batch = BatchRow(*numbers, mark.encode(), _of_hex(digest), body.encode())  # type: ignore[call-arg,arg-type]
        except _MISSHAPEN as problem:
            raise DamagedError(where, f"not of the file form ({problem!r})") from problem
        return batch, details


def _of_hex(text: str) -> bytes:
    """The bytes of hex digits as an export has them: ``fromhex`` also takes capitals and blanks."""
    decoded = bytes.fromhex(text)
    if decoded.hex() != text:
        raise ValueError("hex digits are written in another form")
    return decoded


def _of_base64(text: str) -> bytes:
    """The bytes of Base64 as an export has it: decoding ignores the last bits."""
    decoded = b64decode(text, validate=True)
    if b64encode(decoded).decode() != text:
        raise ValueError("Base64 is written in another form")
    return decoded


def _integer(value: object) -> int:
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise ValueError(f"{value!r} is not an integer of 64 bits")
    return value
