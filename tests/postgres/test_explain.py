"""``eventsched explain``: what it shows is what the records say, from Postgres as from memory."""

import json
import re
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import jsonschema
import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.domain import records
from eventsched.domain.errors import InputError
from eventsched.domain.records import PodDecided, PodQueued
from eventsched.eventlog.port import StoredRecord
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.stored_batch import decode_records
from eventsched.history import evidence_until
from eventsched.history.decision_vectors import VectorSource
from eventsched.history.evidence_until import explain_newest
from eventsched.history.explain import stored_evidence
from eventsched.history.explain.evidence import ScannedEvidence, uid_key
from eventsched.history.explain.explanation import Gap, explain
from eventsched.history.explain.record_text import pod_of
from eventsched.history.explain.stored_evidence import StoredEvidence
from eventsched.output.explain_output import story_json
from tests.databases import Server, migrate
from tests.postgres.histories import ODD, TIGHT, odd
from tests.postgres.truth import Truth

SCHEMA = Path(__file__).parents[2] / "docs" / "explain.schema.json"
WEB = "00000000-0000-4000-8000-00000000000"


@pytest.fixture
def explained(address: str, capsys: pytest.CaptureFixture[str]) -> Any:
    """Explains a pod; the object that is printed."""

    def run(pod: str, *options: str, stream: str = ODD) -> Any:
        capsys.readouterr()
        arguments = ("--database", address, "--stream", stream, "-o", "json")
        assert main(["explain", pod, *options, *arguments]) == 0
        return json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def text(address: str, capsys: pytest.CaptureFixture[str]) -> Any:
    """Explains a pod; the text that is printed."""

    def run(pod: str, *options: str, stream: str = ODD) -> str:
        capsys.readouterr()
        assert main(["explain", pod, *options, "--database", address, "--stream", stream]) == 0
        return " ".join(capsys.readouterr().out.split())

    return run


def check_explanations(truth: Truth, evidence: StoredEvidence, uid: str) -> None:
    """All attempts of a pod are explained as they are logged."""
    whole = explain(evidence, uid_key(uid))
    mine = [(at, r) for at, _, _, r in truth.records if pod_of(r) == uid]
    assert [(step.position, step.record) for step in whole.steps] == mine
    for attempt in whole.attempts:
        told = explain(evidence, uid_key(uid), attempt.decided.attempt).explained
        assert told is not None
        verdicts = truth.verdicts_at(told.position)
        assert [(r.nodes, (r.plugin or None, r.code)) for r in told.refusals] == [
            (nodes, truth.told(number)[:2]) for number, nodes in told.decided.counts
        ]
        for refusal in told.refusals:
            said = (refusal.plugin or None, refusal.code, ", ".join(refusal.reasons))
            nodes = [node for node, *rest in verdicts if tuple(rest) == said]
            assert refusal.nodes == len(nodes)
            assert list(refusal.examples) == nodes[:3]
        scores = {row[:2]: row[2:] for row in truth.scores_at(told.position, told.decided)}
        for compared in told.compared:
            for part in compared.parts:
                found = (part.raw, part.normalized, part.weighted, compared.rank)
                assert found == scores[compared.node, part.plugin]
        names = [told.decided.node, told.decided.runner_up]
        assert [each.node for each in told.compared] == [name for name in names if name]
        totals = [told.decided.score, told.decided.runner_up_score]
        assert [each.total for each in told.compared] == totals[: len(told.compared)]


@pytest.mark.parametrize("stream", [ODD, TIGHT])
def test_every_attempt_of_every_pod_is_explained_as_logged(
    address: str, stream: str, explained: Any
) -> None:
    """Moves, attempts, counts, examples and scores, of all pods of both histories."""
    truth = Truth(address, stream, keeps_connection=True)
    with closing(truth.reader):
        evidence = StoredEvidence(truth.reader)
        for uid in truth.pods:
            check_explanations(truth, evidence, uid)


