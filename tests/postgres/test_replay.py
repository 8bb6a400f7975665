"""``eventsched replay``: clean logs come out as they are written; of others the first divergence is
named, down to plugin, column and node."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.eventlog.postgres.reader import Reader
from tests.databases import Server, migrate
from tests.postgres.replays import Line, Replay, diverges, find, name_of, simulated
from tests.postgres.simulations import STREAM

HERE = Path(__file__).parent
_items = msgspec.json.Decoder(list[tuple[int, int, int, msgspec.Raw]])


def _put_back(before: Mapping[str, Any], _: Any, body: MutableMapping[str, Any]) -> None:
    """For ``alter``: a record is again as it was."""
    body.clear()
    body.update(before)


def tight(url: str) -> None:
    """Prepares a database with a log in which there are refusals."""
    migrate(url)
    simulated(url, "nodes=3,pods=40,shape=tight,seed=2")


@pytest.fixture
def log(one_server: Server) -> Iterator[str]:
    """The address of a database with that log."""
    with one_server.fresh(tight) as url:
        yield url


@contextmanager
def altering(url: str) -> Iterator[psycopg.Connection[Any]]:
    """As a superuser who has switched the triggers off."""
    with psycopg.connect(url) as connection:
        connection.execute("ALTER TABLE eventsched_log.batch DISABLE TRIGGER USER")
        yield connection


def alter(url: str, position: int, change: Callable[[list[Any], Line], Any]) -> None:
    """Changes a stored record: its item ([at, cause, version]) and its fields. Where the change
    returns False the record is taken out."""
    with altering(url) as connection:
        first, body = connection.execute(
            "SELECT first, body::text FROM eventsched_log.batch WHERE first <= %s"
            " ORDER BY first DESC LIMIT 1",
            [position],
        ).fetchone() or (0, "")
        items: list[Any] = [list(item) for item in _items.decode(body)]
        head, fields = items[position - first][:3], json.loads(bytes(items[position - first][3]))
        if change(head, fields) is False:
            del items[position - first]
        else:
            raw = json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
            items[position - first] = [*head, msgspec.Raw(raw.encode())]
        connection.execute(
            "UPDATE eventsched_log.batch SET body = %s::json WHERE first = %s",
            [msgspec.json.encode(items).decode(), first],
        )


# --- clean logs ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "load",
    [
        "nodes=3,pods=60,shape=tight,seed=1",
        "nodes=12,pods=200,shape=mixed,seed=3,rate=40,runtime=3",
    ],
)
def test_clean_logs(
    load: str,
    database: str,
    taste: tuple[list[str], Path],
    replay: Replay,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With a configuration and a plugin's file: the stream holds the one, the other is named."""
    options, file = taste
    simulated(database, load, *options, "--plugin", file, "-o", "json")
    summary = json.loads(capsys.readouterr().out)
    for how in ((), ("--verify",)):
        code, output, errors = replay(database, *how, "--plugin", file, "-o", "json")
        assert (code, errors) == (0, "")
        found = json.loads(output)
        assert found["divergence"] is None
        assert found["verified"] is bool(how)
        assert found["stream"] == STREAM
        assert found["state_digest"] == summary["state_digest"]
        assert found["records"] == found["position"] == summary["records"]
        assert found["decisions"] == summary["attempts"]
        assert found["placed"] == summary["placed"]
    code, output, _ = replay(database, "--verify", "--plugin", file)
    assert code == 0
    assert output.splitlines()[-2:] == [
        f"state digest {summary['state_digest']} after {summary['records']} records",
        "every decision came out as it is written",
    ]


