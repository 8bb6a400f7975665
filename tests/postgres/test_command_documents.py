"""Commands that change something say what they did as a document, too: with -o json and -o yaml."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from eventsched.cli.main import main
from eventsched.eventlog.schema import migrations
from tests.databases import Server, migrate
from tests.postgres.archives import DAYS, STREAM, spread
from tests.postgres.histories import TIGHT, simulated

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def address(one_server: Server) -> Iterator[str]:
    def prepared(url: str) -> None:
        migrate(url)
        simulated(url)
        spread(url, TIGHT, STREAM)

    with one_server.fresh(prepared) as url:
        yield url


def document(capsys: Capture, *words: object) -> Any:
    """What the command prints, the same as JSON and as YAML; it has to change nothing twice."""
    told = []
    for output, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        capsys.readouterr()
        assert main([*map(str, words), "-o", output]) == 0
        told.append(read(capsys.readouterr().out))
    assert told[0] == told[1]
    return told[0]


def text(capsys: Capture, *words: object) -> str:
    capsys.readouterr()
    assert main([*map(str, words), "-o", "wide"]) == 0
    return capsys.readouterr().out


def test_the_database(address: str, capsys: Capture) -> None:
    database = ("--database", address)
    newest = migrations.newest()
    found = document(capsys, "db", "upgrade", *database)
    assert found.pop("database") in text(capsys, "db", "upgrade", *database)
    assert found == {"before": newest, "after": newest, "newest": newest}
    assert (
        text(capsys, "db", "url", *database).rstrip("\n")
        == (document(capsys, "db", "url", *database)["address"])
    )
    prune = ("db", "prune", "--before", "0s", "--stream", TIGHT, *database)
    pruned = document(capsys, *prune)
    assert (pruned["dropped"], "not full" in pruned["reason"]) == ([], True)
    assert pruned["reason"] in text(capsys, *prune)


def test_grants(address: str, capsys: Capture) -> None:
    database = ("--database", address)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE ROLE documented_writer LOGIN IN ROLE eventsched_writer")
        connection.execute("CREATE ROLE documented_tenant LOGIN IN ROLE eventsched_tenant")
    try:
        writer = ("--role", "documented_writer", "--stream", "s")
        main(["db", "grant", *writer, *database])
        assert document(capsys, "db", "grant", *writer, *database) == {
            "role": "documented_writer", "stream": "s", "namespace": None, "granted": True,
            "is_new": False,
        }  # fmt: skip
        tenant = ("--role", "documented_tenant", "--namespace", "n")
        main(["db", "grant", *tenant, *database])
        assert document(capsys, "db", "grant", *database) == {
            "writers": [{"role": "documented_writer", "stream": "s"}],
            "tenants": [{"role": "documented_tenant", "namespace": "n", "stream": None}],
        }
    finally:
        for words in (writer, tenant):
            main(["db", "grant", *words, "--revoke", *database])
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("DROP ROLE documented_writer, documented_tenant")


def test_files(address: str, one_server: Server, tmp_path: Path, capsys: Capture) -> None:
    database = ("--database", address, "--stream", STREAM)
    capsys.readouterr()
    assert main(["log", "export", str(tmp_path / "a.jsonl"), *database, "-o", "json"]) == 0
    exported = json.loads(capsys.readouterr().out)
    with psycopg.connect(address) as connection:
        row = connection.execute(
            "SELECT records FROM eventsched.streams WHERE stream = %s", [STREAM]
        ).fetchone()
    assert row is not None
    [records] = row
    assert exported == {
        "stream": STREAM, "records": records, "file": str(tmp_path / "a.jsonl"),
    }  # fmt: skip

    folder = tmp_path / "archive"
    assert main(["db", "archive", "--to", str(folder), *database, "-o", "json"]) == 0
    archived = json.loads(capsys.readouterr().out)
    days = archived["days"]
    assert archived == {"stream": STREAM, "folder": str(folder), "days": days, "reason": None}
    assert [each["day"] for each in days] == DAYS
    assert (days[0]["first"], days[-1]["last"]) == (0, records - 1)
    assert sum(each["records"] for each in days) == records
    again = document(capsys, "db", "archive", "--to", folder, *database)
    assert again["reason"] == "all records of the stream are archived"

    with one_server.fresh(migrate) as lost:
        words = ("db", "restore", "--from-archive", str(folder), "--database", lost)
        assert main([*words, "-o", "json"]) == 0
    restored = json.loads(capsys.readouterr().out)
    assert (restored["stream"], restored["records"]) == (STREAM, records)
    assert restored["decisions"] > 0


def test_keys(tmp_path: Path, capsys: Capture) -> None:
    assert main(["keys", "generate", str(tmp_path / "key"), "-o", "json"]) == 0
    public = json.loads(capsys.readouterr().out)["public_key"]
    found = document(capsys, "keys", "show", tmp_path / "key", "--stream", "s")
    assert found["public_key"] == public
    shown = text(capsys, "keys", "show", tmp_path / "key", "--stream", "s")
    assert shown == (
        f"key id: {found['key_id']}\nverifier key: {found['verifier_keys']['s']}\n{public}"
    )
