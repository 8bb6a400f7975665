"""Plain tables and numbers, as kubectl prints them."""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat, zip_longest
from textwrap import wrap

from eventsched.output.terminal.colours import Paint, Style, plain

MIN_WRAPPED_WIDTH = 16
"""Minimum width of a wrapped column, in characters."""
_GAP = 3
_CONTROLS = {
    number: "\N{REPLACEMENT CHARACTER}"
    for number in (*range(32), *range(127, 160))
    if chr(number) not in "\t\n"
}


def printable(text: str) -> str:
    """Text without characters that would control the terminal: messages in a log come from plugins,
    extenders and the cluster."""
    return text.translate(_CONTROLS)


def width_of_output() -> int:
    """The width of standard output in characters: $COLUMNS, or the terminal's; 0 (no limit) for a
    file or a pipe."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal():
        return int(columns)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return 0


def table(
    header: Sequence[str], rows: Iterable[Sequence[object]], names: Sequence[str] = (),
    width: int = 0, paint: Paint = plain, styles: Sequence[Style | None] = (),
) -> str:  # fmt: skip
    """Columns as wide as their longest cell, three spaces apart, header in capitals; ``names`` are
    further headings, as they are. With a ``width`` the widest columns are wrapped to it. ``styles``
    are those of the rows, None for no style."""
    titles = [*(title.upper() for title in header), *names]
    cells = [titles, *([printable(str(cell)) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(titles))]
    longest = [max(len(word) for row in cells for word in (row[c].split() or [""]))
               for c in range(len(titles))]  # fmt: skip
    _narrow(widths, longest, width)
    texts = ("\n".join(_lines(row, widths)) for row in cells)
    in_order = chain((Style.DIM,), styles, repeat(None))
    return "\n".join(
        text if style is None else paint(text, style)
        for text, style in zip(texts, in_order, strict=False)
    )


def _narrow(widths: list[int], longest: Sequence[int], width: int) -> None:
    """Narrows the widest columns until the row fits, but no column below its longest word."""
    while width and (over := sum(widths) + _GAP * (len(widths) - 1) - width) > 0:
        widest = max(range(len(widths)), key=lambda c: (widths[c] > longest[c], widths[c]))
        room = widths[widest] - max(longest[widest], MIN_WRAPPED_WIDTH)
        if room <= 0:
            return
        others = [w for column, w in enumerate(widths) if column != widest]
        # Down to the next widest at most, so that two long columns share the room.
        step = max(1, widths[widest] - max(others, default=0))
        widths[widest] -= min(over, room, step)


def _lines(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    """A row's lines: cells that are too long are wrapped."""
    cells = [
        wrap(cell, most, break_long_words=False, break_on_hyphens=False)
        if len(cell) > most
        else [cell]
        for cell, most in zip(row, widths, strict=True)
    ]
    for parts in zip_longest(*cells, fillvalue=""):
        gap = " " * _GAP
        yield gap.join(c.ljust(w) for c, w in zip(parts, widths, strict=True)).rstrip()


def filled(text: str, width: int) -> str:
    """A paragraph, wrapped to the width (0: one line)."""
    text = printable(text)
    if not width:
        return text
    return "\n".join(wrap(text, max(width, MIN_WRAPPED_WIDTH), break_long_words=False))


def counted(number: int, noun: str) -> str:
    """``1 pod``, ``2 pods``, ``1 batch``, ``2 batches``."""
    ending = "" if number == 1 else "es" if noun.endswith("ch") else "s"
    return f"{number} {noun}{ending}"


def duration(microseconds: int) -> str:
    """A virtual time: ``12.345s``, ``3m05s``, ``149d08h``."""
    seconds = microseconds / 1_000_000
    if seconds < 60:
        return f"{seconds:.3f}s"
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86_400)
    if hours < 1:
        return f"{minutes}m{int(seconds) % 60:02}s"
    if days < 1:
        return f"{hours}h{minutes % 60:02}m"
    return f"{days}d{hours % 24:02}h"


def size(number: int) -> str:
    """A number of bytes: ``812 B``, ``4.0 KiB``, ``1.2 GiB``."""
    if abs(number) < 1024:
        return f"{number} B"
    scaled = number / 1024
    for unit in ("KiB", "MiB", "GiB"):
        if abs(scaled) < 1000:
            return f"{scaled:.1f} {unit}"
        scaled /= 1024
    return f"{scaled:.1f} TiB"
