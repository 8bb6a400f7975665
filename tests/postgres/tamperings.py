"""Every way of tampering with a log that verification has to find."""

import json
from collections.abc import Callable
from typing import NamedTuple

from tests.postgres.tampered_logs import TamperedLog, edit_decision, first_of_kind


class Tampering(NamedTuple):
    """``change`` tampers with a log. It returns the position of the first problem that verification
    has to report, and a part of that problem's text."""

    name: str
    change: Callable[[TamperedLog], tuple[int, str]]


TAMPERINGS: list[Tampering] = []


def tampering(
    change: Callable[[TamperedLog], tuple[int, str]],
) -> Callable[[TamperedLog], tuple[int, str]]:
    """Adds a change to TAMPERINGS."""
    TAMPERINGS.append(Tampering(change.__name__, change))
    return change


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
def a_decision_row(log: TamperedLog) -> tuple[int, str]:
    seq = log.decision(skip=30)
    log.run(f"UPDATE decision SET score = score + 1 WHERE seq = {seq}")
    return seq, "table decision: score is"


@tampering
def a_decision_row_deleted(log: TamperedLog) -> tuple[int, str]:
    seq = log.decision(skip=30)
    log.run(f"DELETE FROM decision WHERE seq = {seq}")
    return seq, "table decision has no row"


@tampering
def a_decision_row_added(log: TamperedLog) -> tuple[int, str]:
    seq = log.decision(skip=30)
    log.run(
        "CREATE TEMP TABLE t AS SELECT * FROM eventsched_log.decision "
        f"WHERE seq = {seq}; UPDATE t SET seq = seq + 1; INSERT INTO decision SELECT * FROM t"
    )
    return seq + 1, "table decision has a row"


@tampering
def a_decision_row_after_the_end(log: TamperedLog) -> tuple[int, str]:
    end = log.rows("SELECT next FROM head")[0][0]
    log.run(
        "CREATE TEMP TABLE t AS SELECT * FROM eventsched_log.decision LIMIT 1;"
        f"UPDATE t SET seq = {end + 5}; INSERT INTO decision SELECT * FROM t"
    )
    return end + 5, "table decision has 1 rows for positions at or after the end"


@tampering
def a_move_of_another_cause(log: TamperedLog) -> tuple[int, str]:
    seq = _position(log, "queue_move")
    log.run(f"UPDATE queue_move SET cause = 'x' WHERE seq = {seq}")
    return seq, "table queue_move: cause is 'x'"


@tampering
def a_longer_stay(log: TamperedLog) -> tuple[int, str]:
    seq = _position(log, "queue_stay")
    log.run(f"UPDATE queue_stay SET since = since - 1 WHERE seq = {seq}")
    return seq, "table queue_stay: since is"


@tampering
def a_reservation_of_another_node(log: TamperedLog) -> tuple[int, str]:
    seq = _position(log, "reservation")
    log.run(f"UPDATE reservation SET node = 'x' WHERE seq = {seq}")
    return seq, "table reservation: node is 'x'"


@tampering
def a_reservation_of_another_decision(log: TamperedLog) -> tuple[int, str]:
    seq = _position(log, "reservation")
    log.run(f"UPDATE reservation SET decided_seq = decided_seq - 1 WHERE seq = {seq}")
    return seq, "table reservation: decided_seq is"


@tampering
def an_end_deleted(log: TamperedLog) -> tuple[int, str]:
    seq = _position(log, "pod_end")
    log.run(f"DELETE FROM pod_end WHERE seq = {seq}")
    return seq, "table pod_end has no row"


@tampering
def a_refusal_added(log: TamperedLog) -> tuple[int, str]:
    seq = _position(log, "refusal")
    log.run(f"INSERT INTO refusal SELECT seq, stream, 9999, 1 FROM refusal WHERE seq = {seq}"
            " LIMIT 1")  # fmt: skip
    return seq, "table refusal has a row (9999, 1)"


@tampering
def a_victim_of_nothing(log: TamperedLog) -> tuple[int, str]:
    first = log.batch(200).first
    log.run(f"INSERT INTO victim SELECT {first}, 0, uid, uid, stream, 'n' FROM pod LIMIT 1")
    return first, "table victim has a row"


@tampering
def a_comparison_of_nothing(log: TamperedLog) -> tuple[int, str]:
    first = log.batch(200).first
    log.run(f"INSERT INTO comparison SELECT {first}, 0, 0, 0, uid, stream, 1, true, 'same'"
            " FROM pod LIMIT 1")  # fmt: skip
    return first, "table comparison has a row"


@tampering
def a_mention_that_hides_nothing(log: TamperedLog) -> tuple[int, str]:
    first = log.batch(200).first
    log.run(f"INSERT INTO mention SELECT {first}, uid, stream FROM pod LIMIT 1")
    return first, "table mention has a row"


@tampering
def a_count_of_records(log: TamperedLog) -> tuple[int, str]:
    log.run("UPDATE record_count SET records = records + 1 WHERE kind = 'PodBound'")
    return log.rows("SELECT next FROM head")[0][0], "table record_count has"


def _position(log: TamperedLog, table: str) -> int:
    """The position of a row in the middle of a table."""
    return int(log.rows(f"SELECT seq FROM {table} ORDER BY seq OFFSET 20 LIMIT 1")[0][0])


