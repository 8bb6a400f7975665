"""What the views and functions of schema eventsched say, against the records read by Python."""

import re
from collections import Counter, defaultdict
from decimal import Decimal
from uuid import UUID

import msgspec
import psycopg

from eventsched.domain import records
from eventsched.domain.records import PodDecided
from eventsched.domain.records.verdicts import Normalization
from eventsched.history.explain.evidence import uid_key
from eventsched.history.explain.record_text import concerns, pod_of
from tests.databases import ROOT
from tests.postgres.asked_views import Ask
from tests.postgres.histories import ODD, TIGHT
from tests.postgres.truth import Truth, time_of


def test_streams(ask: Ask, truth: Truth) -> None:
    query = "SELECT records, epoch, holder, batches, head FROM streams WHERE stream = %s"
    [(number, epoch, holder, batches, head)] = ask(query, truth.stream)
    assert (number, epoch) == (len(truth.records), 1)
    assert holder.startswith("test" if truth.stream == ODD else "simulate")
    assert batches == len(list(truth.reader.batches()))
    assert head == truth.reader.head.hash.hex()


def test_every_record_is_an_event(ask: Ask, truth: Truth) -> None:
    query = (
        "SELECT seq, at, cause, kind, namespace, pod, pod_uid, record, epoch FROM events"
        " WHERE stream = %s ORDER BY seq"
    )
    expected = []
    for stored, (position, at, cause, record) in zip(truth.stored, truth.records, strict=True):
        uid = pod_of(record)
        who = (None, None, None) if uid is None else truth.who(uid)
        body = msgspec.json.decode(stored.body)
        expected.append((position, time_of(at), cause, stored.kind, *who, body, 1))
    assert ask(query, truth.stream) == expected


def test_how_many_of_each_kind(ask: Ask, truth: Truth) -> None:
    query = "SELECT kind, count(*) FROM events WHERE stream = %s GROUP BY kind"
    assert dict(ask(query, truth.stream)) == Counter(stored.kind for stored in truth.stored)


def test_what_happened_to_one_pod(ask: Ask, truth: Truth) -> None:
    uid = next(uid for *_, r in truth.all(PodDecided)[-1:] for uid in [r.uid])
    namespace, name = truth.pods[uid]
    query = "SELECT seq FROM events WHERE stream = %s AND pod_uid = %s ORDER BY seq"
    found = [seq for (seq,) in ask(query, truth.stream, UUID(uid_key(uid)))]
    assert found == [at for at, _, _, r in truth.records if pod_of(r) == uid]
    query = "SELECT DISTINCT pod_uid FROM events WHERE stream = %s AND namespace = %s AND pod = %s"
    same = {UUID(uid_key(u)) for u, names in truth.pods.items() if names == (namespace, name)}
    assert {each for (each,) in ask(query, truth.stream, namespace, name)} == same


def test_decisions(ask: Ask, truth: Truth) -> None:
    query = "SELECT * FROM decisions WHERE stream = %s ORDER BY seq"
    expected = [
        (
            truth.stream, seq, time_of(at), *truth.who(r.uid), r.attempt, r.profile,
            r.outcome.value, r.node or None, r.score, r.runner_up or None, r.runner_up_score,
            r.feasible, r.evaluated, r.ties, Decimal(r.draw),
        )
        for seq, at, _, r in truth.all(PodDecided)
    ]  # fmt: skip
    assert ask(query, truth.stream) == expected


def test_the_columns_that_are_promised(ask: Ask) -> None:
    query = (
        "SELECT string_agg(column_name, ' ' ORDER BY ordinal_position)"
        " FROM information_schema.columns WHERE table_schema = 'eventsched' AND table_name = %s"
    )
    promised = {
        "decisions": "stream seq at namespace pod pod_uid attempt profile outcome node score "
        "runner_up runner_up_score feasible evaluated ties draw",
        "bindings": "stream namespace pod pod_uid attempt node decided_seq bound_seq decided_at "
        "bound_at gone_at",
    }
    for view, columns in promised.items():
        assert ask(query, view) == [(columns,)]