def test_until_a_position(log: str, replay: Replay) -> None:
    """Any position, within a step too: nothing differs, and both ways come to the same state."""
    seen = set()
    head = Reader(log, STREAM).head.next
    for position in [0, 1, 2, *range(3, head, head // 6), head - 1, head, head + 100]:
        one, other = (
            json.loads(replay(log, "--until", position, *how, "-o", "json")[1])
            for how in ((), ("--verify",))
        )
        assert one["position"] == one["records"] == min(position, head)
        assert other["divergence"] is None
        seen.add(one["state_digest"])
        for volatile in ("verified", "seconds", "pods_per_second"):
            del one[volatile], other[volatile]
        assert one == other
    assert len(seen) > 6


@pytest.mark.trace
def test_the_trace(one_server: Server, replay: Replay, capsys: pytest.CaptureFixture[str]) -> None:
    folder = os.environ.get("EVENTSCHED_TRACES")
    if not folder:
        pytest.skip("EVENTSCHED_TRACES does not name the folder of the openb trace")
    nodes = Path(folder, "openb_node_list_all_node.csv.gz")
    pods = Path(folder, "openb_pod_list_default.csv.gz")
    with one_server.fresh(migrate) as url:
        arguments = ["simulate", "--nodes", str(nodes), "--pods", str(pods), "--limit", "2000"]
        assert main([*arguments, "--database", url, "-o", "json"]) == 0
        summary = json.loads(capsys.readouterr().out)
        for how in ((), ("--verify",)):
            code, output, errors = replay(url, *how, "-o", "json")
            assert (code, errors) == (0, "")
            assert json.loads(output)["state_digest"] == summary["state_digest"]


# --- what was altered in the log ----------------------------------------------------------


def test_an_altered_field(log: str, replay: Replay) -> None:
    """Whichever it is, it is named with what is written and what comes."""
    for field, value, shown in (
        ("score", 999, "999"),
        ("runner_up", "node-99999", "node-99999"),
        ("draw", 5, "5"),
        ("evaluated", 77, "77"),
        ("parameters", [[1]], "[[1]]"),
    ):
        position, before = find(log, "PodDecided", 3, outcome="scheduled")
        alter(log, position, lambda _, body: body.update({field: value}))  # noqa: B023
        assert diverges(replay, log) == {
            "position": position,
            "kind": "PodDecided",
            "pod": name_of(log, before["uid"]),
            "what": field,
            "expected": shown,
            "came": _shown(before.get(field, "nothing")),
        }
        alter(log, position, partial(_put_back, before))
        assert replay(log, "--verify")[0] == 0


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def test_another_node(log: str, replay: Replay) -> None:
    position, before = find(log, "PodDecided", 5, outcome="scheduled")
    alter(log, position, lambda _, body: body.update(node="node-00000x"))
    found = diverges(replay, log)
    assert (found["position"], found["what"]) == (position, "node")
    assert (found["expected"], found["came"]) == ("node-00000x", before["node"])


def test_a_count_and_a_digest(log: str, replay: Replay) -> None:
    position, before = find(log, "PodDecided", 2, outcome="unschedulable")
    counts = [[number, nodes + 1] for number, nodes in before["counts"]]
    alter(log, position, lambda _, body: body.update(counts=counts))
    found = diverges(replay, log)
    assert (found["position"], found["what"]) == (position, "counts")
    assert json.loads(found["expected"]) == counts
    assert json.loads(found["came"]) == before["counts"]
    alter(log, position, lambda _, body: body.update(counts=before["counts"], digest="0" * 32))
    found = diverges(replay, log)
    assert (found["position"], found["what"]) == (position, "digest")
    assert (found["expected"], found["came"]) == ("0" * 32, before["digest"])


def test_the_cause_of_a_move(log: str, replay: Replay) -> None:
    position, before = find(log, "PodQueued", 1, cause="AttemptFailed")
    alter(log, position, lambda _, body: body.update(cause="Whim"))
    found = diverges(replay, log)
    assert found["kind"] == "PodQueued"
    assert found["pod"] == name_of(log, before["uid"])
    assert (found["position"], found["what"]) == (position, "cause")
    assert (found["expected"], found["came"]) == ("Whim", "AttemptFailed")


@pytest.mark.parametrize("kind", ["PodQueued", "PodDecided", "PodBound", "VerdictDefined"])
def test_a_record_that_was_taken_out(kind: str, log: str, replay: Replay) -> None:
    position, _ = find(log, kind)
    alter(log, position, lambda *_: False)
    assert diverges(replay, log)["position"] == position


def test_missing_batches(log: str, replay: Replay) -> None:
    """In the middle, at the end, at the beginning."""
    firsts = [batch.first for batch in Reader(log, STREAM).batches()]
    head = Reader(log, STREAM).head.next
    for first, then in (
        (firsts[-1], None),
        (firsts[len(firsts) // 2], firsts[len(firsts) // 2 + 1]),
    ):
        with altering(log) as connection:
            connection.execute("DELETE FROM eventsched_log.batch WHERE first = %s", [first])
        said = f"position {then} follows" if then else f"the log should reach to {head}"
        for found in (
            diverges(replay, log),
            json.loads(replay(log, "-o", "json")[1])["divergence"],
        ):
            assert (found["position"], found["kind"]) == (first, "stored")
            assert found["came"] == f"is not there: {said}"
    with altering(log) as connection:
        connection.execute("DELETE FROM eventsched_log.batch WHERE first = 0")
    code, output, errors = replay(log, "--verify")
    assert (code, output, len(errors.splitlines())) == (3, "", 1)
    assert "the log is damaged: position 0: is not there" in errors


def test_an_altered_input(log: str, replay: Replay) -> None:
    """A label of a node: the first decision that comes out otherwise names plugin and node."""
    position, body = find(log, "NodeAdded", 1)
    zone = "topology.kubernetes.io/zone"
    assert body["node"]["labels"][zone] == "zone-b"
    alter(log, position, lambda _, record: record["node"]["labels"].update({zone: "zone-q"}))
    found = diverges(replay, log)
    assert found["kind"] in ("PodDecided", "VerdictDefined")
    assert found["position"] > position
    assert found["what"] == "plugin NodeAffinity, verdict on node node-00001"
    assert found["expected"] == "passes"
    assert found["came"].startswith("NodeAffinity: node(s) didn't match Pod's node affinity")
    assert found["pod"].startswith("default/pod-")
    code, output, _ = replay(log, "-o", "json")
    assert code == 1, "the snapshot has the state that was written"
    assert json.loads(output)["divergence"]["kind"] == "snapshot"


def test_altered_times_and_causes(log: str, replay: Replay) -> None:
    position, _ = find(log, "PodDecided", 4)
    alter(log, position, lambda head, _: head.__setitem__(0, head[0] + 7))
    found = diverges(replay, log)
    assert (found["position"], found["what"]) == (position, "at")
    alter(log, position, lambda head, _: head.__setitem__(0, head[0] - 7))
    position, _ = find(log, "BindSucceeded", 4)
    alter(log, position, lambda head, _: head.__setitem__(0, head[0] - 2_000))
    found = diverges(replay, log)
    assert (found["position"], found["kind"]) == (position, "stored")
    assert "cannot be taken in: stimulus at" in found["came"]


def test_a_snapshot_of_another_state(log: str, replay: Replay) -> None:
    with altering(log) as connection:
        ((seq, digest),) = connection.execute(
            "SELECT seq, digest FROM eventsched_log.snapshot"
        ).fetchall()
        connection.execute("UPDATE eventsched_log.snapshot SET digest = %s", ["f" * 32])
    for how in ((), ("--verify",)):
        code, output, _ = replay(log, *how)
        assert code == 1
        assert output.splitlines()[-1] == (
            f"DIFFERS at position {seq} (snapshot): state digest: "
            f"expected {'f' * 32}, came {digest}"
        )


@pytest.mark.parametrize(
    "body", ['{"a": 1}', "[[0]]", '[[0,0,1,{"no": "kind"}]]', '[["0",0,1,{}]]', "[]", "null"]
)
def test_a_body_of_another_form(body: str, log: str, replay: Replay) -> None:
    first = [batch.first for batch in Reader(log, STREAM).batches()][3]
    with altering(log) as connection:
        connection.execute(
            "UPDATE eventsched_log.batch SET body = %s WHERE first = %s", [body, first]
        )
    for how in ((), ("--verify",)):
        code, output, errors = replay(log, *how)
        assert (code, errors) == (1, "")
        assert output.splitlines()[-1].startswith(f"DIFFERS at position {first} (stored): the row:")
    code = main(["verify", "--database", log])
    assert code == 1


@pytest.mark.parametrize(
    ("change", "unnoticed"),
    [
        ({"kind": "PodVanished"}, ()),
        ({"uid": 7}, ()),
        ({"uid": "nobody"}, ("BindSucceeded",)),
        ({"surprise": True}, ("PodQueued", "BindSucceeded")),
    ],
)
def test_a_record_of_another_form(
    change: Line, unnoticed: tuple[str, ...], log: str, replay: Replay
) -> None:
    """An event as well as a stimulus; what makes no difference to the state is found by --verify
    alone. The outcome of a bind of an unknown pod is a valid record: the missing consequence is
    named."""
    for kind in ("PodQueued", "BindSucceeded"):
        position, before = find(log, kind, 6)
        alter(log, position, lambda _, body: body.update(change))
        for how in ((), ("--verify",)):
            code, output, errors = replay(log, *how)
            wanted = bool(how) or kind not in unnoticed
            assert (code, errors) == (int(wanted), ""), output
            follows = kind == "BindSucceeded" and change == {"uid": "nobody"}
            assert (f"DIFFERS at position {position + follows} (" in output) is wanted
        alter(log, position, partial(_put_back, before))


def test_a_stream_that_begins_otherwise(log: str, replay: Replay) -> None:
    alter(log, 0, lambda _, body: body.update(format="x"))
    code, output, errors = replay(log, "--verify")
    assert (code, output, len(errors.splitlines())) == (3, "", 1)
    assert errors.startswith("eventsched replay: the log is damaged: position 0: ")
    assert "eventsched verify" in errors


# --- input --------------------------------------------------------------------------------


def test_what_is_not_there(
    database: str, log: str, replay: Replay, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "holds no stream; run a scheduler on it first" in _refused(replay(database))
    said = _refused(replay(log, "--stream", "other"))
    assert f"--stream: there is no stream other; there are: {STREAM}" in said
    said = _refused(replay(log, "--file", tmp_path / "none"))
    assert "--file names a whole log; remove --database, --data-dir and --stream" in said
    assert main(["replay", "--file", str(tmp_path / "none")]) == 2
    assert "name a file that `eventsched log export` wrote" in capsys.readouterr().err
    assert main(["replay"]) == 2
    assert "no database is named" in capsys.readouterr().err


def _refused(found: tuple[int, str, str]) -> str:
    code, output, errors = found
    assert (code, output, len(errors.splitlines())) == (2, "", 1)
    return errors
