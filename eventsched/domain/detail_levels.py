"""How much of a decision's vectors is stored: all of them, those of the best nodes, or none.

A record and its digest are the same at every level.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from eventsched.domain.errors import InputError

MOST_NODES = 1000
"""The largest K of ``top:K``."""
_TOP = re.compile(r"top:([1-9][0-9]{0,3})")


class DetailLevel(NamedTuple):
    """Of how many nodes verdicts and scores are stored: None for all, 0 for none."""

    nodes: int | None


FULL, SUMMARY = DetailLevel(None), DetailLevel(0)
_BY_NAME = {"full": FULL, "summary": SUMMARY, "digest": SUMMARY}


def parse_level(text: str) -> DetailLevel:
    """The level that a text names: ``full``, ``top:K``, ``summary`` or its former name ``digest``.
    Raises InputError."""
    if (level := _BY_NAME.get(text)) is not None:
        return level
    match = _TOP.fullmatch(text)
    if match is None or int(match[1]) > MOST_NODES:
        remedy = f"use full, summary, or top:K with K from 1 to {MOST_NODES}"
        raise InputError("", f"{text!r} is not a level of detail", remedy)
    return DetailLevel(int(match[1]))


class DetailLevels(NamedTuple):
    """The level of each profile (``profiles``, by schedulerName), and that of all others."""

    default: DetailLevel = FULL
    profiles: Mapping[str, DetailLevel] = MappingProxyType({})

    def of(self, profile: str) -> DetailLevel:
        """A profile's level."""
        return self.profiles.get(profile, self.default)
