"""SQL, verify and explain on logs that have only the best nodes of each decision, or only digests,
compared with the log of the same run that has all vectors."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.domain.detail_levels import FULL, SUMMARY, DetailLevel, DetailLevels
from eventsched.domain.records import PodDecided, PreemptionDecided
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.history.replay import stream_replay
from eventsched.history.verify.verification import verify_database
from tests.databases import Server, migrate
from tests.detail_levels import assembly, run_at

KEPT = 4
LEVELS = {
    "full": DetailLevels(),
    "top": DetailLevels(DetailLevel(KEPT)),
    "summary": DetailLevels(SUMMARY),
    "mixed": DetailLevels(SUMMARY, {"batch": FULL}),
}
Ask = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def address(one_server: Server) -> Iterator[str]:
    """A database with the same run at each level."""
    with one_server.fresh(migrate) as url:
        for stream, levels in LEVELS.items():
            with closing(PostgresEventLog(url, stream, holder="test")) as log:
                run_at(levels, log, store_snapshot=log.store_snapshot, snapshot_every=200)
        yield url


@pytest.fixture
def ask(address: str) -> Iterator[Ask]:
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SET search_path = eventsched; SET ROLE eventsched_reader")
        yield lambda query, *values: connection.execute(query, values).fetchall()


def decisions(address: str, kind: type[Any]) -> list[tuple[int, Any]]:
    """Position and record of the decisions with vectors."""
    with closing(Reader(address, "full", keeps_connection=True)) as reader:
        stored = [each for each in reader.read() if each.kind == kind.__name__]
    return [(each.position, each.record) for each in stored if each.record.digest]


def test_only_the_table_of_vectors_differs(address: str, ask: Ask) -> None:
    """Batches end elsewhere, because fewer vectors fill them later."""
    found = {}
    for stream in LEVELS:
        with closing(Reader(address, stream)) as reader:
            found[stream] = list(reader.read())
    assert found["full"] == found["top"] == found["summary"] == found["mixed"]
    [same] = ask(
        "SELECT count(DISTINCT n) FROM (SELECT count(*) AS n FROM decisions GROUP BY stream) d"
    )
    assert same == (1,)


def test_scores_are_those_of_the_best_nodes(address: str, ask: Ask) -> None:
    some = 0
    for position, decided in decisions(address, PodDecided):
        whole = ask("SELECT * FROM scores('full', %s)", position)
        nodes = list(dict.fromkeys(row[0] for row in whole if row[0] != decided.node))
        best = {decided.node, *nodes[: KEPT - 1]} if decided.node else set(nodes[:KEPT])
        expected = [row for row in whole if row[0] in best]
        found = ask("SELECT * FROM scores('top', %s)", position)
        if decided.nominated:  # its rank is that among the nodes that are stored
            expected, found = [row[:5] for row in expected], [row[:5] for row in found]
        assert sorted(found) == sorted(expected)
        some += len(found) < len(whole)
        assert ask("SELECT * FROM scores('summary', %s)", position) == []
        batch = whole if decided.profile == "batch" else []
        assert ask("SELECT * FROM scores('mixed', %s)", position) == batch
    assert some > 20


def test_verdicts_are_those_of_the_best_nodes_and_of_examples(address: str, ask: Ask) -> None:
    for position, decided in decisions(address, PodDecided):
        whole = ask("SELECT * FROM verdicts('full', %s)", position)
        found = ask("SELECT * FROM verdicts('top', %s)", position)
        assert {*found} <= {*whole}
        kinds = {row[1:]: 0 for row in whole}
        for row in whole:
            kinds[row[1:]] += 1
        for kind, number in kinds.items():
            most = KEPT if kind[1] == "Success" else 3
            assert sum(row[1:] == kind for row in found) == min(number, most)
        nodes = {row[0] for row in found if row[2] == "Success"}
        assert decided.node in nodes or not decided.node


def test_candidates_are_the_best_ones(address: str, ask: Ask) -> None:
    preemptions = decisions(address, PreemptionDecided)
    for position, decided in preemptions:
        whole = ask("SELECT * FROM candidates('full', %s)", position)
        found = ask("SELECT * FROM candidates('top', %s)", position)
        assert {*map(repr, found)} <= {*map(repr, whole)}
        assert len(found) == min(KEPT, decided.candidates)
        assert decided.node in {row[0] for row in found}
    assert len(preemptions) > 5


def test_each_level_is_verified(address: str) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        results = {
            stream: verify_database(connection, [stream], thinned=stream in ("summary", "mixed"))[0]
            for stream in LEVELS
        }
    assert [result.problems for result in results.values()] == [[]] * 4
    number = results["full"].details
    assert results["full"].partial == 0
    assert (results["top"].details, results["top"].partial) == (number, number)
    assert (results["summary"].details, results["summary"].thinned) == (0, number)
    assert 0 < results["mixed"].details < number


STATED = re.compile(r"with the same digest: (\d+) records applied from position (\d+) on")


def test_replay_compares_what_is_stored(address: str) -> None:
    with closing(Reader(address, "top", keeps_connection=True)) as reader:
        found = list(reader.partial_details())
        done = stream_replay.verify(assembly().engine, reader, partial_details=iter(found))
        assert done.divergence is None
        done = stream_replay.verify(
            assembly().engine, reader, partial_details=iter([(found[9][0], found[8][1])])
        )
    assert done.divergence is not None
    assert done.divergence.position == found[9][0]
    number = len(decisions(address, PodDecided)) + len(decisions(address, PreemptionDecided))
    assert len(found) == number


def explained(
    capsys: pytest.CaptureFixture[str], address: str, stream: str, *options: str
) -> tuple[list[str], str]:
    """What explain prints about the verdicts and scores, and on stderr."""
    where = ("--database", address, "--stream", stream)
    assert main(["explain", *options, *where]) == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith(("Why ", "Who ", "Of ")))
    return lines[begin:], printed.err


def placed(address: str, *, nth: int) -> tuple[str, str]:
    """A pod that got a node at its first attempt: its name, and a node that was neither chosen nor
    the second best."""
    with psycopg.connect(address) as connection:
        rows = connection.execute(
            "SELECT namespace || '/' || pod, (SELECT node FROM eventsched.scores(stream, seq)"
            "   ORDER BY rank DESC, node DESC LIMIT 1)"
            " FROM eventsched.decisions WHERE stream = 'full' AND outcome = 'scheduled'"
            " AND attempt = 1 AND feasible > 6 ORDER BY seq"
        ).fetchall()
    pod, node = rows[nth]
    return str(pod), str(node)


@pytest.mark.parametrize("stream", ["top", "summary"])
def test_explain_makes_the_vectors_again(
    address: str, capsys: pytest.CaptureFixture[str], stream: str
) -> None:
    """From the newest snapshot before the decision, or the log's beginning. Without --recompute it
    says what there is."""
    for nth, begins_later in ((1, False), (-1, True)):
        pod, node = placed(address, nth=nth)
        expected, _ = explained(capsys, address, "full", pod, "--attempt", "1")
        found, stated = explained(capsys, address, stream, pod, "--attempt", "1", "--recompute")
        assert found == expected
        match = STATED.search(stated)
        assert match is not None
        assert (int(match[2]) > 0) == begins_later
        asked = ("--attempt", "1", "--node", node)
        expected, _ = explained(capsys, address, "full", pod, *asked)
        found, _ = explained(capsys, address, stream, pod, *asked, "--recompute")
        assert found == expected
        stored, _ = explained(capsys, address, stream, pod, "--attempt", "1")
        assert " ".join(stored).count("--recompute") == 1
        assert (found[:3] == stored[:3]) == (stream == "top")


def test_a_node_that_is_not_stored_needs_the_option(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pod, node = placed(address, nth=1)
    where = ("--database", address, "--attempt", "1", "--node", node)
    assert main(["explain", pod, *where, "--stream", "summary"]) == 2
    assert "kept no verdicts of single nodes; add --recompute" in capsys.readouterr().err
    assert main(["explain", pod, *where, "--stream", "top"]) == 2
    error = capsys.readouterr().err
    assert f"kept the best nodes, and {node} is not among them; add --recompute" in error


def test_a_preemption_is_made_again(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    with psycopg.connect(address) as connection:
        pod, attempt = connection.execute(
            "SELECT namespace || '/' || pod, attempt FROM eventsched.preemptions"
            " WHERE stream = 'full' AND candidates > 1 ORDER BY seq DESC LIMIT 1"
        ).fetchall()[0]
    which = (pod, "--attempt", str(attempt))
    expected, _ = explained(capsys, address, "full", *which)
    assert explained(capsys, address, "summary", *which, "--recompute")[0] == expected
    assert any("candidates" in line for line in expected)


def test_a_file_is_read_from_its_beginning(
    address: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pod, _ = placed(address, nth=-1)
    expected, _ = explained(capsys, address, "full", pod, "--attempt", "1")
    path = str(tmp_path / "summary.jsonl.gz")
    assert main(["log", "export", path, "--database", address, "--stream", "summary"]) == 0
    capsys.readouterr()
    assert main(["explain", pod, "--attempt", "1", "--recompute", "--file", path]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-len(expected) :] == expected
    assert "applied from position 0 on" in printed.err


def test_the_source_is_a_field(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    pod, _ = placed(address, nth=1)
    sources = {}
    for stream in LEVELS:
        where = ("--database", address, "--stream", stream)
        for options in ((), ("--recompute",)):
            assert main(["explain", pod, "-o", "json", *where, *options]) == 0
            [*_, attempt] = json.loads(capsys.readouterr().out)["attempts"]
            sources[stream, bool(options)] = attempt["vectors"]
    profile = "digest"
    assert sources.pop(("mixed", False)) in ("all", profile)
    assert {source for (_, again), source in sources.items() if again} == {"recomputed"}
    assert [sources[stream, False] for stream in ("full", "top", "summary")] == [
        "all", "best", "digest",
    ]  # fmt: skip
