"""The verdicts of a decision on every node, with the scores of feasible ones."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.errors import InputError
from eventsched.domain.records import PodDecided
from eventsched.domain.records.verdicts import STORED_NO_NODE, STORED_PASSES
from eventsched.history.decision_vectors import DecisionVectors, VectorSource
from eventsched.questions.answer_shapes import NodeScoreRow, NodeVerdict, PluginColumn, Verdicts
from eventsched.questions.decisions import stored_decision
from eventsched.questions.excluded_nodes import refusals_in
from eventsched.questions.rows import Refusal
from eventsched.questions.streams import LoggedStream
from eventsched.questions.visibility import Visibility

_SUCCESS = Refusal(None, "Success", "")


class NoVerdictsError(InputError):
    """The log has no verdicts of single nodes for a decision."""


@dataclass(frozen=True)
class PluginValues:
    """A plugin's scores of the nodes of a table, in its order; without meaning for those that are
    not feasible."""

    plugin: str
    weight: int
    raw: NDArray[np.int64]
    normalized: NDArray[np.int64]


@dataclass(frozen=True)
class VerdictTable:
    """The verdicts of one decision: ``nodes`` names the feasible ones by rank, ``feasible`` of
    them, then the others in the order of the log. ``refusals`` has the verdict on each. ``record``
    is the decision's."""

    position: int
    record: PodDecided
    source: VectorSource
    nodes: list[str]
    refusals: list[Refusal]
    feasible: int
    totals: NDArray[np.int64]
    ranks: NDArray[np.int64]
    scores: list[PluginValues]


def verdict_table(stream: LoggedStream, sees: Visibility, position: int) -> VerdictTable:
    """The verdicts that the log has of a decision. Raises what ``stored_decision`` and
    ``verdicts_of`` raise."""
    _, record = stored_decision(stream, sees, position)
    return verdicts_of(stream, position, record)


def verdicts_of(stream: LoggedStream, position: int, record: PodDecided) -> VerdictTable:
    """The verdicts that the log has of the decision ``record`` at a position. Raises
    NoVerdictsError."""
    vectors, source = _vectors(stream, position, record)
    codes = vectors.codes
    passed = np.flatnonzero(codes == STORED_PASSES)
    by_rank = passed[np.argsort(-vectors.totals[passed], kind="stable")]
    others = np.flatnonzero((codes != STORED_PASSES) & (codes != STORED_NO_NODE))
    order = np.concatenate([by_rank, others])
    totals = vectors.totals[order]
    best = totals[: len(by_rank)]
    meanings = {**refusals_in(stream.rows, record), STORED_PASSES: _SUCCESS}
    return VerdictTable(
        position,
        record,
        source,
        [vectors.names[row] for row in order],
        [meanings[int(code)] for code in codes[order]],
        len(by_rank),
        totals,
        1 + np.searchsorted(-best, -best, side="left"),
        [
            PluginValues(column.plugin, column.weight, raw[order], values[order])
            for column, raw, values in vectors.scores
        ],
    )


def _vectors(
    stream: LoggedStream, position: int, record: PodDecided
) -> tuple[DecisionVectors, VectorSource]:
    detail = stream.log.detail(position)
    if detail is None:
        where, left = f"position {position}", "counts and a digest"
        if not record.digest:
            problem = "no node was looked at in this decision"
            raise NoVerdictsError(where, problem, f"see /decisions/{position}")
        problem = f"the log has {left}, not the verdicts of single nodes"
        remedy = "`eventsched explain --recompute` recomputes them"
        raise NoVerdictsError(where, problem, remedy)
    evidence = stream.evidence()
    names, columns = evidence.nodes(position), evidence.columns(record.scoring)
    source = VectorSource.BEST if detail.is_partial else VectorSource.ALL
    return DecisionVectors(record, detail, names, columns), source


def verdicts_page(stream: LoggedStream, table: VerdictTable, offset: int, limit: int) -> Verdicts:
    """``limit`` nodes of a table from number ``offset`` on."""
    end = min(len(table.nodes), offset + limit)
    return Verdicts(
        stream=stream.name,
        position=table.position,
        vectors=table.source.value,
        columns=[PluginColumn(plugin=each.plugin, weight=each.weight) for each in table.scores],
        nodes=len(table.nodes),
        verdicts=[_verdict(table, number) for number in range(offset, end)],
        next=end if end < len(table.nodes) else None,
    )


def _verdict(table: VerdictTable, number: int) -> NodeVerdict:
    refusal = table.refusals[number]
    is_feasible = number < table.feasible
    return NodeVerdict(
        node=table.nodes[number],
        status=refusal.code,
        plugin=refusal.plugin,
        reason=refusal.reason or None,
        total=int(table.totals[number]) if is_feasible else None,
        rank=int(table.ranks[number]) if is_feasible else None,
        scores=[
            NodeScoreRow(
                plugin=each.plugin,
                raw=int(each.raw[number]),
                normalized=int(each.normalized[number]),
                weighted=int(each.normalized[number]) * each.weight,
            )
            for each in table.scores
        ]
        if is_feasible
        else [],
    )
