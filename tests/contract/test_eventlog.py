"""What every implementation of the EventLog port has to do.

To add one: a subclass of LogContract with a fixture ``log`` that gives an empty log.
"""

from collections.abc import Iterator
from datetime import date
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eventsched.domain import records
from eventsched.domain.objects import Pod
from eventsched.domain.records import PodDecided
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.verdicts import Detail, ScoreColumn, column_digest, detail_digest
from eventsched.eventlog.log_errors import ConflictError
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.eventlog.port import Batch, EventLog, StoredRecord
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.scheduling.engine import Engine
from tests.builders import added, engine_with, make_node, make_pod
from tests.waiting import until

_streams = count()


def stored(first: int, number: int = 1) -> list[StoredRecord]:
    """Records from a position on."""
    return [
        StoredRecord.of(LogEntry(at, 10 * at, first, records.PodDeleted(uid=f"p{at}")))
        for at in range(first, first + number)
    ]


def batch(first: int, number: int = 1) -> Batch:
    """A batch without vectors."""
    return Batch(stored(first, number), {})


def append(log: EventLog, appended: Batch) -> None:
    """Offers a batch and waits for it."""
    log.begin(appended)
    log.finish()


def of(logged: list[LogEntry]) -> Batch:
    """A batch of an engine's records."""
    details = {each.position: each.detail for each in logged if each.detail is not None}
    return Batch([StoredRecord.of(each) for each in logged], details)


def nodes(engine: Engine, number: int) -> list[LogEntry]:
    """The records of ``number`` new nodes."""
    made = added(*(make_node(f"n{index}", cpu=8000 + 100 * index) for index in range(number)))
    return [each for node in made for each in engine.observe(node, 0)]


def tried(engine: Engine, pod: Pod, at: int) -> list[LogEntry]:
    """The records of a pod that comes and is tried."""
    return [*engine.observe(added(pod)[0], at), *engine.schedule_next()]


def judged(engine: Engine) -> tuple[list[int], list[list[int]], list[ScoreColumn]]:
    """Codes (0: passes) and raw scores of all nodes as the engine judges them before a decision."""
    found = engine.judge(make_pod("probe", cpu=50, memory=0))
    codes = [0 if each == 2**31 - 1 else 65_535 for each in found.keys.tolist()]
    return codes, [s.raw.tolist() for s in found.scores], [s.column for s in found.scores]


def digest_of(detail: Detail) -> str:
    """The digest that a decision with these vectors has."""
    assert detail.codes is not None
    columns: list[Any] = [*detail.scores, *detail.normalized]
    codes: Any = detail.codes
    digests = [column_digest(column) for column in columns if column is not None]
    return detail_digest(column_digest(codes), digests)


