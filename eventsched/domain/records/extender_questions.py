"""The questions to extenders during an attempt, and their answers (ADR 13).

Attempts are made one after the other, so at most one of them has questions. Nodes are named by
their rows, which no other node gets before the answer; many rows are written as ranges:
``0-41,43-4999``.

Upstream: k8s.io/kube-scheduler/extender/v1 types.go.
"""

from typing import Any

import numpy as np

from eventsched.domain.journal import Rows
from eventsched.domain.objects import Frozen
from eventsched.domain.records.stimuli import Event, Stimulus

FILTER, PRIORITIZE, PREEMPT, BIND = "filter", "prioritize", "preempt", "bind"


class Victims(Frozen, frozen=True):
    """The pods that would have to leave a node (uids, the most important first), and how many of
    these evictions violate a disruption budget."""

    uids: tuple[str, ...]
    violations: int = 0


class ExtenderAsked(Event, frozen=True, tag=True):
    """An attempt needs an extender's answer. It starts again from the beginning with the answer.

    ``extender`` is the extender's place in the configuration, ignorable ones last; ``name`` is its
    URL. ``nodes`` are the ``number`` rows in question, as ranges; for ``preempt``, ``candidates``
    has the victims by node name.
    """

    uid: str
    attempt: int
    extender: int
    name: str
    verb: str
    nodes: str = ""
    number: int = 0
    candidates: dict[str, Victims] = {}


class ExtenderAnswered(Stimulus, frozen=True, tag=True):
    """An extender (``name`` is its URL) has answered the open question or has failed; ``problem``
    says how it failed.

    - ``filter``: nodes pass that are neither ``failed`` nor ``unresolvable``. Both are reason →
      rows, as ranges; the reason is "" for nodes that the answer leaves out.
    - ``prioritize``: ``scores`` are 0..10, each with its rows; other rows have 0.
    - ``preempt``: ``victims`` are those of each remaining node.

    ``remark`` says what was wrong with an answer that counts nevertheless; ``duration`` is in µs.
    """

    uid: str
    attempt: int
    extender: int
    verb: str
    name: str = ""
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    scores: tuple[tuple[int, str], ...] = ()
    victims: dict[str, Victims] = {}
    problem: str = ""
    remark: str = ""
    duration: int = 0


class Consult(Frozen, frozen=True):
    """The effect: ask an extender the open question. ``decision`` is the position in the stream of
    the record that demands it."""

    uid: str
    attempt: int
    decision: int


class Consultation:
    """The questions of the attempt under way, in order, and their answers: one answer less than
    questions while a question is open."""

    __slots__ = ("answered", "asked")

    def __init__(
        self, asked: list[ExtenderAsked], answered: list[ExtenderAnswered] | None = None
    ) -> None:
        self.asked = asked
        self.answered = answered or []

    @property
    def uid(self) -> str:
        """The uid of the pod."""
        return self.asked[0].uid

    @property
    def question(self) -> ExtenderAsked | None:
        """The open question."""
        return self.asked[-1] if len(self.asked) > len(self.answered) else None

    def awaits(self, answer: ExtenderAnswered) -> bool:
        """Whether an answer is for the open question."""
        question = self.question
        return question is not None and (
            (question.uid, question.attempt, question.extender, question.verb)
            == (answer.uid, answer.attempt, answer.extender, answer.verb)
        )

    def summary(self) -> list[Any]:
        """What the state's digest covers."""
        return [self.asked, self.answered]


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
