"""What the place that shows an answer can show: a terminal, a file, or the far end of the API."""

import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from eventsched.output.terminal.colours import Paint, Style, painted, plain, uses_colours
from eventsched.output.terminal.tables import filled, table, width_of_output


class Display(NamedTuple):
    """What an answer may look like. ``width``: characters of a line, 0 for no limit. ``bars``:
    whether numbers have bars, if they fit. ``paint`` gives text its colours, or leaves it as it
    is. The default is that of a file."""

    width: int = 0
    bars: bool = False
    paint: Paint = plain

    def line(self, text: str, style: Style | None = None) -> str:
        """A paragraph, wrapped to the width."""
        wrapped = filled(text, self.width)
        return wrapped if style is None else self.paint(wrapped, style)

    def fits(self, header: Sequence[str], rows: Iterable[Sequence[object]]) -> bool:
        """Whether a table can be wrapped to the width."""
        text = table(header, rows, width=self.width)
        return not self.width or max(map(len, text.splitlines())) <= self.width

    def table(
        self,
        header: Sequence[str],
        rows: Iterable[Sequence[object]],
        styles: Sequence[Style | None] = (),
    ) -> str:
        """A table (``tables.table``), wrapped to the width."""
        return table(header, rows, width=self.width, paint=self.paint, styles=styles)


PLAIN = Display()


def display_of_output() -> Display:
    """What standard output shows: bars and colours are for terminals (``uses_colours`` has the
    exceptions)."""
    is_terminal = sys.stdout.isatty()
    paint = painted if uses_colours(is_terminal=is_terminal) else plain
    return Display(width_of_output(), is_terminal, paint)
