"""The text and the JSON of ``eventsched db stats``."""

from typing import Any

from eventsched.domain.units import DAY
from eventsched.eventlog.inspection.log_statistics import (
    SHORTEST_SPAN,
    LogStatistics,
    StreamStatistics,
    TableStatistics,
)
from eventsched.eventlog.inspection.old_partitions import OldPartitions
from eventsched.output.terminal.tables import counted, size, table
from eventsched.output.time_format import iso, moment, rough

_SHOWN = 0.01
"""Share of the log's bytes from which a table has a line of its own in the text."""
_LONGEST = 100 * 365
"""Days; a disk that lasts longer is not dated."""


def statistics_text(log: LogStatistics, disk: int | None) -> str:
    """Streams, tables and growth; with ``disk`` (bytes) also when the database fills it."""
    lines = [_streams_text(log.streams), "", _tables_text(log)]
    written = [stream for stream in log.streams if stream.records]
    if written:
        lines.append("")
    lines += [_growth_text(stream) for stream in written]
    if disk is not None:
        lines.append(_forecast_text(log, disk))
    return "\n".join(lines)


def statistics_json(log: LogStatistics, disk: int | None) -> dict[str, Any]:
    """The same as a JSON object. Sizes are in bytes, times as ISO 8601."""
    streams = [
        {
            **stream._asdict(),
            "first_at": None if stream.first_at is None else iso(stream.first_at),
            "last_at": None if stream.last_at is None else iso(stream.last_at),
            "simulated": stream.is_simulated,
            "growth": None if stream.growth is None else stream.growth._asdict(),
        }
        for stream in log.streams
    ]
    tables = [
        {
            **each._asdict(),
            "bytes": each.bytes,
            "bytes_per_decision": _per_decision(each.bytes, log.decisions),
        }
        for each in log.tables
    ]
    document: dict[str, Any] = {
        "at": iso(log.at),
        "streams": streams,
        "tables": tables,
        "bytes": log.bytes,
        "bytes_per_decision": _per_decision(log.bytes, log.decisions),
        "database_bytes": log.database_bytes,
    }
    if disk is not None:
        document["disk"] = {"bytes": disk, "days_until_full": _days_until_full(log, disk)}
    return document


def old_partitions_text(old: list[OldPartitions], keep: str) -> str:
    """What would be free if records older than ``keep`` were dropped, a line for each stream."""
    if not old:
        return f"no partition has only records that are older than {keep}: nothing would be free"
    return "\n".join(
        f"stream {each.stream}: without records older than {keep}, {size(each.bytes)} would be "
        f"free ({counted(each.partitions, 'partition')}, {each.sealed} of them sealed), without "
        f"their vectors alone {size(each.vector_bytes)}"
        for each in old
    )


def _streams_text(streams: list[StreamStatistics]) -> str:
    rows = [
        (
            stream.stream,
            f"{stream.records:,}",
            f"{stream.decisions:,}",
            _number(stream.batches, estimated=stream.batches_are_estimated),
            stream.epochs,
            "" if stream.first_at is None else moment(stream.first_at),
            "" if stream.last_at is None else moment(stream.last_at),
        )
        for stream in streams
    ]
    header = ("stream", "records", "decisions", "batches", "epochs", "first", "last")
    return table(header, rows)


def _tables_text(log: LogStatistics) -> str:
    large = [each for each in log.tables if each.bytes >= _SHOWN * log.bytes]
    small = log.tables[len(large) :]
    rows = [
        _table_row(
            each.table, _number(each.rows, estimated=each.rows_are_estimated), [each], log.decisions
        )
        for each in large
    ]
    if small:
        rows.append(_table_row(f"{len(small)} smaller", "", small, log.decisions))
    rows.append(_table_row("all", "", log.tables, log.decisions))
    header = ("table", "rows", "heap", "toast", "indexes", "total", "bytes per decision")
    return table(header, rows)


def _table_row(
    name: str, rows: str, tables: list[TableStatistics], decisions: int
) -> tuple[str, ...]:
    total = sum(each.bytes for each in tables)
    return (
        name,
        rows,
        size(sum(each.heap_bytes for each in tables)),
        size(sum(each.toast_bytes for each in tables)),
        size(sum(each.index_bytes for each in tables)),
        size(total),
        _shown(_per_decision(total, decisions)),
    )


def _growth_text(stream: StreamStatistics) -> str:
    growth = stream.growth
    if growth is None:
        return (
            f"stream {stream.stream} is too young for an estimate of its growth: its records are "
            f"from less than {rough(SHORTEST_SPAN)}"
        )
    day = "simulated day" if stream.is_simulated else "day"
    span = rough(round(growth.seconds * 1e6))
    basis = f"its whole age, {span}" if growth.is_whole_age else "its last day"
    return (
        f"stream {stream.stream} grows by {growth.records_per_day:,} records, about "
        f"{size(growth.bytes_per_day)}, per {day} (estimated from {basis})"
    )


def _forecast_text(log: LogStatistics, disk: int) -> str:
    days = _days_until_full(log, disk)
    what = f"a disk of {size(disk)} for this database, which has {size(log.database_bytes)},"
    if days is None:
        is_known = any(stream.growth for stream in log.streams) or not log.decisions
        return f"{what} " + ("is not filled: nothing grows" if is_known else "is not forecast yet")
    if not days:
        return f"{what} is too small"
    if days > _LONGEST:
        return f"{what} is full in more than {_LONGEST // 365} years"
    if _growing(log)[0].is_simulated:
        return f"{what} is full in {days:,.1f} simulated days"
    date = moment(log.at + round(days * DAY)).partition(" ")[0]
    return f"{what} is full in {days:,.1f} days, on {date}"


def _growing(log: LogStatistics) -> list[StreamStatistics]:
    """The streams whose growth counts: of schedulers; if there are none, of simulations."""
    growing = [stream for stream in log.streams if stream.growth and stream.growth.bytes_per_day]
    return [stream for stream in growing if not stream.is_simulated] or growing


def _days_until_full(log: LogStatistics, disk: int) -> float | None:
    """Days until the database has ``disk`` bytes, 0 if it has already; None if nothing grows."""
    per_day = sum(stream.growth.bytes_per_day for stream in _growing(log) if stream.growth)
    if disk <= log.database_bytes:
        return 0.0
    return (disk - log.database_bytes) / per_day if per_day else None


def _per_decision(bytes_: int, decisions: int) -> float | None:
    return round(bytes_ / decisions, 1) if decisions else None


def _shown(number: float | None) -> str:
    return "" if number is None else f"{number:,.0f}"


def _number(number: int, *, estimated: bool) -> str:
    return f"about {number:,}" if estimated else f"{number:,}"