@tampering
def a_node_row(log: TamperedLog) -> tuple[int, str]:
    log.run("UPDATE node SET name = 'x' WHERE ordinal = 3")
    return log.rows("SELECT seq FROM node WHERE ordinal = 3")[0][0], "table node: name is 'x'"


@tampering
def two_node_rows_swapped(log: TamperedLog) -> tuple[int, str]:
    log.run("UPDATE node SET ordinal = -1 WHERE ordinal = 3;"
            "UPDATE node SET ordinal = 3 WHERE ordinal = 4;"
            "UPDATE node SET ordinal = 4 WHERE ordinal = -1")  # fmt: skip
    return log.rows("SELECT min(seq) FROM node WHERE ordinal IN (3, 4)")[0][0], "ordinal is 4"


@tampering
def a_pod_row(log: TamperedLog) -> tuple[int, str]:
    seq = log.rows("SELECT seq FROM pod ORDER BY seq OFFSET 20 LIMIT 1")[0][0]
    log.run(f"UPDATE pod SET name = 'x' WHERE seq = {seq}")
    return seq, "table pod: name is 'x'"


@tampering
def a_pod_row_deleted(log: TamperedLog) -> tuple[int, str]:
    seq = log.rows("SELECT seq FROM pod ORDER BY seq OFFSET 20 LIMIT 1")[0][0]
    log.run(f"DELETE FROM pod WHERE seq = {seq}")
    return seq, "table pod has no row"


@tampering
def a_verdict_row(log: TamperedLog) -> tuple[int, str]:
    log.run("UPDATE verdict SET reasons = '{fine}' WHERE number = 1")
    return first_of_kind(log, "VerdictDefined"), "table verdict, row 1: reasons is ['fine']"


@tampering
def a_verdict_row_deleted(log: TamperedLog) -> tuple[int, str]:
    log.run("DELETE FROM verdict WHERE number = 1")
    return first_of_kind(log, "VerdictDefined"), "table verdict has no row 1"


@tampering
def a_verdict_row_added(log: TamperedLog) -> tuple[int, str]:
    log.run("INSERT INTO verdict SELECT stream, 77, plugin, code, reasons FROM verdict LIMIT 1")
    return log.rows("SELECT next FROM head")[0][0], "table verdict has a row 77"


@tampering
def a_scoring_row(log: TamperedLog) -> tuple[int, str]:
    log.run("UPDATE scoring SET weight = weight + 1 WHERE place = 1")
    return first_of_kind(log, "ScoringDefined"), "table scoring, row 1/1: weight is"


@tampering
def a_detail(log: TamperedLog) -> tuple[int, str]:
    seq = log.decision("EXISTS (SELECT FROM detail t WHERE t.seq = d.seq AND base IS NULL)", 3)
    log.run(
        "UPDATE detail SET body = set_byte(body, length(body) - 2, "
        f"get_byte(body, length(body) - 2) # 1) WHERE seq = {seq}"
    )
    return seq, ""


@tampering
def a_delta(log: TamperedLog) -> tuple[int, str]:
    query = "EXISTS (SELECT FROM detail t WHERE t.seq = d.seq AND base IS NOT NULL)"
    seq = log.decision(query, 8)
    log.run(f"UPDATE detail SET body = body || '\\x00'::bytea WHERE seq = {seq}")
    return seq, "detail:"


@tampering
def a_detail_deleted(log: TamperedLog) -> tuple[int, str]:
    seq = log.rows("SELECT base FROM detail WHERE base IS NOT NULL ORDER BY seq OFFSET 8 LIMIT 1")
    log.run(f"DELETE FROM detail WHERE seq = {seq[0][0]}")
    return seq[0][0], "there is no detail row"


@tampering
def a_detail_added(log: TamperedLog) -> tuple[int, str]:
    seq = log.decision(skip=30)
    log.run(f"INSERT INTO detail SELECT seq + 1, base, stream, body FROM detail WHERE seq = {seq}")
    return seq + 1, "a detail row, but there is no decision"


@tampering
def a_base_redirected(log: TamperedLog) -> tuple[int, str]:
    ((seq, base),) = log.rows(
        "SELECT seq, base FROM detail WHERE base IS NOT NULL ORDER BY seq OFFSET 8 LIMIT 1"
    )
    other = log.rows("SELECT seq FROM detail WHERE seq < %s AND seq <> %s"
                     " ORDER BY seq LIMIT 1", seq, base)  # fmt: skip
    log.run(f"UPDATE detail SET base = {other[0][0]} WHERE seq = {seq}")
    return seq, "the vectors have digest"


@tampering
def a_base_that_comes_later(log: TamperedLog) -> tuple[int, str]:
    query = "SELECT seq FROM detail WHERE base IS NOT NULL ORDER BY seq OFFSET 8 LIMIT 1"
    ((seq,),) = log.rows(query)
    log.run(f"UPDATE detail SET base = {seq} WHERE seq = {seq}")
    return seq, "is not an earlier position"


@tampering
def two_details_swapped(log: TamperedLog) -> tuple[int, str]:
    query = "SELECT seq FROM detail WHERE base IS NULL ORDER BY seq LIMIT 2"
    (one,), (other,) = log.rows(query)
    log.run(
        f"UPDATE detail SET seq = 999999 WHERE seq = {one};"
        f"UPDATE detail SET seq = {one} WHERE seq = {other};"
        f"UPDATE detail SET seq = {other} WHERE seq = 999999"
    )
    return one, "the vectors have digest"


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
