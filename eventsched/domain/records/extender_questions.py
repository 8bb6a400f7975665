"""What extenders are asked in the course of an attempt, and what they answer (ADR 13).

Attempts are made one after the other, so at most one of them has questions. Nodes are named by
their rows, which are never used again; many of them are written as ranges: ``0-41,43-4999``.

Upstream: k8s.io/kube-scheduler/extender/v1 types.go.
"""

from typing import Any

import numpy as np

from eventsched.domain.journal import Rows
from eventsched.domain.objects import Frozen
from eventsched.domain.records.stimuli import Event, Stimulus

FILTER, PRIORITIZE, PREEMPT, BIND = "filter", "prioritize", "preempt", "bind"


class Victims(Frozen, frozen=True):
    """The pods (uids, the most important first) that would have to leave a node, and how many of
    them break a disruption budget."""

    uids: tuple[str, ...]
    violations: int = 0


class ExtenderAsked(Event, frozen=True, tag=True):
    """An attempt needs an extender's answer, and is made again from its start when that has come.

    ``extender`` is its place among those of the configuration, ignorable ones last, ``name`` its
    URL. ``nodes`` are the ``number`` rows that it is asked about, as ranges; of ``preempt``
    ``candidates`` are the nodes by name.
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
    """An extender (``name`` is its URL) has answered the open question, or has failed to:
    ``problem`` says how.

    Of ``filter`` those nodes passed that are neither ``failed`` nor ``unresolvable``: reason →
    rows, as ranges, "" for nodes that it left out without a word. Of ``prioritize`` ``scores`` are
    0..10, each with its rows; who is in none has 0. Of ``preempt`` ``victims`` are those of each
    node that is left. ``remark`` is what was wrong with an answer that counts all the same;
    ``duration`` how long it took (µs).
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
    """An effect: ask an extender what the open question says. ``decision`` is the position in the
    stream of the record that says so."""

    uid: str
    attempt: int
    decision: int


class Consultation:
    """The questions of the attempt under way, in order, and their answers: as many, or one less
    while a question is open."""

    __slots__ = ("answered", "asked")

    def __init__(
        self, asked: list[ExtenderAsked], answered: list[ExtenderAnswered] | None = None
    ) -> None:
        self.asked = asked
        self.answered = answered or []

    @property
    def uid(self) -> str:
        """The pod."""
        return self.asked[0].uid

    @property
    def question(self) -> ExtenderAsked | None:
        """The open question."""
        return self.asked[-1] if len(self.asked) > len(self.answered) else None

    def awaits(self, answer: ExtenderAnswered) -> bool:
        """Whether it is the open question that is answered."""
        question = self.question
        return question is not None and (
            (question.uid, question.attempt, question.extender, question.verb)
            == (answer.uid, answer.attempt, answer.extender, answer.verb)
        )

    def summary(self) -> list[Any]:
        """What the state's digest covers."""
        return [self.asked, self.answered]


_SEEN: dict[str, Rows] = {}
"""Rows by their text, the newest: a text is needed several times, for a question, its answer and
the question that follows, and of nodes in no order it takes long to read."""
_MOST_SEEN = 64


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
    _see(text, rows.astype(np.intp))
    return text


def rows_of(text: str) -> Rows:
    """The rows that a text of ``ranges`` stands for, not to be written to. Raises ValueError for
    another one."""
    seen = _SEEN.get(text)
    if seen is not None:
        return seen
    if not text:
        return np.zeros(0, dtype=np.intp)
    parts = [part.partition("-") for part in text.split(",")]
    firsts = np.array([int(first) for first, _, _ in parts], dtype=np.intp)
    lasts = np.array([int(last or first) for first, _, last in parts], dtype=np.intp)
    lengths = lasts - firsts + 1
    ends = np.cumsum(lengths)
    return _see(text, np.repeat(firsts - ends + lengths, lengths) + np.arange(ends[-1]))


def _see(text: str, rows: Rows) -> Rows:
    rows.flags.writeable = False
    if len(_SEEN) >= _MOST_SEEN:
        _SEEN.clear()
    _SEEN[text] = rows
    return rows