def test_retries_of_each_pod(ask: Ask, truth: Truth) -> None:
    query = "SELECT pod_uid, max(attempt), count(*) FROM decisions WHERE stream = %s GROUP BY 1"
    attempts = defaultdict(list)
    for *_, r in truth.all(PodDecided):
        attempts[UUID(uid_key(r.uid))].append(r.attempt)
    expected = {(uid, max(each), len(each)) for uid, each in attempts.items()}
    assert set(ask(query, truth.stream)) == expected


def test_what_was_refused(ask: Ask, truth: Truth) -> None:
    query = (
        "SELECT seq, at, namespace, pod, pod_uid, attempt, plugin, code, reason, nodes"
        " FROM refusals WHERE stream = %s"
    )
    expected = [
        (seq, time_of(at), *truth.who(r.uid), r.attempt, *truth.told(number), nodes)
        for seq, at, _, r in truth.all(PodDecided)
        for number, nodes in r.counts
    ]
    assert Counter(ask(query, truth.stream)) == Counter(expected)


def test_which_plugin_refuses_most(ask: Ask, truth: Truth) -> None:
    query = "SELECT plugin, sum(nodes) FROM refusals WHERE stream = %s GROUP BY plugin"
    told: Counter[str | None] = Counter()
    for *_, r in truth.all(PodDecided):
        for number, nodes in r.counts:
            told[truth.told(number)[0]] += nodes
    assert dict(ask(query, truth.stream)) == told


def test_refusals_and_verdicts_agree(ask: Ask, truth: Truth) -> None:
    """The counts of a record are those of its vectors."""
    query = """
        SELECT d.seq, v.plugin, v.code, v.reason, count(*)
        FROM decisions d, verdicts(d.stream, d.seq) v
        WHERE d.stream = %s AND v.code <> 'Success' GROUP BY 1, 2, 3, 4
        EXCEPT SELECT seq, plugin, code, reason, nodes FROM refusals
    """
    assert ask(query, truth.stream) == []


def test_verdicts_of_every_decision(ask: Ask, truth: Truth) -> None:
    for seq, *_ in truth.all(PodDecided):
        found = ask("SELECT * FROM verdicts(%s, %s)", truth.stream, seq)
        assert found == truth.verdicts_at(seq), seq


def test_scores_of_every_decision(ask: Ask, truth: Truth) -> None:
    """Whole ones and deltas, all normalisations, values of one byte and of eight."""
    widest = 0
    for seq, _, _, decided in truth.all(PodDecided):
        found = ask("SELECT * FROM scores(%s, %s)", truth.stream, seq)
        assert sorted(found) == sorted(truth.scores_at(seq, decided)), seq
        assert [row[5] for row in found] == sorted(row[5] for row in found)
        widest = max([widest, *(abs(row[2]) for row in found)])
    if truth.stream == ODD:
        assert widest > 2**50
        kinds = {column.normalization for each in truth.scorings.values() for column in each}
        assert kinds == {*Normalization}


def test_nothing_is_said_of_vectors_that_are_gone(address: str, ask: Ask) -> None:
    """A delta without what it is a delta to would say Success of every node that it leaves out."""
    query = "SELECT max(seq) FROM eventsched_log.detail WHERE base IS NOT NULL"
    [(seq,)] = ask(query)
    stream = next(s for s in (ODD, TIGHT) if ask("SELECT * FROM verdicts(%s, %s)", s, seq))
    with psycopg.connect(address) as connection:
        connection.execute("DELETE FROM eventsched_log.detail WHERE base IS NULL")
        for function in ("verdicts", "scores"):
            query = f"SELECT * FROM eventsched.{function}(%s, %s)"
            assert connection.execute(query, (stream, seq)).fetchall() == []
        connection.rollback()
    assert ask("SELECT * FROM verdicts(%s, %s)", "no such stream", seq) == []
    assert ask("SELECT * FROM scores(%s, %s)", stream, 0) == []


