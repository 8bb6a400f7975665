"""All verdicts of a decision as columns, for programs that draw them."""

from functools import lru_cache
from pathlib import Path

from eventsched.domain.errors import InputError
from eventsched.domain.records import PodDecided
from eventsched.domain.records.stimuli import OWN
from eventsched.questions.answer_shapes import RefusedNodes
from eventsched.questions.attempts.attempt_answers import ScoreValues, VerdictColumns
from eventsched.questions.rows import Refusal
from eventsched.questions.streams import LoggedStream
from eventsched.questions.verdict_pages import PluginValues, verdict_table
from eventsched.questions.visibility import Visibility
from eventsched.runtime.assembly import assemble_text
from eventsched.runtime.queries.state_at import opening_at

_SAFE = 2**53
"""Whole numbers below it are exact in JavaScript."""
_CONFIGURATIONS = 16
"""Configurations whose order of filters is kept."""


def verdict_columns(
    stream: LoggedStream, sees: Visibility, position: int, plugins: list[Path]
) -> VerdictColumns:
    """All verdicts of a decision. ``plugins`` are files with plugins that the stream was written
    with. Raises what ``verdict_table`` raises."""
    table = verdict_table(stream, sees, position)
    refusals = list(dict.fromkeys(table.refusals[table.feasible :]))
    number = {refusal: place for place, refusal in enumerate(refusals)}
    verdicts = [number[refusal] for refusal in table.refusals[table.feasible :]]
    return VerdictColumns(
        stream=stream.name,
        position=position,
        vectors=table.source.value,
        filters=filters_in_order(stream, table.record, position, plugins),
        names=table.nodes,
        feasible=table.feasible,
        totals=table.totals[: table.feasible].tolist(),
        ranks=table.ranks.tolist(),
        scores=[score_values(values, table.feasible) for values in table.scores],
        refusals=[_refused(refusal, verdicts.count(number[refusal])) for refusal in refusals],
        verdicts=verdicts,
    )


def _refused(refusal: Refusal, nodes: int) -> RefusedNodes:
    return RefusedNodes(
        plugin=refusal.plugin, code=refusal.code, reason=refusal.reason, nodes=nodes
    )


def score_values(values: PluginValues, feasible: int) -> ScoreValues:
    """The scores of the first ``feasible`` nodes."""
    return ScoreValues(
        plugin=values.plugin,
        weight=values.weight,
        raw=[
            value if abs(value) < _SAFE else str(value) for value in values.raw[:feasible].tolist()
        ],
        normalized=values.normalized[:feasible].tolist(),
    )


def filters_in_order(
    stream: LoggedStream, record: PodDecided, position: int, plugins: list[Path]
) -> list[str] | None:
    """The filter plugins that a decision asked, in order; None if the configuration of that time
    cannot be put together here."""
    try:
        opening = opening_at(stream.log, position)
        if opening.inputs.get(OWN):  # its plugins are those of a program
            return None
        names = frozenset(opening.plugins)
        order = (opening.configuration, names, opening.flags, record.profile, tuple(plugins))
        return _filters(*order)
    except (InputError, LookupError):
        return None


@lru_cache(_CONFIGURATIONS)
def _filters(
    configuration: str,
    names: frozenset[str],
    flags: tuple[int, ...],
    profile: str,
    plugins: tuple[Path, ...],
) -> list[str]:
    """Raises InputError, and LookupError for a profile that is not there."""
    assembly = assemble_text(configuration, plugins, "the stream's configuration", names, flags)
    return [each.name for each in assembly.profiles[profile].filters]
