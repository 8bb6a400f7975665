"""When state is stored beside the log, and which stored states are of use.

A start applies what came after the newest snapshot. How long that takes follows from the number of
records and from their bytes: a few nodes of 160 kB each weigh as much as thousands of pods.
"""

from eventsched import __version__

FORMAT = 1
"""The form of a snapshot's body, and what the fold made of the records before it. It is raised if
either changes, and not with the version: an upgrade then begins with the snapshot that is there.
What was stored is checked by its digest in any case."""
RECORD_SECONDS = 40e-6
BYTE_SECONDS = 60e-9
"""What applying a record takes, and each byte of it, on the safe side of what was measured: 10 to
30 µs a record, 1 ns (annotations) to 63 ns (terms of affinity) a byte (docs/benchmarks.md)."""
FOLD_SECONDS = 2.0
"""As much is applied at a start at most, by these figures."""
_FIRST = "0.1.0"
"""The version that wrote no format yet."""


def fold_seconds(records: int, size: int) -> float:
    """How long applying so many records of so many bytes together takes, roughly."""
    return records * RECORD_SECONDS + size * BYTE_SECONDS


def label() -> str:
    """What a snapshot of this version says of itself: its format and, for people, who wrote it."""
    return f"{FORMAT}/{__version__}"


def is_readable(version: str) -> bool:
    """Whether a snapshot with this label has the format of this version."""
    number, slash, _ = version.partition("/")
    return number == str(FORMAT) if slash else FORMAT == 1 and version == _FIRST