def test_bindings(ask: Ask, truth: Truth) -> None:
    query = "SELECT * FROM bindings WHERE stream = %s ORDER BY bound_seq"
    decided = {(r.uid, r.attempt): (seq, at) for seq, at, _, r in truth.all(PodDecided)}
    expected = []
    for seq, at, _, r in truth.all(records.PodBound):
        before, earlier = decided[r.uid, r.attempt]
        gone = [end for ended, end, _, d in truth.all(records.PodDeleted)
                if d.uid == r.uid and ended > seq]  # fmt: skip
        expected.append(
            (truth.stream, *truth.who(r.uid), r.attempt, r.node, before, seq, time_of(earlier),
             time_of(at), time_of(gone[0]) if gone else None)
        )  # fmt: skip
    assert ask(query, truth.stream) == expected
    assert any(row[-1] for row in expected)


def test_kinds(ask: Ask, truth: Truth) -> None:
    query = "SELECT kind, records FROM kinds WHERE stream = %s"
    assert dict(ask(query, truth.stream)) == Counter(each.kind for each in truth.stored)


def test_events_of_a_pod(ask: Ask, truth: Truth) -> None:
    """All records about it, and the preemptions with it as a victim."""
    query = "SELECT seq FROM events_of_pod(%s, %s) ORDER BY seq"
    for uid in truth.pods:
        expected = [(at,) for at, _, _, record in truth.records if concerns(record, uid)]
        assert ask(query, truth.stream, uid) == expected


def test_which_nodes_were_runner_up_most_often(ask: Ask, truth: Truth) -> None:
    query = "SELECT runner_up, count(*) FROM decisions WHERE stream = %s GROUP BY 1"
    expected = Counter(r.runner_up or None for *_, r in truth.all(PodDecided))
    assert dict(ask(query, truth.stream)) == expected


def test_ties_that_a_draw_decided(ask: Ask, truth: Truth) -> None:
    """Number draw % ties of the best nodes, in row order, is the one that was chosen."""
    query = """
        SELECT d.seq, d.node, b.node FROM decisions d CROSS JOIN LATERAL (
            SELECT node FROM (SELECT DISTINCT ON (node) node FROM scores(d.stream, d.seq)
                              WHERE rank = 1) best
            JOIN eventsched_log.node n ON n.name = node
            JOIN eventsched_log.stream s ON s.id = n.stream AND s.name = d.stream
            ORDER BY n.ordinal OFFSET (d.draw %% d.ties)::integer LIMIT 1
        ) b WHERE d.stream = %s AND d.ties > 1
    """
    found = ask(query, truth.stream)
    assert {seq for seq, *_ in found} == {s for s, _, _, r in truth.all(PodDecided) if r.ties > 1}
    assert all(chosen == drawn for _, chosen, drawn in found)


def test_every_view_and_function_has_a_comment(ask: Ask) -> None:
    views = ask(
        "SELECT c.relname, obj_description(c.oid) FROM pg_class c"
        " WHERE c.relnamespace = 'eventsched'::regnamespace"
    )
    functions = ask(
        "SELECT p.proname, obj_description(p.oid) FROM pg_proc p"
        " WHERE p.pronamespace IN ('eventsched'::regnamespace, 'eventsched_log'::regnamespace)"
    )
    assert len(views) >= 8
    assert [name for name, said in (*views, *functions) if not said] == []


def views(ask: Ask) -> list[str]:
    """The names of all views of schema eventsched."""
    query = "SELECT viewname FROM pg_views WHERE schemaname = 'eventsched' ORDER BY 1"
    return [name for (name,) in ask(query)]


def test_the_page_has_a_row_for_every_view_and_function(ask: Ask) -> None:
    """docs/sql.md."""
    functions = "SELECT proname FROM pg_proc WHERE pronamespace = 'eventsched'::regnamespace"
    found = {*views(ask), *(name for (name,) in ask(functions))}
    table = (ROOT / "docs/sql.md").read_text().partition("\n\n`pod` is")[0]
    assert set(re.findall(r"^\| `(\w+)(?:\([^`]*\))?` \|", table, re.MULTILINE)) == found


def test_readers_may_read_every_view(ask: Ask) -> None:
    """A migration that adds a view has to grant it."""
    found = views(ask)
    assert found
    for view in found:
        assert ask(f"SELECT * FROM {view} LIMIT 0") == []
