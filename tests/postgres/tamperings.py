"""Every way of tampering with a log that verification has to find; those with derived rows are in
row_tamperings.py."""

import json
from collections.abc import Callable
from typing import NamedTuple

from tests.postgres.tampered_logs import TamperedLog, edit_decision

_Change = Callable[[TamperedLog], tuple[int, str]]


class Tampering(NamedTuple):
    """``change`` tampers with a log. It returns the position of the first problem that verification
    has to report, and a part of that problem's text."""

    name: str
    change: _Change


def into(tamperings: list[Tampering]) -> Callable[[_Change], _Change]:
    """A decorator that adds a change to a list."""

    def added(change: _Change) -> _Change:
        tamperings.append(Tampering(change.__name__, change))
        return change

    return added


BATCHES: list[Tampering] = []
"""Those of batches, epochs, heads and snapshots."""
tampering = into(BATCHES)


@tampering
def a_byte_of_a_body(log: TamperedLog) -> tuple[int, str]:
    batch = log.batch(log.decision(skip=30) - 4)
    body = batch.body.decode()
    at = body.index('"uid":"') + 7
    other = "0" if body[at] != "0" else "1"
    edited = body[:at] + other + body[at + 1 :]
    log.run("UPDATE eventsched_log.batch SET body = %s WHERE first = %s", edited, batch.first)
    return batch.first, "hash of the batch"


@tampering
def a_record_for_another(log: TamperedLog) -> tuple[int, str]:
    batch = log.batch(200)
    *rest, (at, cause, version, _) = json.loads(batch.body)
    body = json.dumps([*rest, [at, cause, version, {"kind": "TimePassed"}]])
    log.run("UPDATE eventsched_log.batch SET body = %s WHERE first = %s", body, batch.first)
    return batch.first, "hash of the batch"


@tampering
def a_batch_deleted(log: TamperedLog) -> tuple[int, str]:
    batch = log.batch(100)
    log.run(f"DELETE FROM batch WHERE first = {batch.first}")
    return batch.first, f"the next batch begins at {batch.end}, expected {batch.first}"


@tampering
def the_first_batch_deleted(log: TamperedLog) -> tuple[int, str]:
    log.run("DELETE FROM batch WHERE first = 0")
    return 0, "records are missing"


@tampering
def two_batches_swapped(log: TamperedLog) -> tuple[int, str]:
    one = log.batch(100)
    other = log.batch(one.end)
    log.run(
        f"UPDATE batch SET first = 999999 WHERE first = {one.first};"
        f"UPDATE batch SET first = {one.first} WHERE first = {other.first};"
        f"UPDATE batch SET first = {one.first + other.count} WHERE first = 999999"
    )
    return one.first, "hash of the batch"


@tampering
def the_last_batch_cut_off(log: TamperedLog) -> tuple[int, str]:
    ((first, after),) = log.rows(
        "SELECT first, first + count FROM batch ORDER BY first DESC LIMIT 1"
    )
    log.run(f"DELETE FROM batch WHERE first = {first}")
    return first, f"the log ends at {first}, expected {after} by the head"


@tampering
def a_hash(log: TamperedLog) -> tuple[int, str]:
    first = log.batch(100).first
    log.run(f"UPDATE batch SET hash = sha256('x') WHERE first = {first}")
    return first, "hash of the batch"


@tampering
def a_time_of_writing(log: TamperedLog) -> tuple[int, str]:
    first = log.batch(100).first
    log.run(
        f"UPDATE batch SET written_at = written_at + interval '1 microsecond' WHERE first = {first}"
    )
    return first, "hash of the batch"


@tampering
def a_mark(log: TamperedLog) -> tuple[int, str]:
    first = log.batch(100).first
    log.run(f"UPDATE batch SET mark = '[0,0]' WHERE first = {first}")
    return first, "hash of the batch"


@tampering
def a_count(log: TamperedLog) -> tuple[int, str]:
    batch = log.batch(100)
    log.run(f"UPDATE batch SET count = count + 1 WHERE first = {batch.first}")
    return batch.first, "hash of the batch"


@tampering
def an_epoch_of_a_batch(log: TamperedLog) -> tuple[int, str]:
    first = log.batch(100).first
    log.run(f"UPDATE batch SET epoch = 2 WHERE first = {first}")
    return first, "the batch is of epoch 2, expected 1"


@tampering
def a_token(log: TamperedLog) -> tuple[int, str]:
    log.run("UPDATE epoch SET token = '5f292200-7a39-5b75-896e-bc862ebc8ce3'")
    return 0, "hash of the batch"


@tampering
def an_epoch_deleted(log: TamperedLog) -> tuple[int, str]:
    log.run("DELETE FROM epoch")
    return 0, "the batch is of epoch 1, expected none"


