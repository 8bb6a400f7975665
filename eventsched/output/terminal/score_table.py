"""The scores of nodes as a table, with bars."""

from collections.abc import Sequence

from eventsched.domain.records.verdicts import MAX_NODE_SCORE
from eventsched.history.decision_vectors import NodeScore
from eventsched.output.terminal.bars import bar
from eventsched.output.terminal.display import PLAIN, Display
from eventsched.output.terminal.tables import table

_SHAPES = ((10, True), (10, False), (5, False), (0, True), (0, False))
"""Characters of a bar, and whether there are raw values: what is best comes first."""


def score_table(compared: Sequence[NodeScore], display: Display) -> str:
    """One row per plugin, one column per node: weight x normalised (raw). Before that a bar, if the
    display has bars. On a narrow one raw values are left out first, and then the bars."""
    shapes = [shape for shape in _SHAPES if (display.bars and display.width) or not shape[0]]
    fitting = (
        (length, has_raw)
        for length, has_raw in shapes
        if not display.width or _width(compared, length, has_raw=has_raw) <= display.width
    )
    length, has_raw = next(fitting, shapes[-1])
    return _score_table(compared, length, display, has_raw=has_raw)


def _width(compared: Sequence[NodeScore], length: int, *, has_raw: bool) -> int:
    text = _score_table(compared, length, PLAIN, has_raw=has_raw)
    return max(map(len, text.splitlines()))


def _score_table(
    compared: Sequence[NodeScore], length: int, display: Display, *, has_raw: bool
) -> str:
    """The scores, with bars of a length (0: none): of a plugin's 100, and of the largest total that
    there could be."""

    def barred(part: float, text: str) -> str:
        return f"{bar(part, length)} {text}" if length else text

    header = ["plugin", *(score.node for score in compared)]
    rows = []
    for parts in zip(*(score.parts for score in compared), strict=True):
        cells = [
            barred(
                part.normalized / MAX_NODE_SCORE,
                f"{part.weighted} = {part.weight} x {part.normalized}"
                + (f" (raw {part.raw})" if has_raw and part.raw != part.normalized else ""),
            )
            for part in parts
        ]
        rows.append((parts[0].plugin, *cells))
    most = MAX_NODE_SCORE * sum(part.weight for part in compared[0].parts) or 1
    rows.append(("total", *(barred(score.total / most, str(score.total)) for score in compared)))
    indent = " " * (length + 1) if length else ""
    rows.append(("rank", *(f"{indent}{score.rank}" for score in compared)))
    return table(header[:1], rows, header[1:], paint=display.paint)
