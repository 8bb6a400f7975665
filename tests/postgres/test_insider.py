"""An insider who owns the database: what he changes, and how verification finds it."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from io import BytesIO, TextIOWrapper
from pathlib import Path

import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.eventlog.chain import Head
from eventsched.eventlog.checkpoints import Signer
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.eventlog.signing_keys import key_id, raw, read_public_key
from eventsched.history.verify.verification import verify_database
from eventsched.history.verify.verified_chain import batch_hash
from tests.databases import Server
from tests.postgres.tampered_logs import TamperedLog, derive_again, edit_decision, tight

Capture = pytest.CaptureFixture[str]


def key_pair(folder: Path) -> tuple[Path, Path]:
    """The files of a private and a public key, as openssl makes them."""
    private, public = folder / "key.pem", folder / "key.pub"
    commands: tuple[list[str | Path], ...] = (
        ["genpkey", "-algorithm", "ed25519", "-out", private],
        ["pkey", "-in", private, "-pubout", "-out", public],
    )
    for arguments in commands:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)
    return private, public


class Anchored:
    """A log, and a checkpoint of it that is kept elsewhere."""

    def __init__(self, log: TamperedLog, folder: Path) -> None:
        self.log, self.url = log, log.url
        self.private, self.public = key_pair(folder)
        self.file = folder / "checkpoints"
        self.sign()

    def sign(self) -> None:
        """Adds a checkpoint."""
        code = main(["log", "checkpoint", "--database", self.url, "--key", str(self.private),
                     "-o", str(self.file)])  # fmt: skip
        assert code == 0

    def verify(self, *more: str) -> int:
        """The command's exit code."""
        return main(["verify", "--database", self.url, "--checkpoints", str(self.file),
                     "--public-key", str(self.public), *more])  # fmt: skip


@pytest.fixture
def anchored(one_server: Server, tmp_path: Path) -> Iterator[Anchored]:
    """A fresh copy of a log, with a checkpoint."""
    with one_server.fresh(tight) as url, closing(TamperedLog(url)) as log:
        yield Anchored(log, tmp_path)


def test_a_log_that_went_on(anchored: Anchored, capsys: Capture) -> None:
    """Checkpoints of several times, and records after them."""
    assert anchored.verify() == 0
    code = main(["simulate", "--generate", "nodes=2,pods=4", "--database", anchored.url,
                 "--stream", "other"])  # fmt: skip
    assert code == 0
    anchored.sign()
    assert anchored.file.read_text().count("— eventsched/") == 3
    capsys.readouterr()
    assert anchored.verify() == 0
    assert anchored.verify("--stream", "other") == 0
    assert "are what was written" in capsys.readouterr().out


def rewritten(log: TamperedLog) -> str:
    seq = log.decision("outcome = 'scheduled'", 30)
    edit_decision(log, seq, lambda record: record.update(message="a forged message"))
    log.run("DELETE FROM snapshot")
    return "rewritten after the checkpoint"


def cut_off(log: TamperedLog) -> str:
    batch = log.batch(log.rows("SELECT next - 20 FROM head")[0][0])
    log.run(f"DELETE FROM batch WHERE first >= {batch.first}")
    for table in ("detail", "decision", "pod", "node", "snapshot"):
        log.run(f"DELETE FROM {table} WHERE seq >= {batch.first}")
    log.run(
        f"UPDATE head SET next = {batch.first}, hash ="
        " (SELECT hash FROM batch ORDER BY first DESC LIMIT 1)"
    )
    derive_again(log)
    return "its end was cut off, or an older backup restored"


def renamed(log: TamperedLog) -> str:
    log.run("UPDATE stream SET name = 'another'")
    log.run("UPDATE epoch SET first = 0")
    previous = log.rows("SELECT sha256('eventsched/1/another')")[0][0]
    token = log.rows("SELECT token FROM epoch")[0][0].bytes
    first, end = 0, log.rows("SELECT next FROM head")[0][0]
    while first < end:
        batch = log.batch(first)
        previous = batch_hash(batch, token, previous)
        log.run("UPDATE eventsched_log.batch SET hash = %s WHERE first = %s", previous, first)
        first = batch.end
    log.run("UPDATE eventsched_log.head SET hash = %s", previous)
    log.run("DELETE FROM snapshot")
    return "stream simulation: there is a checkpoint of it, but no such stream any more"


def removed(log: TamperedLog) -> str:
    for table in ("batch", "detail", "decision", "pod", "node", "snapshot", "pod_now", "verdict",
                  "scoring", "head", "epoch", "request", "stream"):  # fmt: skip
        if table != "request":
            log.run(f"DELETE FROM {table}")
    return "there is a checkpoint of it, but no such stream any more"


@pytest.mark.parametrize("change", [rewritten, cut_off, renamed, removed])
def test_what_hangs_together_is_not_what_was_signed(
    anchored: Anchored, capsys: Capture, change: Callable[[TamperedLog], str]
) -> None:
    """Without the checkpoint nothing is wrong with these."""
    said = change(anchored.log)
    with psycopg.connect(anchored.url) as connection:
        assert [r.problems for r in verify_database(connection) if r.problems] == []
    # What a superuser does to triggers meanwhile he undoes.
    capsys.readouterr()
    assert anchored.verify() == 1
    assert said in capsys.readouterr().out


