"""Completion of names that are stored, by real shells: names that exist, nothing else, no noise."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from eventsched.cli.completion import script
from eventsched.cli.main import main
from eventsched.cli.object_names import name_offer, stored_names
from tests.databases import Server
from tests.postgres.histories import ODD, TIGHT, odd_and_tight
from tests.shells import TypingShell

NOWHERE = "postgresql://nobody:secret@127.0.0.1:1/none"


@pytest.fixture(scope="module")
def address(one_server: Server) -> Iterator[str]:
    with one_server.fresh(odd_and_tight) as url:
        yield url


def rows(address: str, query: str) -> list[str]:
    with psycopg.connect(address) as connection:
        return [str(value) for (value,) in connection.execute(query.encode())]


def pods(address: str) -> list[str]:
    """The pods of stream TIGHT, all of which are gone, as they are offered."""
    query = "SELECT DISTINCT namespace || '/' || p.name FROM eventsched_log.pod p JOIN "
    query += f"eventsched_log.stream s ON s.id = stream WHERE s.name = '{TIGHT}'"
    return sorted(rows(address, query))


def present(address: str) -> list[str]:
    """The pods that there are, of stream ODD."""
    query = "SELECT DISTINCT namespace || '/' || pod FROM eventsched.pods_now"
    return sorted(rows(address, query))


def offered(kind: str, line: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The names that the command prints for a line."""
    capsys.readouterr()
    assert main([name_offer.COMMAND, kind, line]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return [each.partition("\t")[0] for each in printed.out.splitlines()]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_stored_names(shell: str, tmp_path: Path, address: str) -> None:
    typing = TypingShell(shell, tmp_path, script(shell))
    log = ("--database", f"'{address}'", "--stream", TIGHT)
    one = pods(address)[0]
    if shell == "zsh":  # completes up to where names differ; here one is left
        assert typing.offered("explain", *log, one[:-1] + one[-1]) == [one]
        assert typing.offered("explain", *log, one[:3]) == ["default/pod-0000"]
        assert typing.offered("state", *log, "--node", "node-0001") == ["node-0001"]
        assert typing.offered("log", "list", *log[:2], "--stream", TIGHT[:2]) == [TIGHT]
        return
    assert typing.offered("explain", *log, one[:-1]) == [
        each for each in pods(address) if each.startswith(one[:-1])
    ]
    assert typing.offered("state", *log, "--node", "node-0001") == ["node-00010", "node-00011"]
    assert typing.offered("queue", *log[:2], "--stream", "") == sorted((ODD, TIGHT))
    newest = rows(
        address,
        f"SELECT seq FROM eventsched.decisions WHERE stream = '{TIGHT}' ORDER BY seq DESC LIMIT 20",
    )
    assert sorted(typing.offered("testcase", *log, "")) == sorted(newest)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_database_that_is_down_adds_nothing(shell: str, tmp_path: Path) -> None:
    typing = TypingShell(shell, tmp_path, script(shell))
    left = typing.offered("explain", "--database", NOWHERE, "default/we")
    assert left == (["default/we"] if shell == "zsh" else [])


def test_what_is_offered(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    log = f"eventsched explain --stream={TIGHT} --database '{address}'"
    every = pods(address)
    assert offered("pods", f"{log} ", capsys) == every
    assert offered("pods", f"cd /; {log} --pod={every[3]}", capsys) == [every[3]]
    bare = sorted(each.removeprefix("default/") for each in every)
    assert offered("pods", f"{log} -n default ", capsys) == bare
    assert offered("pods", f"{log} {bare[0]}", capsys) == [bare[0]]
    assert offered("pods", f"{log} -n other ", capsys) == []
    assert offered("pods", f'{log} "{every[0]}', capsys) == [every[0]]
    assert offered("pods", f"{log} 'no%'", capsys) == []
    assert offered("namespaces", f"{log} -n ", capsys) == ["default"]
    assert offered("positions", f"eventsched testcase --database '{address}' ", capsys) == []
    assert offered("pods", f"{log} --file x ", capsys) == every  # the command says that it is wrong
    assert offered("pods", "eventsched explain --file log.jsonl ", capsys) == []


def test_pods_that_are_gone_come_after_those_that_are_there(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"eventsched explain --database '{address}' "
    assert offered("pods", line, capsys) == present(address)
    gone = next(each for each in pods(address) if each not in present(address))
    assert offered("pods", line + gone, capsys) == [gone]


def test_of_too_many_names_the_last_is_offered_too(
    address: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a shell fills in is what the offered names have in common. It has to be common to
    all."""
    monkeypatch.setattr(stored_names, "MOST", 3)
    every = pods(address)
    line = f"eventsched explain --stream {TIGHT} --database '{address}' "
    assert offered("pods", line, capsys) == [*every[:3], every[-1]]


def test_the_database_asks_for_no_password_and_starts_no_server(tmp_path: Path) -> None:
    """In a process without a terminal, with all that it could write on."""
    (tmp_path / "postgres").mkdir()
    for options in (f"--database {NOWHERE}", f"--data-dir {tmp_path}", "--database '", ""):
        done = subprocess.run(
            [sys.executable, "-m", "eventsched", name_offer.COMMAND, "pods",
             f"eventsched explain {options} "],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [each.name for each in tmp_path.iterdir()] == ["postgres"]


def test_a_reader_without_rights_of_its_own_takes_the_role(
    one_server: Server, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "completing_user"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN NOINHERIT IN ROLE eventsched_auditor")
        try:
            connection.execute(f"SET ROLE {name}")
            readable = stored_names._readable(connection, {"stream": TIGHT})
            assert len(readable) == 1
        finally:
            connection.execute("RESET ROLE")
            connection.execute(f"DROP ROLE {name}")
