"""The verdicts of a decision as an Arrow stream: one record batch, a row for each node."""

import io
from typing import Any

import numpy as np

from eventsched.domain.errors import InputError
from eventsched.questions.verdict_pages import VerdictTable

ARROW_TYPE = "application/vnd.apache.arrow.stream"


def arrow_stream(table: VerdictTable) -> bytes:
    """The whole table. Columns ``raw.PLUGIN``, ``normalized.PLUGIN`` and ``weighted.PLUGIN`` are
    null for nodes that are not feasible, as total and rank are. Raises InputError if pyarrow is not
    installed."""
    try:
        import pyarrow as pa
    except ModuleNotFoundError:
        problem = "this server has no pyarrow, so it gives no Arrow"
        remedy = "ask for application/json, or install 'eventsched[archive]'"
        raise InputError("Accept", problem, remedy) from None
    refused = np.arange(len(table.nodes)) >= table.feasible
    missing = len(table.nodes) - table.feasible

    def column(values: Any) -> Any:
        return pa.array(values.astype(np.int64), mask=refused)

    ranks = np.concatenate([table.ranks, np.zeros(missing, dtype=np.int64)])
    dictionary = pa.dictionary(pa.int32(), pa.string())
    columns = {
        "node": pa.array(table.nodes, pa.string()),
        "status": pa.array([each.code for each in table.refusals], dictionary),
        "plugin": pa.array([each.plugin for each in table.refusals], dictionary),
        "reason": pa.array([each.reason or None for each in table.refusals], dictionary),
        "total": column(table.totals),
        "rank": column(ranks),
    }
    for scores in table.scores:
        columns[f"raw.{scores.plugin}"] = column(scores.raw)
        columns[f"normalized.{scores.plugin}"] = column(scores.normalized)
        columns[f"weighted.{scores.plugin}"] = column(scores.normalized * scores.weight)
    batch = pa.record_batch(columns)
    facts = {"position": str(table.position), "vectors": table.source.value}
    batch = batch.replace_schema_metadata(facts)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()