def test_which_records_a_checkpoint_proves(anchored: Anchored, capsys: Capture) -> None:
    """Those before the newest checkpoint that agrees; an insider may have rewritten later ones, as
    long as none of the checkpoints is after them."""
    seq = anchored.log.decision("outcome = 'scheduled'", 30)
    [[begin]] = anchored.log.rows(f"SELECT max(first) FROM batch WHERE first <= {seq}")
    [[end]] = anchored.log.rows("SELECT next FROM head")
    [[before]] = anchored.log.rows(f"SELECT hash FROM batch WHERE first + count = {begin}")
    whole, signer = anchored.file.read_text(), Signer.read(anchored.private, "--key")
    early = signer.sign("simulation", Head(begin, before), 0)
    key = key_id(raw(read_public_key(anchored.public)))
    proved = f"1970-01-01T00:00:00Z (key {key}) proves the records before {begin}"

    def verified(text: str, code: int) -> list[str]:
        anchored.file.write_text(text)
        capsys.readouterr()
        assert anchored.verify() == code
        return capsys.readouterr().out.splitlines()

    assert verified(early + whole, 0)[-1].endswith(f"proves the records before {end}")
    rewritten(anchored.log)
    assert verified(early, 0)[-1].endswith(
        f"{proved}; the hash chain alone speaks for {end - begin} later records"
    )
    assert verified(early + whole, 1)[-1].endswith(proved)
    assert "proves" not in "".join(verified(whole, 1))
    anchored.file.write_text(early)
    assert anchored.verify("-o", "json") == 0
    [stream] = json.loads(capsys.readouterr().out)["streams"]
    assert (stream["proved_by"]["position"], stream["proved_by"]["key"]) == (begin, key)


def test_a_checkpoint_of_another_log(anchored: Anchored, capsys: Capture) -> None:
    """Of a stream of the same name, signed by the same key."""
    signer = Signer.read(anchored.private, "--key")
    anchored.file.write_text(signer.sign("simulation", Head(1, bytes(32)), 0))
    assert anchored.verify() == 1
    assert "rewritten after the checkpoint of 1970-01-01" in capsys.readouterr().out


def test_checkpoints_from_standard_input(
    anchored: Anchored, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As kubectl prints the annotation of the Lease, without a line end after it, or nothing if
    there is none."""
    verify = ["verify", "--database", anchored.url, "--checkpoints", "-",
              "--public-key", str(anchored.public)]  # fmt: skip
    note = anchored.file.read_bytes().rstrip(b"\n")
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(note)))
    assert main(verify) == 0
    assert " proves the records before " in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO()))
    assert main(verify) == 2
    assert "standard input: holds no checkpoint" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"\xff")))
    assert main(verify) == 2
    assert "standard input: cannot be read: is not UTF-8 text" in capsys.readouterr().err


def test_checkpoints_that_are_none(anchored: Anchored, capsys: Capture) -> None:
    """Bad input, named by file and line."""
    whole = anchored.file.read_text()
    anchored.file.write_text(whole + whole.replace("at 20", "at 19"))
    assert anchored.verify() == 2
    assert f"{anchored.file}, line 7: the signature is wrong" in capsys.readouterr().err
    for options, problem in (
        (["--checkpoints", str(anchored.file)], "add --public-key"),
        (["--public-key", str(anchored.public)], "there is no --checkpoints"),
        (["--checkpoints", str(anchored.file), "--public-key", "none"], "none: cannot be read"),
    ):
        assert main(["verify", "--database", anchored.url, *options]) == 2
        assert problem in capsys.readouterr().err
    code = main(["log", "checkpoint", "--database", anchored.url, "--key", str(anchored.public)])
    assert code == 2
    assert "--key" in capsys.readouterr().err


def test_an_empty_stream(database: str, tmp_path: Path, capsys: Capture) -> None:
    """Its checkpoint says that nothing was before it, and later records agree with that."""
    private, public = key_pair(tmp_path)
    PostgresEventLog(database, "new").close()
    assert main(["log", "checkpoint", "--database", database, "--key", str(private)]) == 0
    (tmp_path / "checkpoints").write_text(capsys.readouterr().out)
    verify = ["verify", "--database", database, "--checkpoints", str(tmp_path / "checkpoints"),
              "--public-key", str(public)]  # fmt: skip
    assert main(verify) == 0
    options = ["--generate", "nodes=2,pods=4", "--database", database, "--stream", "new"]
    assert main(["simulate", *options]) == 0
    assert main(verify) == 0


def test_a_stream_without_a_checkpoint_is_named(anchored: Anchored, capsys: Capture) -> None:
    """It must not look as proved as the others."""
    PostgresEventLog(anchored.url, "another").close()
    capsys.readouterr()
    assert anchored.verify() == 0
    shown = capsys.readouterr().out
    assert shown.count("proves the records before") == 1
    assert (
        "\nstream another: no checkpoint proves its 0 records; the hash chain alone speaks for them"
    ) in shown
