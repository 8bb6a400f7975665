"""Commands that read take a standby, or whichever server of several there is; nothing is written
to a standby."""

from pathlib import Path

import psycopg
import pytest

from eventsched.cli.main import main
from tests.postgres.diagnosed import Databases, sound
from tests.postgres.standbys import standby_of
from tests.postgres.tampered_logs import simulate
from tests.waiting import until

__all__ = ["sound"]
Capture = pytest.CaptureFixture[str]
READING = (
    ["explain", "default/pod-000001"], ["replay"], ["replay", "--verify"], ["verify"],
    ["log", "list"], ["log", "tail", "-n", "3"], ["db", "stats"], ["sql", "-c", "SELECT 1"],
)  # fmt: skip
IN_RECOVERY = "SELECT pg_is_in_recovery() AS standby"


def test_what_reads_takes_a_standby(
    sound: Databases, place: Path, programs: Path, capsys: Capture
) -> None:
    url = sound.migrated()
    simulate(url, "nodes=3,pods=5")
    with standby_of(url, place, programs) as standby:
        with psycopg.connect(standby.url, autocommit=True) as copy:
            until(
                lambda: copy.execute("SELECT 1 FROM eventsched_log.head").fetchone() is not None,
                "the log is there",
            )
        preferring = f"{standby.both}&target_session_attrs=prefer-standby"
        for where in (standby.url, preferring):
            for command in READING:
                assert main([*command, "--database", where]) == 0, (command, where)
            capsys.readouterr()
            assert main(["sql", "--database", where, "-c", IN_RECOVERY, "-o", "json"]) == 0
            assert "true" in capsys.readouterr().out
        writing = f"{standby.both}&target_session_attrs=read-write"
        assert main(["sql", "--database", writing, "-c", IN_RECOVERY, "-o", "json"]) == 0
        assert "false" in capsys.readouterr().out
        more = ["simulate", "--generate", "nodes=1,pods=1", "--stream", "another"]
        assert main([*more, "--database", standby.url]) == 3
        assert capsys.readouterr().err == (
            "eventsched simulate: the database says: cannot execute INSERT in a read-only "
            "transaction; connect to one that may be written, such as the primary\n"
        )
        assert main([*more, "--database", writing]) == 0
        standby.do("stop", "--mode=fast")
        try:
            words = ["explain", "default/pod-000001", "--stream", "simulation"]
            assert main([*words, "--database", preferring]) == 0
        finally:
            standby.do("start", "--wait")
