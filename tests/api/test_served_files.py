"""What ``eventsched serve`` answers from an exported log, an archive, and an archive that a
database continues: the same as from the database that they are of."""

import argparse
import gzip
import os
import re
import tempfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from eventsched.api.application import application
from eventsched.api.desk.asked import Desk
from eventsched.api.gates.gate import OpenGate
from eventsched.cli.log_access import loaded_logs
from eventsched.cli.log_access.served_log import served_streams
from eventsched.cli.main import main
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import opened_streams
from eventsched.runtime.queries.state_at import state_at
from tests.api.asking import Client
from tests.api.test_serve import got, serving
from tests.databases import Server, open_place
from tests.postgres.archives import LATER, STREAM, archived, spread
from tests.postgres.histories import TIGHT, odd_and_tight

OPEN = OpenGate(local_only=True)
THIRD_DAY = date(2024, 2, 29)
POD = b"""
apiVersion: v1
kind: Pod
metadata: {name: wanted}
spec: {containers: [{name: main, image: a, resources: {requests: {cpu: 500m}}}]}
"""


def answers(client: Client) -> dict[str, Any]:
    """An answer of every operation about stream STREAM, by path, without what depends on who wrote
    the rows and when."""
    own = f"stream={quote(STREAM, safe='')}"
    [decision] = client.get(f"/decisions?{own}&outcome=unschedulable&limit=1")["decisions"]
    place = decision["position"]
    previous = client.get(f"/decisions/{place}?{own}")["previous"]
    node = client.get(f"/decisions/{place}/verdicts?{own}")["verdicts"][0]["node"]
    pod = f"/pods/{decision['namespace']}/{decision['pod']}"
    asked = {
        "/now": "/now?nodes=false",  # how full they are is found out in the background
        "/activity": "", "/decisions": "", "/decisions/{position}": f"/decisions/{place}",
        "/decisions/{position}/verdicts": f"/decisions/{place}/verdicts",
        "/decisions/{position}/columns": f"/decisions/{place}/columns",
        "/decisions/{position}/changes/{other}": f"/decisions/{place}/changes/{previous}",
        "/pods": "/pods?ever=true", "/pods/groups": "/pods/groups?by=reason",
        "/pods/{namespace}/{name}/explain": f"{pod}/explain",
        "/pods/{namespace}/{name}/timeline": f"{pod}/timeline",
        "/pods/{namespace}/{name}/why-not": f"{pod}/why-not?node={node}",
        "/state": f"/state?at={place}&part=pods", "/queue": "", "/queue/anomalies": "",
        "/diff": f"/diff?from={place // 2}&to={place}", "/configuration": "",
        "/nodes/{node}/verdicts": f"/nodes/{node}/verdicts?at={place}",
        "/refusals/nodes": f"/refusals/nodes?plugin={decision['plugin']}",
        "/evictions": "", "/refusals": "", "/queue/flushed": "",
        "/position": f"/position?at={place}",
    }  # fmt: skip
    known = {path for path, methods in client.document["paths"].items() if "get" in methods}
    # No pod of the stream has an owner; events are decisions.
    left = {"/streams", "/events", "/workloads/{namespace}/{kind}/{name}/explain"}
    assert asked.keys() == known - left
    found = {}
    for operation, path in asked.items():
        path = path or operation
        found[operation] = client.get(f"{path}{'&' if '?' in path else '?'}{own}")
        for name in ("holder", "leader", "seconds"):
            found[operation].pop(name, None)
    found["/try"] = client.post(f"/try?{own}", POD)
    return found


def options(**given: Any) -> argparse.Namespace:
    unset = dict.fromkeys(("file", "from_archive", "database", "data_dir", "load_into"))
    return argparse.Namespace(**{**unset, **given})


@pytest.fixture(scope="module")
def days(one_server: Server) -> Iterator[str]:
    """A database with stream STREAM, which was written on four days."""
    with one_server.fresh(_written) as url:
        yield url


def _written(url: str) -> None:
    odd_and_tight(url)
    spread(url, TIGHT, STREAM)


@pytest.fixture(scope="module")
def expected(days: str) -> dict[str, Any]:
    """What the database answers."""
    with opened_streams(days, None) as streams:
        return answers(Client(application(Desk(streams, FoldedStates()), OPEN)))


@pytest.fixture(scope="module")
def exported(days: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("exports") / "log.jsonl.gz"
    assert main(["log", "export", str(file), "--stream", STREAM, "--database", days]) == 0
    return file


@pytest.mark.parametrize("source", ["file", "archive", "archive and database"])
def test_answers_are_those_of_the_database(
    source: str, days: str, expected: dict[str, Any], exported: Path, database: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(loaded_logs, "snapshot_distance", lambda pods: 100)
    given: dict[str, Any] = {"file": exported}
    if source != "file":
        archived(days, STREAM, tmp_path, LATER if source == "archive" else THIRD_DAY)
        given = {"from_archive": tmp_path}
    if source == "archive and database":
        given["database"] = days
    capsys.readouterr()
    with served_streams(options(load_into=database, **given)) as streams:
        client = Client(application(Desk(streams, FoldedStates()), OPEN))
        assert answers(client) == expected
        log = streams.open(STREAM).log
        head = log.head.next
        assert state_at(log, log, head, head).first > 100  # made from a snapshot
    printed = capsys.readouterr().err
    assert printed.endswith(f"stream {STREAM}: {head} records loaded\n")
    assert main(["verify", "--database", database]) == 0


def test_a_log_that_is_there_already(exported: Path, days: str, capsys: Any) -> None:
    words = ["serve", "--file", str(exported), "--load-into", days, "--port", "0"]
    assert main(words) == 2
    problem = f"stream {STREAM}: is in the database already; name another stream"
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(("words", "problem"), [
    (["--load-into", "x"], "--load-into: is about an archive or an exported log; add --from-arch"),
    (["--file", "x", "--database", "y"], "options: --file names a whole log; remove --database"),
    (["--file", "/missing", "--load-into", "{database}"], "/missing: cannot be read: No such file"),
    (["--from-archive", "/missing", "--load-into", "{database}"], "/missing: cannot be read: No "),
    (["--file", __file__, "--load-into", "{database}"], "line 1: not the beginning of an exported"),
])  # fmt: skip
def test_a_source_that_cannot_be_served(
    words: list[str], problem: str, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *(word.format(database=database) for word in words)]) == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    ("part", "other"),
    [(rb"unschedulable", b"unschedulably"), (rb'cpu\\":\d+', b'cpu\\":' + b"9" * 30)],
)
def test_an_altered_file_leaves_nothing(
    exported: Path, database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    part: bytes, other: bytes,
) -> None:  # fmt: skip
    """It is refused as such, also if the state cannot take what is altered."""
    lines = gzip.decompress(exported.read_bytes())
    altered = tmp_path / "log.jsonl"
    altered.write_bytes(re.sub(part, lambda found: other, lines, count=1))
    assert re.search(part, lines)
    assert main(["serve", "--file", str(altered), "--load-into", database]) == 2
    assert f"{altered}: was altered: " in capsys.readouterr().err
    with opened_streams(database, None) as streams:
        assert streams.answer().streams == []


def test_the_temporary_database_is_removed(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="evs-", dir=open_place()) as folder:
        os.chmod(folder, 0o755)
        monkeypatch.setenv("TMPDIR", folder)
        with serving("--file", str(exported)) as url:
            assert [each["name"] for each in got(f"{url}/streams")["streams"]] == [STREAM]
            assert len(list(Path(folder).glob("eventsched-log-*"))) == 1
        assert list(Path(folder).iterdir()) == []
