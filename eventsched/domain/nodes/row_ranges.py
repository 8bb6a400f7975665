"""Rows as text: ``0-41,43-4999``. Records hold many rows in this form."""

import numpy as np

from eventsched.domain.journal import Rows

_ROWS_BY_TEXT: dict[str, Rows] = {}
"""Text → rows, a cache of at most _MOST_TEXTS entries. The question, its answer and the next
question need the same text, and a long one takes time to parse. The rows depend only on the text
and are not writable, so a process-wide cache cannot change a decision."""
_MOST_TEXTS = 64


def ranges(rows: Rows) -> str:
    """Rows (ascending) as text."""
    if not len(rows):
        return ""
    ends = np.flatnonzero(rows[1:] - rows[:-1] != 1)
    firsts = rows[np.concatenate([[0], ends + 1])].tolist()
    lasts = rows[np.concatenate([ends, [len(rows) - 1]])].tolist()
    parts = [
        str(first) if first == last else f"{first}-{last}"
        for first, last in zip(firsts, lasts, strict=True)
    ]
    text = ",".join(parts)
    _remember(text, rows.astype(np.intp))
    return text


def rows_of(text: str) -> Rows:
    """The rows of a text from ``ranges``, read only. Raises ValueError for any other text."""
    known = _ROWS_BY_TEXT.get(text)
    if known is not None:
        return known
    if not text:
        return np.zeros(0, dtype=np.intp)
    parts = [part.partition("-") for part in text.split(",")]
    firsts = np.array([int(first) for first, _, _ in parts], dtype=np.intp)
    lasts = np.array([int(last or first) for first, _, last in parts], dtype=np.intp)
    lengths = lasts - firsts + 1
    ends = np.cumsum(lengths)
    return _remember(text, np.repeat(firsts - ends + lengths, lengths) + np.arange(ends[-1]))


def _remember(text: str, rows: Rows) -> Rows:
    rows.flags.writeable = False
    if len(_ROWS_BY_TEXT) >= _MOST_TEXTS:
        _ROWS_BY_TEXT.clear()
    _ROWS_BY_TEXT[text] = rows
    return rows
