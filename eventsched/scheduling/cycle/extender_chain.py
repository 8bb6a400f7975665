"""The extenders interested in a pod: their answers as verdicts and scores, and the next call.

They run in order after all filters, each on the nodes that are left; then all of them score.
Upstream: schedule_one.go findNodesThatPassExtenders, prioritizeNodes.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from eventsched.domain.journal import Rows
from eventsched.domain.nodes.row_ranges import ranges, rows_of
from eventsched.domain.objects import Pod
from eventsched.domain.records import ExtenderAnswered, ExtenderAsked, Victims
from eventsched.domain.records.extender_records import FILTER, PRIORITIZE
from eventsched.domain.records.verdicts import Code, ScoreColumn, Verdict
from eventsched.domain.state.parts.consultation import Consultation
from eventsched.scheduling.cycle.cycle_keys import CODES_A_FILTER
from eventsched.scheduling.cycle.pod_specific_verdicts import PodSpecificVerdicts, Scored
from eventsched.scheduling.framework.extender import EXTENDER, Extender, ExtenderError

_SCALE = 10
"""From an extender's 0..10 to 0..100 (upstream: MaxNodeScore / MaxExtenderPriority)."""
_NOBODY: Mapping[str, Victims] = {}
NO_REASON_GIVEN = "node(s) were left out by the extender without a reason"
NOT_ASKED = "node(s) came too late for the extender to be asked"


class Question(NamedTuple):
    """A call to an extender: about ``rows``, or about ``candidates`` by node."""

    extender: Extender
    verb: str
    rows: Rows
    candidates: Mapping[str, Victims] = {}

    def asked(self, uid: str, attempt: int) -> ExtenderAsked:
        """Its record."""
        return ExtenderAsked(
            uid=uid,
            attempt=attempt,
            extender=self.extender.index,
            name=self.extender.name,
            verb=self.verb,
            nodes=ranges(self.rows),
            number=len(self.rows),
            candidates=dict(self.candidates),
        )


class ExtenderChain:
    """The extenders interested in a pod. ``question`` is the first call without an answer; until
    it is answered, the judgement is not valid."""

    def __init__(
        self, extenders: Sequence[Extender], pod: Pod, answers: Consultation | None = None
    ) -> None:
        """``answers`` are those of the attempt so far."""
        self.question: Question | None = None
        self.interested = [extender for extender in extenders if extender.is_interested(pod)]
        self._answers: dict[tuple[int, str], tuple[ExtenderAsked, ExtenderAnswered]] = {}
        if answers is not None and answers.uid == pod.uid:
            for asked, answered in zip(answers.asked, answers.answered, strict=False):
                self._answers[asked.extender, asked.verb] = asked, answered
        self._words: dict[int, list[tuple[Code, str]]] = {}

    def answer(
        self,
        extender: Extender,
        verb: str,
        rows: Rows,
        candidates: Mapping[str, Victims] = _NOBODY,
    ) -> tuple[ExtenderAsked, ExtenderAnswered] | None:
        """An extender's call and its answer; None if it has to be called first, or if it failed and
        is ignorable. Raises ExtenderError if another one failed."""
        exchange = self._answers.get((extender.index, verb))
        if exchange is None:
            self.question = Question(extender, verb, rows, candidates)
            return None
        problem = exchange[1].problem
        if not problem:
            return exchange
        if extender.ignorable or verb == PRIORITIZE:
            return None
        raise ExtenderError(extender, problem)

    # --- filter ---------------------------------------------------------------------------

    def filter(self, more: PodSpecificVerdicts, position: int) -> None:
        """Refuses the rows that extenders refuse; their keys begin at a filter position. Raises
        ExtenderError."""
        for extender in self.interested:
            if not extender.filters:
                continue
            rows = more.feasible
            if not len(rows):
                return
            answer = self.answer(extender, FILTER, rows)
            if self.question is not None:
                return
            if answer is not None:
                self._refuse(more, extender, position, rows, *answer)

    def _refuse(
        self, more: PodSpecificVerdicts, extender: Extender, position: int, rows: Rows,
        asked: ExtenderAsked, answered: ExtenderAnswered,
    ) -> None:  # fmt: skip
        """Nodes that were not part of the call (they were added, or became feasible, since) are
        refused: the next attempt includes them."""
        words = self._words.setdefault(extender.index, [(Code.UNSCHEDULABLE, NOT_ASKED)])
        codes = np.zeros(max(int(rows[-1]) + 1, _size(asked)), dtype=np.int64)
        codes[:] = 1
        codes[rows_of(asked.nodes)] = 0
        for code, groups in (
            (Code.UNSCHEDULABLE, answered.failed),
            (Code.UNRESOLVABLE, answered.unresolvable),
        ):
            for reason in sorted(groups):
                words.append((code, reason or NO_REASON_GIVEN))
                codes[rows_of(groups[reason])] = len(words)
        more.refuse(rows, codes[rows], (position + extender.index) * CODES_A_FILTER)

    def verdict(self, index: int, code: int) -> Verdict:
        """The verdict of an extender's code."""
        status, reason = self._words[index][code - 1]
        return Verdict(plugin=EXTENDER, code=status, reasons=(reason,))

    def entry(self, index: int, code: int) -> Verdict:
        """The same as an entry of the stream's dictionary, which has no room for every reason: it
        names the extender, whose answer is in the log."""
        status, _ = self._words[index][code - 1]
        name = next(extender.name for extender in self.interested if extender.index == index)
        return Verdict(plugin=EXTENDER, code=status, reasons=(f"refused by extender {name}",))

    # --- prioritize -----------------------------------------------------------------------

    def scores(self, more: PodSpecificVerdicts, size: int) -> list[Scored]:
        """The scores of all extenders, over ``size`` rows. An extender that fails gives none."""
        columns = []
        for extender in self.interested:
            if not extender.prioritizes:
                continue
            rows = more.feasible
            answer = self.answer(extender, PRIORITIZE, rows)
            if self.question is not None:
                return []
            if answer is not None:
                raw = np.zeros(size, dtype=np.uint8)
                for score, nodes in answer[1].scores:
                    raw[rows_of(nodes)] = score * _SCALE
                raw[np.isin(np.arange(size), rows, invert=True)] = 0
                definition = ScoreColumn(plugin=f"extender {extender.name}", weight=extender.weight)
                columns.append(Scored(definition, raw))
        return columns


def _size(asked: ExtenderAsked) -> int:
    rows = rows_of(asked.nodes)
    return int(rows[-1]) + 1 if len(rows) else 0
