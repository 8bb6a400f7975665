"""Every way of tampering with the rows that are derived from records, and with stored vectors."""

from tests.postgres.tampered_logs import TamperedLog, first_of_kind
from tests.postgres.tamperings import Tampering, into

ROWS: list[Tampering] = []
tampering = into(ROWS)


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