@pytest.mark.parametrize("stream", [ODD, TIGHT])
def test_a_scan_of_the_log_tells_the_same(address: str, stream: str) -> None:
    with closing(Reader(address, stream, keeps_connection=True)) as reader:
        stored, scanned = StoredEvidence(reader), ScannedEvidence(reader, stream)
        for uid in Truth(address, stream).pods:
            explained = explain(stored, uid_key(uid))
            assert explained == explain(scanned, uid_key(uid))
            made = [(each.position, each.decided.attempt) for each in explained.attempts]
            assert stored.attempts(explained.pod) == scanned.attempts(explained.pod) == made


def test_only_the_pods_batches_are_fetched(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a pod that went early, a small part of the log; nothing after its end."""
    truth = Truth(address, TIGHT)
    uid = truth.all(records.PodDeleted)[0][3].uid
    fetched: list[int] = []

    def counted(first: int, body: str, having: bytes = b"") -> list[StoredRecord]:
        fetched.append(first)
        return decode_records(first, body, having)

    monkeypatch.setattr(stored_evidence, "decode_records", counted)
    evidence = StoredEvidence(truth.reader)
    positions = [each.position for each in evidence.records(evidence.pods(uid)[0])]
    assert positions == [at for at, _, _, r in truth.records if pod_of(r) == uid]
    batches = list(truth.reader.batches())
    assert fetched == [batch.first for batch in batches if uid in batch.body]
    assert len(fetched) < len(batches)


def test_records_by_their_positions(address: str) -> None:
    """Any number of a batch, from several batches, without those that are not there."""
    with closing(Reader(address, TIGHT, keeps_connection=True)) as reader:
        every = {each.position: each for each in reader.read()}
        firsts = [batch.first for batch in reader.batches()]
        assert len(firsts) > 3
        asked = [0, 1, *firsts[1:3], firsts[-1] - 1, len(every) - 1, len(every) - 1]
        found = StoredEvidence(reader).records_at([*asked, -1, len(every), 10**12])
    assert found == {position: every[position] for position in asked}


@pytest.mark.parametrize("kind", ["PodAdded", "PodBound"])
def test_a_pod_whose_first_records_were_dropped(
    address: str, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """It was bound before the records that are left only if none of these binds it."""
    with closing(Reader(address, ODD, keeps_connection=True)) as reader:
        evidence = StoredEvidence(reader)
        truth = Truth(address, ODD)
        gone = {each[3].uid for each in truth.all(records.PodDeleted)}
        bound = next(r for *_, r in truth.all(records.PodBound) if r.uid not in gone)
        uid = bound.uid
        pod = evidence.pods(uid)[0]
        every = list(evidence.records(pod))
        last = next(each for each in every if each.kind == kind).position

        def left(first: int, body: str) -> list[StoredRecord]:
            return [each for each in decode_records(first, body) if each.position > last]

        monkeypatch.setattr(stored_evidence, "decode_records", left)
        monkeypatch.setattr(evidence, "records_at", lambda positions: {})
        [opening, *told] = [each.record for each in evidence.records(pod)]
    assert told == [each.record for each in every if each.position > last]
    assert isinstance(opening, records.PodAdded)
    assert opening.pod.node_name == (bound.node if kind == "PodBound" else "")


def test_of_very_many_records_the_text_has_the_newest(
    address: str, text: Any, explained: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first two are there, too. Others are not kept in memory; --full and JSON have them."""
    tried = max(Truth(address, TIGHT).all(PodDecided), key=lambda each: each[3].attempt)
    uid = tried[3].uid
    with closing(Reader(address, TIGHT, keeps_connection=True)) as reader:
        evidence = StoredEvidence(reader)
        [pod] = evidence.pods(uid)
        places = [each.position for each in evidence.records(pod)]
        monkeypatch.setattr(evidence_until, "MOST_RECORDS", 5)
        newest = explain_newest(evidence, uid)
        steps = [step.position for step in newest.steps]
        assert steps == [*places[:2], *places[-5:]]
        assert newest.gaps == (Gap(places[-5], len(places) - 7),)
    hint = (
        f"left out before this: {len(places) - 7} records; `eventsched explain --full` shows them"
    )
    assert hint in text(uid, stream=TIGHT)
    assert "left out" not in text(uid, "--full", stream=TIGHT)
    whole = explained(uid, stream=TIGHT)
    assert "left_out" not in whole
    assert len(places) == sum(len(whole[kind]) for kind in ("moves", "attempts", "events"))


def test_the_object(explained: Any) -> None:
    found = explained("default/huge")
    assert {name: found[name] for name in ("stream", "uid", "namespace", "name", "explained")} == {
        "stream": ODD, "uid": str(UUID(uid_key("huge"))), "namespace": "default", "name": "huge",
        "explained": 2,
    }  # fmt: skip
    assert [(move["queue"], move["cause"]) for move in found["moves"]] == [
        ("active", "PodAdd"), ("unschedulable", "AttemptFailed"), ("active", "NodeAdd"),
    ]  # fmt: skip
    woken = found["moves"][-1]
    assert woken["woken_by"]["text"] == "n6 joined"
    assert woken["woken_by"]["kind"] == "NodeAdded"
    assert woken["plugin"] == "NodeResourcesFit"
    refused, placed = found["attempts"]
    assert (refused["outcome"], refused["node"], refused["scores"]) == ("unschedulable", None, [])
    assert sum(each["nodes"] for each in refused["refusals"]) == 5
    assert (placed["outcome"], placed["node"], placed["runner_up"]) == ("scheduled", "n6", None)
    assert [score["node"] for score in placed["scores"]] == ["n6"]
    assert sum(each["weighted"] for each in placed["scores"][0]["plugins"]) == placed["score"]
    assert [(each["kind"], each["text"]) for each in found["events"]] == [
        ("PodAdded", "arrived"), ("PodDeleted", "is gone"),
    ]  # fmt: skip
    assert found["attempts"][0]["at"] == "1970-01-01T00:00:01+00:00"


def test_what_woke_a_pod_is_named_with_its_place(address: str, text: Any) -> None:
    [(position, *_)] = [
        each for each in Truth(address, ODD).all(records.NodeAdded) if each[3].node.name == "n6"
    ]
    said = text("huge")
    assert f"woken by NodeAdd (NodeResourcesFit): n6 joined (position {position})" in said
    said = text("late-1")
    assert "woken by AssignedPodAdd (Gang): default/gang-2 is on n4" in said
    assert "rejected due to timeout at plugin Gang" in said


def test_a_pod_that_made_room_is_named_with_its_node(address: str) -> None:
    truth = Truth(address, TIGHT, keeps_connection=True)
    homes = {r.uid: r.node for *_, r in truth.all(PodDecided) if r.node}
    with closing(truth.reader):
        evidence = StoredEvidence(truth.reader)
        moves = [step for uid in truth.pods for step in explain(evidence, uid_key(uid)).moves]
    told = 0
    for step in moves:
        assert isinstance(step.record, PodQueued)
        if step.record.cause == "AssignedPodDelete":
            assert step.origin is not None
            gone = truth.records[step.origin.position][3]
            assert isinstance(gone, records.PodDeleted)
            name = "/".join(truth.pods[gone.uid])
            assert step.origin.text == f"{name} is gone from {homes[gone.uid]}"
            told += 1
    assert told > 20


def test_permit_and_bind(text: Any) -> None:
    said = text("gang-1")
    assert "waits at Permit for Gang" in said
    assert "allowed by Gang at Permit on behalf of default/gang-2" in said
    assert "is to be bound to n5 (attempt 1)" in said
    said = text("b")
    assert "bind to n5 failed: the node is unreachable" in said
    assert "gives up n5: the node is unreachable" in said
    assert "changed: it is on n4" in said


def test_of_several_pods_of_one_name_the_newest(explained: Any, text: Any) -> None:
    found = explained("prod/web")
    assert found["uid"] == f"{WEB}2"
    assert [each["uid"] for each in found["older"]] == [f"{WEB}0", f"{WEB}1"]
    assert "the newest of 3 of that name" in text("prod/web")
    assert explained(f"{WEB}1")["uid"] == f"{WEB}1"
    assert explained("web-of-test")["namespace"] == "test"  # a uid that is not a UUID


def test_the_attempt_that_was_asked_for(text: Any) -> None:
    assert "Why not any node at attempt 1:" in text("huge", "--attempt", "1")
    assert "Why n6 at attempt 2" in text("huge")


def test_one_node(text: Any, explained: Any) -> None:
    said = text("huge", "--attempt", "1", "--node", "n3")
    assert said.endswith(
        "n3 at attempt 1: TaintToleration said UnschedulableAndUnresolvable: node(s) had "
        "untolerated taint(s)"
    )
    assert text(f"{WEB}1", "--node", "n1").endswith(
        "n1 at attempt 1: PreFilter said Excluded: PreFilter left the node out"
    )
    found = explained("a", "--node", "n1")
    [attempt] = found["attempts"]
    asked = attempt["asked"]
    assert asked["score"]["total"] + asked["behind"] == attempt["score"]
    assert 1 < asked["score"]["rank"] <= attempt["feasible"]
    said = text("a", "--node", "n1")
    assert f"feasible, rank {asked['score']['rank']} of 4, {asked['behind']} behind n5" in said
    assert text("a", "--node", "n5").endswith("feasible, rank 1 of 4; it was chosen")


@pytest.mark.parametrize("stream", [ODD, TIGHT])
def test_the_object_is_what_the_published_schema_says(address: str, stream: str) -> None:
    """Every pod of both histories; the schema allows no other field."""
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    with closing(Reader(address, stream, keeps_connection=True)) as reader:
        evidence = StoredEvidence(reader)
        added = [r.pod for _, _, _, r in Truth(address, stream).records
                 if isinstance(r, records.PodAdded)]  # fmt: skip
        for pod in added[:300]:
            found = json.loads(json.dumps(story_json(explain(evidence, uid_key(pod.uid)))))
            assert [error.message for error in validator.iter_errors(found)] == []


def test_why_not_a_node(address: str, text: Any, explained: Any) -> None:
    """On the state before the attempt; the log stays as it is."""
    with closing(Reader(address, TIGHT)) as reader:
        head = reader.head
        pod, node = _refused(Truth(address, TIGHT))
    found = explained(pod, "--attempt", "1", "--why-not", node, stream=TIGHT)
    assert not found["landing"]["lands"]
    assert found["landing"]["failedPlugins"] == ["NodeResourcesFit"]
    assert found["remedies"]
    said = text(pod, "--attempt", "1", "--why-not", node, stream=TIGHT)
    for number, remedy in enumerate(found["remedies"]):
        lands = "Or it lands there if you" if number else "It lands there if you"
        assert f"{lands} - {' - '.join(change['text'] for change in remedy)}" in said
    with closing(Reader(address, TIGHT)) as reader:
        assert reader.head == head


def test_why_not_an_unknown_node(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    pod, node = _refused(Truth(address, TIGHT))
    options = ("--why-not", f"{node}x", "--database", address, "--stream", TIGHT)
    assert main(["explain", pod, *options]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"{node}x was not there at that attempt" in printed.err
    assert "did you mean" in printed.err


def _refused(truth: Truth) -> tuple[str, str]:
    """A pod and a node that NodeResourcesFit refused to it at its first attempt."""
    for position, _, _, record in truth.records:
        if isinstance(record, PodDecided) and record.attempt == 1:
            for node, plugin, *_ in truth.verdicts_at(position):
                if plugin == "NodeResourcesFit":
                    return str(uid_key(record.uid)), node
    raise LookupError("NodeResourcesFit refused no node")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("there", "--why-not", "n1"), ("--why-not", "there is on", "was not decided here")),
        (("default/hugh",), ("POD", "default/hugh", "did you mean default/huge")),
        (("kube-system/huge",), ("kube-system/huge", "did you mean default/huge")),
        (("HUGE",), ("POD", "no pod HUGE in", "did you mean default/huge")),
        (("",), ("POD", "no pod '' in", "there are, among others")),
        (("huge", "--node", "zzzzzzzzz"), ("--node", "is not known", "among others: n1, n2, n3")),
        (("huge", "--why-not", "n1", "--node", "n3"), ("--node", "leave one of the two out")),
        (("zzzzzz",), ("zzzzzz", "the log last moved", "ago)", "there are, among others")),
        (("web",), ("2 pods", "prod/web, test/web")),
        (("huge", "--attempt", "7"), ("--attempt", "no attempt 7", "there are 1 to 2")),
        (("a", "--attempt", "0"), ("--attempt", "no attempt 0", "there is 1")),
        (("there", "--attempt", "1"), ("--attempt", "no attempt 1", "none was made yet")),
        (("there", "--node", "n1"), ("--node", "was not decided here")),
        (("huge", "--node", "n66"), ("--node", "n66", "did you mean n6")),
        (("huge", "--attempt", "1", "--node", "n6"), ("--node", "n6 was not there at")),
        (("huge", "--stream", "nope"), ("--stream", "nope", "odd, tight")),
    ],
)
def test_what_is_not_there_is_refused_in_one_line(
    address: str, capsys: pytest.CaptureFixture[str], options: tuple[str, ...],
    words: tuple[str, ...],
) -> None:  # fmt: skip
    stream = () if "--stream" in options else ("--stream", ODD)
    assert main(["explain", *options, *stream, "--database", address]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert all(word in printed.err for word in words), printed.err


def test_the_nearest_name_is_suggested_among_many(one_server: Server) -> None:
    """The search is bounded, but ordered by nearness rather than by name."""
    with one_server.fresh(migrate) as url:
        odd(url)
        with psycopg.connect(url) as connection:
            connection.execute(
                "INSERT INTO eventsched_log.pod (stream, uid, namespace, name, seq)"
                " SELECT 1, gen_random_uuid(), 'shop', 'web-' || n || '-checkout', 1000 + n"
                " FROM generate_series(1000, 7000) AS n"
            )
            connection.execute(  # thousands share as many pairs of characters with it
                "INSERT INTO eventsched_log.pod (stream, uid, namespace, name, seq)"
                " SELECT 1, gen_random_uuid(), 'shop', 'pod-' || lpad(n::text, 6, '0'), 9000 + n"
                " FROM generate_series(0, 20000) AS n"
            )
        evidence = StoredEvidence(Reader(url, ODD))
        with pytest.raises(InputError) as refused:
            explain(evidence, "shop/web-3789-chekcout")
        assert refused.value.remedy.startswith("did you mean shop/web-3789-checkout")
        assert len(evidence.similar("web-3789-chekcout")) == 5_000
        with pytest.raises(InputError) as refused:
            explain(evidence, "shop/pod-0007x7")
        assert re.match(r"did you mean shop/pod-0007\d7", refused.value.remedy)


def test_explain_shows_counts_if_vectors_are_missing(one_server: Server) -> None:
    """Old detail may be thinned; records stay."""
    with one_server.fresh(migrate) as url:
        odd(url)
        evidence = StoredEvidence(Reader(url, ODD))
        with Reader(url, ODD).connection() as connection:
            connection.exec_driver_sql("DELETE FROM eventsched_log.detail")
            connection.commit()
        told = explain(evidence, "huge", 1).explained
        assert told is not None
        assert told.source is VectorSource.DIGEST
        assert [refusal.examples for refusal in told.refusals] == [(), (), ()]
        with pytest.raises(InputError, match="kept no verdicts of single nodes"):
            explain(evidence, "huge", 1, "n1")


def test_an_exported_log_tells_the_same(
    address: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    where = ("--database", address, "--stream", ODD)
    assert main(["log", "export", str(tmp_path / "odd.jsonl.gz"), *where]) == 0
    capsys.readouterr()
    assert main(["explain", "gang-1", *where]) == 0
    expected = capsys.readouterr().out
    assert main(["explain", "gang-1", "--file", str(tmp_path / "odd.jsonl.gz")]) == 0
    assert capsys.readouterr().out == expected