class LogContract:
    """A single writer, no failures."""

    def test_an_empty_log(self, log: MemoryEventLog | PostgresEventLog) -> None:
        """Begins at 0, with a hash that says how the stream is called."""
        assert (log.head, list(log.read()), log.detail(0)) == (0, [], None)
        assert log.head_hash == sha256(b"eventsched/1/" + log.stream.encode()).digest()

    def test_batches_follow_each_other(self, log: EventLog) -> None:
        """What is read is what was appended, with place, time, cause, kind and version."""
        append(log, batch(0, 2))
        append(log, batch(2, 3))
        assert log.head == 5
        assert list(log.read()) == stored(0, 2) + stored(2, 3)
        assert next(iter(log.read(3))) == StoredRecord(
            3, 30, 2, "PodDeleted", 1, b'{"kind":"PodDeleted","uid":"p3"}'
        )

    def test_what_is_begun_counts_at_once(self, log: EventLog) -> None:
        """The next batch is made while this one commits."""
        log.begin(batch(0, 2))
        assert log.head == 2
        begun = log.head_hash
        log.finish()
        assert (log.head, log.head_hash) == (2, begun)
        assert list(log.read()) == stored(0, 2)

    def test_whether_there_is_an_answer(self, log: EventLog) -> None:
        """It comes without a wait for it, and then there is nothing to wait for."""
        assert log.answered()
        log.begin(batch(0, 2))
        until(log.answered, "answered")
        assert list(log.read()) == stored(0, 2)
        log.finish()
        assert log.answered()

    def test_nothing_to_finish(self, log: EventLog) -> None:
        """Neither before the first batch nor twice."""
        log.finish()
        append(log, batch(0))
        log.finish()
        assert list(log.read()) == stored(0)

    def test_each_batch_has_a_hash_of_its_own(self, log: EventLog) -> None:
        """32 bytes, whatever is in it."""
        hashes = [log.head_hash]
        for at in range(4):
            append(log, batch(at))
            hashes.append(log.head_hash)
        assert len(set(hashes)) == 5
        assert {len(each) for each in hashes} == {32}

    @pytest.mark.parametrize("first", [0, 1, 2, 4, 5, 9])
    def test_reading_from_a_position(self, log: EventLog, first: int) -> None:
        """Inside a batch, at its edge, and beyond the end."""
        append(log, batch(0, 2))
        append(log, batch(2, 3))
        assert list(log.read(first)) == (stored(0, 2) + stored(2, 3))[first:]

    @pytest.mark.parametrize("first", [0, 1, 3, 7])
    def test_a_batch_that_does_not_begin_at_the_head(self, log: EventLog, first: int) -> None:
        """Something was written twice, or is missing: nothing is appended."""
        append(log, batch(0, 2))
        before = log.head_hash
        with pytest.raises(ConflictError) as refused:
            log.begin(batch(first))
        assert (refused.value.expected, refused.value.head) == (first, 2)
        assert (log.head, log.head_hash) == (2, before)
        assert list(log.read()) == stored(0, 2)
        append(log, batch(2))
        assert log.head == 3

    @pytest.mark.parametrize("positions", [[], [0, 2], [1, 0], [0, 0], [0, 1, 3]])
    def test_gaps_and_empty_batches_are_refused(self, log: EventLog, positions: list[int]) -> None:
        """Whole: nothing is appended."""
        broken = Batch([stored(at)[0] for at in positions], {})
        with pytest.raises(ValueError, match="consecutive"):
            log.begin(broken)
        assert log.head == 0
        append(log, batch(0))
        assert log.head == 1

    def test_a_stored_record_gives_the_record_back(self, log: EventLog) -> None:
        """As the engine's apply takes it, whatever letters it is made of."""
        pod = make_pod("grün", annotations={"q": 'a"b\\c\n\t\x7f\u2028', "漢": "😀"})
        logged = LogEntry(0, 7, 0, added(pod)[0])
        append(log, of([logged]))
        (found,) = log.read()
        assert found == StoredRecord.of(logged)
        assert found.record == logged.record
        assert found.logged == logged

    def test_text_with_a_nul_is_no_harm(self, log: EventLog) -> None:
        """Of a plugin or an annotation: Postgres cannot read it back from JSON (see records)."""
        said = PodDecided(
            uid="p1", attempt=1, outcome=records.Outcome.ERROR, plugin="P", message="a\0b"
        )
        pod = make_pod(annotations={"a": "\0"})
        logged = [LogEntry(0, 0, 0, added(pod)[0]), LogEntry(1, 0, 1, said)]
        append(log, of(logged))
        found = list(log.read())
        assert found == [StoredRecord.of(each) for each in logged]
        assert b"\\u0000" not in b"".join(each.body for each in found)

    def test_deltas_are_expanded_to_the_full_vectors(self, log: EventLog) -> None:
        """150 pods of one class, over two whole records, while a node comes and another goes: each
        decision's vectors are those that the engine had, and give the digest in its record."""
        engine = engine_with()
        logged = nodes(engine, 12)
        expected = {}
        for index in range(150):
            if index == 40:
                logged += engine.observe(added(make_node("late"))[0], index)
            if index == 90:
                logged += engine.observe(records.NodeDeleted(name="n3"), index)
            logged += engine.observe(added(make_pod(f"p{index}", cpu=50, memory=0))[0], index)
            before = judged(engine)
            decided = engine.schedule_next()
            expected[decided[-1].position] = before
            logged += decided
        for number in range(0, len(logged), 37):
            append(log, of(logged[number : number + 37]))

        details = {each.position: each.detail for each in logged if each.detail is not None}
        assert details.keys() == expected.keys()
        assert 2 < sum(each.base is None for each in details.values()) < 10
        assert log.detail(0) is None
        read = list(log.read())
        for each in [read[at] for at in sorted(expected)[::7]]:
            decided_now = each.record
            assert isinstance(decided_now, PodDecided)
            detail = log.detail(each.position)
            assert detail is not None
            assert detail.codes is not None
            codes, raws, columns = expected[each.position]
            assert (detail.base, detail.size) == (None, len(codes))
            assert detail.codes.tolist() == codes
            assert [column.tolist() for column in detail.scores] == raws
            assert decided_now.parameters == tuple(column.parameters for column in columns)
            names = [column.plugin for column in engine.state.scorings[decided_now.scoring]]
            assert names == [column.plugin for column in columns]
            assert digest_of(detail) == decided_now.digest

    def test_a_chain_has_at_most_64_deltas(self, log: EventLog) -> None:
        """So that no decision is far from a whole record."""
        engine = engine_with()
        logged = nodes(engine, 8)
        for index in range(140):
            logged += tried(engine, make_pod(f"p{index}", cpu=50, memory=0), index)
        append(log, of(logged))
        details = [each.detail for each in logged if each.detail is not None]
        wholes = [index for index, each in enumerate(details) if each.base is None]
        assert wholes == [0, 65, 130]
        last = logged[-1]
        found = log.detail(last.position)
        assert found is not None
        assert isinstance(last.record, PodDecided)
        assert digest_of(found) == last.record.digest

    def test_classes_have_chains_of_their_own(self, log: EventLog) -> None:
        """Two classes in turns, until one of them fits nowhere: each delta goes back to its own
        class, with scores or without."""
        engine = engine_with()
        logged = nodes(engine, 8)
        for index in range(40):
            logged += tried(engine, make_pod(f"p{index}", cpu=10 + 5000 * (index % 2)), index)
        append(log, of(logged))
        found = [(e.record, log.detail(e.position)) for e in logged if e.detail is not None]
        assert len(found) == 40
        scored = set()
        for decided, detail in found:
            assert isinstance(decided, PodDecided)
            assert detail is not None
            assert digest_of(detail) == decided.digest
            assert len(detail.scores) == len(decided.parameters)
            scored.add(bool(detail.scores))
        assert scored == {True, False}
        bases = [each.detail.base for each in logged if each.detail is not None]
        unscored = [at for at, (_, detail) in enumerate(found) if detail and not detail.scores]
        assert any(bases[at] is not None for at in unscored)

    def test_normalized_columns_are_kept(self, log: EventLog) -> None:
        """Of a plugin that normalises by its own code."""
        codes = np.array([0, 65_533], dtype=np.uint16)
        own = np.array([100, 0], dtype=np.int64)
        scores = (np.array([-5, 0]), np.array([7, 0], dtype=np.uint8))
        append(log, Batch(stored(0, 2), {1: Detail(2, None, codes, scores, (own, None))}))
        found = log.detail(1)
        assert found is not None
        assert found.codes is not None
        assert (found.codes.dtype, found.codes.tolist()) == (np.uint16, [0, 65_533])
        assert [(each.dtype.name, each.tolist()) for each in found.scores] == [
            ("int64", [-5, 0]),
            ("uint8", [7, 0]),
        ]
        assert [None if n is None else n.tolist() for n in found.normalized] == [[100, 0], None]

    def test_usage_counts_nodes_apart(self, log: MemoryEventLog | PostgresEventLog) -> None:
        """Bytes for each scheduled pod are those of all the rest."""
        engine = engine_with()
        logged = nodes(engine, 8)
        append(log, of(logged))
        more = [each for index in range(20) for each in tried(engine, make_pod(f"p{index}"), index)]
        append(log, of(more))
        used = log.usage()
        assert used.node_bytes > 0
        assert used.other_bytes > 0
        assert used.scheduled_pods >= 20
        assert used.bytes_per_pod == used.other_bytes / used.scheduled_pods


