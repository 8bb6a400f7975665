"""Plain tables and numbers, as kubectl prints them."""

from collections.abc import Iterable, Sequence


def table(
    header: Sequence[str], rows: Iterable[Sequence[object]], names: Sequence[str] = ()
) -> str:
    """Columns as wide as their longest cell, three spaces apart, header in capitals; ``names`` are
    further headings, as they are."""
    titles = [*(title.upper() for title in header), *names]
    cells = [titles, *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(titles))]
    lines = ("   ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(line.rstrip() for line in lines)


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
