"""Failover to a synchronous standby: what was confirmed is there, and the log goes on."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.domain import records
from eventsched.domain.records import Outcome, PodDecided, StreamStarted
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from eventsched.eventlog.port import Batch, StoredRecord
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.writer import PostgresEventLog
from tests.builders import make_pod
from tests.databases import migrate
from tests.postgres.loaded_cluster import STREAM, WITHIN, LoadedCluster
from tests.postgres.standbys import Standby, standby_of
from tests.waiting import until

_SYNCHRONOUS = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
_UNCONFIRMED = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


def batch(position: int) -> Batch:
    """A batch of one record: the stream's first one, or a new pod."""
    record: records.Record = (
        records.PodAdded(pod=make_pod(f"pod-{position}"))
        if position
        else StreamStarted(format=1, engine="t", seed="s")
    )
    return Batch([StoredRecord.of(LogEntry(position, 0, position, record))], {})


class Pair:
    """A primary and its synchronous standby; ``address`` is of whichever may be written."""

    def __init__(self, primary: Path, url: str, standby: Standby) -> None:
        self._primary, self._url, self.standby = primary, url, standby
        self.address = f"{standby.both}&target_session_attrs=read-write"

    def fail_over(self) -> None:
        """Kills the primary and promotes the standby."""
        self._kill()
        self.standby.do("promote", "--wait")

    def fail_over_within_a_commit(self) -> None:
        """The same, when the primary has a commit that the standby has not confirmed."""
        with psycopg.connect(self.standby.url, autocommit=True) as copy:
            receiver = copy.execute("SELECT pid FROM pg_stat_wal_receiver").fetchone()
        assert receiver is not None
        os.kill(receiver[0], signal.SIGSTOP)
        try:
            with psycopg.connect(self._url, autocommit=True) as admin:
                until(lambda: admin.execute(_UNCONFIRMED).fetchone(), "a commit waits", WITHIN)
            self._kill()
        finally:
            os.kill(receiver[0], signal.SIGCONT)
        self.standby.do("promote", "--wait")

    def _kill(self) -> None:
        [pid] = self._primary.rglob("postmaster.pid")
        os.kill(int(pid.read_text().split()[0]), signal.SIGKILL)


@pytest.fixture
def pair(place: Path, programs: Path) -> Iterator[Pair]:
    """Both, with the schema; commits wait for the standby."""
    (place / "primary").mkdir()
    (place / "primary").chmod(0o755)
    data = place / "primary" / "data"
    with EmbeddedPostgres(data, binaries=programs).open() as server:
        migrate(server.superuser_url)
        with standby_of(server.superuser_url, place, programs) as standby:
            with psycopg.connect(server.superuser_url, autocommit=True) as admin:
                admin.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
                admin.execute("SELECT pg_reload_conf()")
                until(lambda: admin.execute(_SYNCHRONOUS).fetchone() is not None, "it is attached")
            yield Pair(data, server.superuser_url, standby)


def scheduled(url: str) -> set[tuple[str, str, str]]:
    """The uid, the node and the name of each decision for a node."""
    with closing(Reader(url, STREAM)) as log:
        return {
            (stored.record.uid, stored.record.node, f"{STREAM}/{stored.position}")
            for stored in log.read()
            if isinstance(stored.record, PodDecided) and stored.record.outcome is Outcome.SCHEDULED
        }


def test_a_synchronous_standby_has_all_that_was_confirmed(pair: Pair) -> None:
    """The primary is killed while a batch is under way. The writer goes on, on the standby, with
    that batch: it is there once, whether the standby had it or not."""
    with closing(PostgresEventLog(pair.address, "s", "first", patience=30.0)) as log:
        for position in range(60):
            log.begin(batch(position))
            if position == 40:
                pair.fail_over()
            log.finish()
        assert log.epoch == 1
        assert [each.position for each in log.read()] == list(range(60))
    with psycopg.connect(pair.standby.url) as promoted:
        row = promoted.execute("SELECT next FROM eventsched_log.head").fetchone()
    assert row == (60,)
    assert main(["verify", "--database", pair.standby.url]) == 0


@pytest.mark.row(9)
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "fail_over", [Pair.fail_over, Pair.fail_over_within_a_commit], ids=["any moment", "in a commit"]
)
def test_a_scheduler_under_load_goes_on_with_the_promoted_standby(
    pair: Pair, fail_over: Callable[[Pair], None], tmp_path: Path
) -> None:
    """By itself, with all that it did: every bind that was ever asked for is a decision in the log
    of the promoted standby, and no pod that has a node is asked onto another one."""
    with LoadedCluster(pair.address, tmp_path) as cluster:
        replica = cluster.begin("only").leads()
        cluster.goes_on()
        fail_over(pair)
        cluster.goes_on()
        cluster.finish()
        assert replica.stop() == 0
    asked = cluster.api.asked
    assert [each for each in asked if each.on not in ("", each.node)] == []
    assert set(cluster.api.binds.values()) == {1}
    named = {(each.uid, each.node, each.decision.partition("@")[0]) for each in asked}
    assert named - scheduled(pair.standby.url) == set()
    for command in (["verify"], ["replay", "--verify"]):
        assert main([*command, "--database", pair.standby.url]) == 0