class TestMemory(LogContract):
    @pytest.fixture
    def log(self) -> MemoryEventLog:
        """An empty log."""
        return MemoryEventLog()


class TestPostgres(LogContract):
    @pytest.fixture
    def log(self, url: str) -> Iterator[PostgresEventLog]:
        """An empty log, in a stream of its own."""
        log = PostgresEventLog(url, f"s{next(_streams)}")
        yield log
        log.close()


class ArchivedEventLog(PostgresEventLog):
    """A log in Postgres that is read from its archive: what is new is archived first."""

    folder: Path

    def _archive(self) -> Any:
        from eventsched.eventlog.archive.archive_log import ArchiveLog  # needs pyarrow
        from eventsched.eventlog.archive.archiver import archive

        for _ in archive(self.reader, self.folder, date(2100, 1, 1), date(2100, 1, 1)):
            pass
        return ArchiveLog(self.folder) if self.head else None

    def read(self, first: int = 0) -> Iterator[StoredRecord]:
        """See the port."""
        log = self._archive()
        return iter(()) if log is None else log.read(first)

    def detail(self, position: int) -> Detail | None:
        """See the port."""
        log = self._archive()
        return None if log is None else log.detail(position)


class TestArchive(LogContract):
    @pytest.fixture
    def log(self, url: str, tmp_path: Path) -> Iterator[PostgresEventLog]:
        """An empty log, in a stream of its own, whose batches are of a day long ago."""
        log = ArchivedEventLog(url, f"s{next(_streams)}", clock=lambda: 10**15)
        log.folder = tmp_path
        yield log
        log.close()