@tampering
def an_epoch_added(log: TamperedLog) -> tuple[int, str]:
    batch = log.batch(100)
    log.run(
        "INSERT INTO epoch (stream, epoch, first, token, holder, version)"
        f" SELECT stream, 2, {batch.first}, token, holder, version FROM epoch"
    )
    return batch.first, "the batch is of epoch 1, expected 2"


@tampering
def the_head_set_back(log: TamperedLog) -> tuple[int, str]:
    end = log.rows("SELECT next FROM head")[0][0]
    log.run("UPDATE head SET next = next - 1")
    return end, f"the log ends at {end}, expected {end - 1} by the head"


@tampering
def the_hash_of_the_head(log: TamperedLog) -> tuple[int, str]:
    log.run("UPDATE head SET hash = sha256('x')")
    return log.rows("SELECT next FROM head")[0][0], "the head's hash"


@tampering
def the_token_of_the_head(log: TamperedLog) -> tuple[int, str]:
    log.run("UPDATE head SET token = '5f292200-7a39-5b75-896e-bc862ebc8ce3'")
    return log.rows("SELECT next FROM head")[0][0], "the head's epoch is 1 and its token 5f2922"


@tampering
def the_head_deleted(log: TamperedLog) -> tuple[int, str]:
    end = log.rows("SELECT next FROM head")[0][0]
    log.run("DELETE FROM head")
    return end, "no head"


@tampering
def the_stream_renamed(log: TamperedLog) -> tuple[int, str]:
    log.run("UPDATE stream SET name = 'other'")
    return 0, "hash of the batch"


@tampering
def the_hash_of_a_snapshot(log: TamperedLog) -> tuple[int, str]:
    log.run("UPDATE snapshot SET hash = sha256('x')")
    return log.rows("SELECT max(seq) FROM snapshot")[0][0], "the snapshot's hash"


@tampering
def the_position_of_a_snapshot(log: TamperedLog) -> tuple[int, str]:
    batch = log.batch(100)
    log.run(f"UPDATE snapshot SET seq = {batch.first}")
    return batch.first, "the snapshot's hash"


@tampering
def a_snapshot_of_the_future(log: TamperedLog) -> tuple[int, str]:
    log.run("UPDATE snapshot SET seq = seq + 1")
    return log.rows("SELECT max(seq) FROM snapshot")[0][0], "not the end of a batch"


@tampering
def a_body_with_its_hash(log: TamperedLog) -> tuple[int, str]:
    batch = log.batch(log.decision(skip=30) + 1)
    (at, cause, version, _), *rest = json.loads(batch.body)
    body = json.dumps([[at, cause, version, {"kind": "TimePassed"}], *rest])
    log.run("UPDATE eventsched_log.batch SET body = %s WHERE first = %s", body, batch.first)
    log.rehash(batch.first, batch.first)
    return batch.end, "hash of the batch"


@tampering
def a_decision_with_all_hashes(log: TamperedLog) -> tuple[int, str]:
    seq = log.decision("outcome = 'scheduled'", 30)
    edit_decision(log, seq, lambda record: record.update(ties=record["ties"] + 1))
    return seq, "table decision: ties is"


@tampering
def a_decision_with_all_hashes_and_its_row(log: TamperedLog) -> tuple[int, str]:
    seq = log.decision("outcome = 'scheduled'", 30)
    edit_decision(log, seq, lambda record: record.update(score=record["score"] + 1))
    log.run(f"UPDATE decision SET score = score + 1 WHERE seq = {seq}")
    return seq, "by the vectors"


@tampering
def another_node_with_all_hashes_and_its_row(log: TamperedLog) -> tuple[int, str]:
    seq = log.decision("outcome = 'scheduled' AND node <> 'node-00000'", 30)
    edit_decision(log, seq, lambda record: record.update(node="node-00000"))
    log.run(f"UPDATE decision SET node = 'node-00000' WHERE seq = {seq}")
    return seq, "node 'node-00000' was chosen, but row"


@tampering
def a_time_with_all_hashes(log: TamperedLog) -> tuple[int, str]:
    batch = log.batch(200)
    items = json.loads(batch.body)
    items[0][0] = 0
    log.run(
        "UPDATE eventsched_log.batch SET body = %s WHERE first = %s", json.dumps(items), batch.first
    )
    log.rehash(batch.first)
    return batch.first, "time 0, expected"


@tampering
def a_cause_with_all_hashes(log: TamperedLog) -> tuple[int, str]:
    batch = log.batch(200)
    items = json.loads(batch.body)
    items[0][1] = 3
    log.run(
        "UPDATE eventsched_log.batch SET body = %s WHERE first = %s", json.dumps(items), batch.first
    )
    log.rehash(batch.first)
    return batch.first, "cause 3, expected"
