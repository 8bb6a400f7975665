"""``eventsched log``: the records of a stream, listed, followed or exported."""

import argparse
import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from eventsched.cli import log_export
from eventsched.cli.answers.answer_forms import (
    WIDE,
    add_output_option,
    document_of_several,
    is_document,
    print_document,
)
from eventsched.cli.checkpoint import add_checkpoint
from eventsched.cli.log_access.archive_options import (
    add_archive_option,
    archived_log,
    names_database,
)
from eventsched.cli.log_access.database_options import add_database_options, database_of
from eventsched.domain import records
from eventsched.domain.errors import InputError
from eventsched.domain.objects import Pod
from eventsched.domain.records import AnyRecord
from eventsched.domain.records.record_catalogue import CATALOGUE
from eventsched.domain.units import is_virtual
from eventsched.eventlog import database
from eventsched.eventlog.port import StoredRecord
from eventsched.eventlog.postgres import reader as reading
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.seeking import last
from eventsched.history.explain.evidence import Evidence, SearchedEvidence, uid_key
from eventsched.history.explain.explanation import find_pod
from eventsched.history.explain.record_text import describe, describe_with_pod, pod_of
from eventsched.history.explain.stored_evidence import StoredEvidence
from eventsched.history.explain.update_differences import in_words
from eventsched.output.terminal.tables import printable, table
from eventsched.output.time_format import iso, moment, zone
from eventsched.questions.past.open_log import StreamLog, first_position
from eventsched.runtime.queries.state_at import dropped_error

KINDS = sorted(row.name for row in CATALOGUE)
_RECORDS_AT_ONCE = 256
"""Records whose pods are looked up together."""
_MAX_CACHED_PODS = 4_096
"""Pods at most whose last update is kept, to say what the next one changes."""
_POLL_SECONDS = 1.0
"""Seconds between two looks at a log that is followed."""
_LINE = "{:>9}  {:<23}  {:<15}  {:<28}  {}"
_WIDE_LINE = "{:>9}  {:<23}  {:>9}  {:<15}  {:<28}  {}"


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "log",
        help="list, follow or export the records of a stream",
        description="The records of a stream: listed, followed or exported.",
    )
    actions = parser.add_subparsers(title="actions", dest="action", required=True)
    listed = actions.add_parser("list", help="records in order, the newest last")
    listed.add_argument(
        "--from", dest="first", type=_position, default=0, metavar="POSITION", help="begin here"
    )
    listed.add_argument("--to", dest="last", type=_position, metavar="POSITION", help="end here")
    listed.add_argument(
        "--limit", type=_position, default=50, metavar="N", help="at most N; 0: all (default: 50)"
    )
    listed.set_defaults(run=_with_log(_list), ends_unread=True)
    tail = actions.add_parser("tail", help="the last records")
    tail.add_argument("-n", dest="limit", type=_position, default=20, help="how many (default: 20)")
    tail.add_argument("-f", dest="follow", action="store_true", help="and those that come")
    tail.set_defaults(run=_with_log(_tail), ends_unread=True)
    for action in (listed, tail):
        _add_filters(action)
        add_archive_option(action)
    streams = actions.add_parser("streams", help="the streams of a database")
    streams.set_defaults(run=_streams)
    exported = actions.add_parser(
        "export",
        help="write a stream to a file",
        description="Writes a stream to a file, in the file form of docs/log-format.md.",
    )
    exported.add_argument("file", type=Path, metavar="FILE", help="compressed if it ends in .gz")
    add_archive_option(exported)
    add_output_option(exported, "text", pages=False)
    exported.set_defaults(run=log_export.run)
    add_checkpoint(actions)
    for action in (listed, tail, streams):
        add_output_option(action, wide=True)
    for action in (listed, tail, streams, exported):
        add_database_options(action, stream=action is not streams)


def _add_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kind", action="append", default=[], metavar="KIND",
        help="records of that kind, such as PodBound; may be repeated",
    )  # fmt: skip
    parser.add_argument("--pod", metavar="POD", help="records of that pod: namespace/name or uid")
    parser.add_argument(
        "--since", metavar="TIME",
        help="records from then on: 2026-11-21T15:00, or 10m, 2h, 1d ago (in a simulation: after "
        "its beginning)",
    )  # fmt: skip
    parser.add_argument("--until", metavar="TIME", help="records before then, said in the same way")


