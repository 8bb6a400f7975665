"""Bytes of a fuzzer as a series of choices, so that a target can build a structured input."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """Reads bytes from the front. When none are left, every choice is the first one."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_empty(self) -> bool:
        """Whether all bytes were read."""
        return self._at >= len(self._data)

    def take(self, count: int) -> bytes:
        """The next bytes, at most ``count``."""
        taken = self._data[self._at : self._at + count]
        self._at += len(taken)
        return taken

    def rest(self) -> bytes:
        """All bytes that are left."""
        return self.take(len(self._data))

    def below(self, bound: int) -> int:
        """A number from 0 to ``bound`` - 1."""
        width = ((bound - 1).bit_length() + 7) // 8
        return int.from_bytes(self.take(width)) % bound

    def of(self, values: Sequence[T]) -> T:
        """One of some values."""
        return values[self.below(len(values))]

    def text(self, most: int = 24) -> str:
        """Some characters; bytes that are not UTF-8 become U+FFFD."""
        return self.take(self.below(most)).decode(errors="replace")
