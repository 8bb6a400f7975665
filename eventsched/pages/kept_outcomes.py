"""The newest outcomes of forms, kept in memory, so that a page with one has an address: Back, a
reload and a colleague find it there. They are lost when the server stops."""

import zlib
from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from eventsched.pages.api_call import ApiAnswer
from eventsched.pages.page_question import PageQuestion

MOST_BYTES = 16 << 20
"""Bytes of all outcomes together at most, compressed; the oldest are dropped first."""
_NAME_BYTES = 12


class FormOutcome(NamedTuple):
    """What a form with these fields asked, and the answer."""

    question: PageQuestion
    form: Mapping[str, str]
    answer: ApiAnswer


class KeptOutcomes:
    """Outcomes by name. Equal ones have the same name, which says nothing about others."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        """``most_bytes`` is the limit for all of them, compressed."""
        self._most = most_bytes
        self._kept: dict[tuple[str, str], bytes] = {}
        self._size = 0

    def keep(self, stream: str, outcome: FormOutcome) -> str | None:
        """The name of an outcome of a page about a stream; None if it is too large to keep."""
        packed = zlib.compress(msgspec.msgpack.encode(outcome), 1)
        if len(packed) > self._most:
            return None
        name = blake2b(packed, digest_size=_NAME_BYTES).hexdigest()
        self._drop((stream, name))
        self._kept[stream, name] = packed
        self._size += len(packed)
        while self._size > self._most:
            self._drop(next(iter(self._kept)))
        return name

    def find(self, stream: str, name: str) -> FormOutcome | None:
        """The outcome of a name for a page about the same stream; None if it is not kept."""
        packed = self._kept.get((stream, name))
        if packed is None:
            return None
        return msgspec.msgpack.decode(zlib.decompress(packed), type=FormOutcome)

    def _drop(self, key: tuple[str, str]) -> None:
        self._size -= len(self._kept.pop(key, b""))