def _position(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number; write 0 or more")
    return int(text)


def _with_log(
    action: Callable[[argparse.Namespace, StreamLog, Evidence], int],
) -> Callable[[argparse.Namespace], int]:
    def run(options: argparse.Namespace) -> int:
        if options.from_archive is not None:
            with archived_log(options) as (log, _):
                return action(options, log, SearchedEvidence(log))
        with database.reader_address(*database_of(options)) as address:
            reader = Reader(address, options.stream)
            return action(options, reader, StoredEvidence(reader))

    return run


# --- list and tail ------------------------------------------------------------------------


def _list(options: argparse.Namespace, log: StreamLog, evidence: Evidence) -> int:
    limits = _Range.of(options, log)
    if isinstance(log, Reader) and 0 < limits.first < log.begin:
        print(dropped_error(log, limits.first, "--from"), file=sys.stderr)
    if options.since is not None:
        _warn_if_after_end(log, options.since)
    selected = _selected(options, limits, log, evidence)
    if not options.limit:
        _show(options.output, evidence, selected, header=True)
        return 0
    _show(options.output, evidence, islice(selected, options.limit), header=True)
    more = next(selected, None)
    if more is not None:
        hint = f"there are more: --from {more.position} continues, --limit 0 shows all"
        print(hint, file=sys.stderr)
    return 0


def _warn_if_after_end(log: StreamLog, since: str) -> None:
    """Says so if all records are before --since: the table would be empty without a reason."""
    end = log.head.next
    if not end or first_position(log, since, "--since", or_position=False) < end:
        return
    newest = next(log.batches(end - 1)).records[-1].at
    end_time = f"{moment(newest)} {zone(newest)}".rstrip()
    print(f"no record is at or after {since}: the log ends at {end_time}", file=sys.stderr)
    if is_virtual(newest) and "ago" not in since:
        print(
            "in a simulation a time counts from its beginning; '10m ago' from its end",
            file=sys.stderr,
        )


class _Range(NamedTuple):
    """The selected records: positions from ``first`` up to ``end``, and kinds (none: all)."""

    first: int
    end: int | None
    kinds: frozenset[str]

    @classmethod
    def of(cls, options: argparse.Namespace, log: StreamLog) -> "_Range":
        """The range that the options select. Raises InputError."""
        for kind in options.kind:
            if kind not in KINDS:
                near = get_close_matches(kind, KINDS, 3) or KINDS
                raise InputError("--kind", f"there is no kind {kind}", f"did you mean {near[0]}?")
        first, end = getattr(options, "first", 0), getattr(options, "last", None)
        end = None if end is None else end + 1
        if options.since is not None:
            first = max(first, first_position(log, options.since, "--since", or_position=False))
        if options.until is not None:
            before = first_position(log, options.until, "--until", or_position=False)
            end = before if end is None else min(end, before)
        return cls(first, end, frozenset(options.kind))

    def has(self, stored: StoredRecord) -> bool:
        """Whether a record is selected, by its position and kind."""
        is_in = stored.position >= self.first
        is_in = is_in and (self.end is None or stored.position < self.end)
        return is_in and (not self.kinds or stored.kind in self.kinds)


def _selected(
    options: argparse.Namespace, limits: _Range, log: StreamLog, evidence: Evidence
) -> Iterator[StoredRecord]:
    if options.pod is None:
        stored_records = log.read(limits.first)
    else:
        stored_records = evidence.records(find_pod(evidence, options.pod)[0])
    return _within(limits, stored_records)


def _within(limits: _Range, stored_records: Iterator[StoredRecord]) -> Iterator[StoredRecord]:
    for stored in stored_records:
        if limits.end is not None and stored.position >= limits.end:
            return
        if limits.has(stored):
            yield stored


def _tail(options: argparse.Namespace, log: StreamLog, evidence: Evidence) -> int:
    if options.follow and options.from_archive is not None and not names_database(options):
        raise InputError("-f", "an archive does not grow", "add --database, or leave -f out")
    end = log.head.next
    limits = _Range.of(options, log)
    stop = end if limits.end is None else min(limits.end, end)
    if options.pod is not None:
        selected = _selected(options, limits, log, evidence)
        before = (stored for stored in selected if stored.position < stop)
        newest = list(deque(before, maxlen=options.limit))
    elif limits.kinds:
        newest = last(log, options.limit, limits.has, limits.first, stop)
    else:
        first = max(limits.first, stop - options.limit)
        newest = list(islice(log.read(first), max(0, stop - first)))
    _show(options.output, evidence, newest, header=True)
    if options.follow:
        sys.stdout.flush()
        uid = None if options.pod is None else find_pod(evidence, options.pod)[0].uid

        def show(more: Iterable[StoredRecord]) -> None:
            new = (stored for stored in more if limits.has(stored) and _is_of(stored, uid))
            _show(options.output, evidence, new)

        follow(log, end, show)
    return 0


def _is_of(stored: StoredRecord, uid: str | None) -> bool:
    if uid is None:
        return True
    pod_uid = pod_of(stored.record)
    return pod_uid is not None and uid_key(pod_uid) == uid


def follow(
    log: StreamLog,
    position: int,
    show: Callable[[Iterable[StoredRecord]], None],
    wait: Callable[[], None] = lambda: time.sleep(_POLL_SECONDS),
) -> None:
    """Shows the records from a position on as they come, until ``wait`` raises. Raises
    UnavailableError if the database becomes unreachable."""
    while True:
        head = log.head.next
        if head > position:
            show(islice(log.read(position), head - position))
            sys.stdout.flush()
            position = head
        wait()


def _show(
    output: str, evidence: Evidence, listing: Iterable[StoredRecord], *, header: bool = False
) -> None:
    if header and not is_document(output):
        print(_line(output, "POSITION", "TIME", "CAUSE", "KIND", "POD", "WHAT"))
    rest = iter(listing)
    pods: dict[str, Pod] = {}
    while chunk := list(islice(rest, _RECORDS_AT_ONCE)):
        decoded = [(stored, stored.record) for stored in chunk]
        uids = {uid for _, record in decoded if (uid := pod_of(record)) is not None}
        uids |= {r.by for _, r in decoded if isinstance(r, records.PermitGranted) and r.by}
        names = evidence.names(uids)
        for stored, record in decoded:
            print(_row(output, stored, record, names, _changed(pods, record)))


def _changed(pods: dict[str, Pod], record: AnyRecord) -> str:
    """What an update of a pod changed, if the listing has what the pod was before; else ""."""
    if not isinstance(record, records.PodAdded | records.PodUpdated):
        return ""
    before = pods.pop(record.pod.uid, None)
    pods[record.pod.uid] = record.pod
    if len(pods) > _MAX_CACHED_PODS:
        del pods[next(iter(pods))]
    if before is None or isinstance(record, records.PodAdded):
        return ""
    changes = in_words([(0, records.PodAdded(pod=before)), (1, record)])
    return changes.get(1, "changed nothing that is logged")


def _row(
    output: str, stored: StoredRecord, record: AnyRecord, names: dict[str, str], changed: str
) -> str:
    uid = pod_of(record)
    pod = "" if uid is None else names.get(uid, uid)
    if is_document(output):
        return document_of_several(_object(stored, uid, names), output)

    def name(other: str) -> str:
        return names.get(other, other)

    text = changed or (describe_with_pod(record, name) if uid is None else describe(record, name))
    at = moment(stored.at)
    return " ".join(
        _line(output, stored.position, at, stored.cause, stored.kind, pod, text).splitlines()
    )


def _line(
    output: str, position: object, at: str, cause: object, kind: str, pod: str, text: str
) -> str:
    """A line of the table; the cause is in a wide one alone."""
    if output == WIDE:
        return printable(_WIDE_LINE.format(position, at, cause, kind, pod, text))
    return printable(_LINE.format(position, at, kind, pod, text))


def _object(stored: StoredRecord, uid: str | None, names: dict[str, str]) -> str:
    """A row as view ``events`` has it; the record is its stored text."""
    namespace, _, pod = names.get(uid or "", "").partition("/")
    fields = {
        "seq": stored.position,
        "at": iso(stored.at),
        "cause": stored.cause,
        "kind": stored.kind,
        "namespace": namespace or None,
        "pod": pod or None,
        "pod_uid": None if uid is None else uid_key(uid),
    }
    return f'{json.dumps(fields, ensure_ascii=False)[:-1]}, "record": {stored.body.decode()}}}'


# --- streams -------------------------------------------------------------------

_STREAMS = (
    "SELECT stream, records, batches, epoch, holder, head, created_at, written_at"
    " FROM eventsched.streams WHERE stream = :name"
)


def _streams(options: argparse.Namespace) -> int:
    rows: list[dict[str, Any]] = []
    with database.reader_address(*database_of(options)) as address:
        for name in reading.streams(address):
            stream = Reader(address, name)
            begin = stream.begin
            rows += ({**row, "begin": begin} for row in stream.rows(_STREAMS, name=name))
    if is_document(options.output):
        print_document([_plain(row) for row in rows], options.output)
        return 0
    header: tuple[str, ...] = ("stream", "records", "batches", "epoch", "holder", "head")
    if options.output == WIDE:
        header = ("stream", "records", "begin", *header[2:-1], "created_at", "written_at", "head")
    titles = [name.replace("_at", "") for name in header]
    print(table(titles, [[_cell(row[name]) for name in header] for row in rows]))
    return 0


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value
        for name, value in row.items()
    }


def _cell(value: object) -> object:
    """A time to the second; nothing for one that has not come."""
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    return "" if value is None else value
