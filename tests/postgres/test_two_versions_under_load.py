"""Replicas of two versions on one database while pods arrive: up, down again, up, and post."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from eventsched.eventlog.schema import migrations
from tests.next_version import BEHAVIOUR, KIND, OURS, POST, PRE, VERSION, NextVersion
from tests.postgres.loaded_cluster import STREAM, WITHIN, LoadedCluster, ReplicaProcess
from tests.waiting import until


class Stage(LoadedCluster):
    """The cluster with replicas of two versions."""

    def __init__(self, database: str, folder: Path, newer: NextVersion) -> None:
        super().__init__(database, folder)
        self.newer = newer

    def start(self, version: str) -> ReplicaProcess:
        """Starts a replica of the ``old`` or the ``new`` version."""
        return self.begin(version, self.newer.environment if version == "new" else None)

    def upgrade(self, *options: str, code: int = 0) -> str:
        """``db upgrade`` of the new version; what it says."""
        done = self.newer.run("db", "upgrade", *options, "--database", self.database)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    def kinds(self) -> Counter[str]:
        """How many records of each kind there are, whichever version knows them."""
        query = "SELECT kind, records FROM eventsched.kinds WHERE stream = %s"
        with psycopg.connect(self.database) as connection:
            return Counter(dict(connection.execute(query, (STREAM,)).fetchall()))


@pytest.fixture
def stage(database: str, tmp_path: Path) -> Iterator[Stage]:
    folder = tmp_path / "next"
    with Stage(database, tmp_path, NextVersion(folder)) as made:
        yield made


@pytest.mark.timeout(1200)
def test_two_versions_under_load_up_down_and_up_again(stage: Stage) -> None:
    """Nothing is lost and nothing is bound twice, whichever version leads. Before post, records
    are such as both can read."""
    first = stage.start("old").leads()
    stage.goes_on()
    assert f"{OURS} → {PRE}" in stage.upgrade("--pre")
    stage.goes_on()

    newer = stage.start("new").follows()  # old and new
    waiting = newer.wait_for("behaviours wait for `eventsched db upgrade --post`")
    assert waiting["behaviours"] == [BEHAVIOUR]
    assert first.stop() == 0
    newer.leads()  # the new one leads, beside an old standby
    stage.goes_on()
    assert migrations.require(stage.database) == PRE
    back = stage.start("old").follows()
    assert newer.stop() == 0
    back.leads()  # back to the old one, on the new one's records
    stage.goes_on()
    assert stage.kinds()[KIND] == 0
    # A down-migration beside the old one, and up again.
    down = "from eventsched.eventlog.schema import migrations as m; m.downgrade({!r}, {!r})"
    assert stage.newer.python("-c", down.format(stage.database, OURS)).returncode == 0
    stage.goes_on()
    assert f"{OURS} → {PRE}" in stage.upgrade("--pre")

    newer = stage.start("new").follows()
    refused = stage.upgrade("--post", code=3)
    assert f"schema {POST} does not serve: they follow {STREAM} (schema {OURS})" in refused
    assert back.stop() == 0
    newer.leads()
    stage.goes_on()
    assert f"{PRE} → {POST}" in stage.upgrade("--post")
    newer.wait_for("another configuration is taken up")  # by itself
    until(lambda: stage.kinds()[KIND], "records of the new kind", WITHIN, every=0.2)
    stage.finish()
    assert stage.start("old").process.wait(WITHIN) == 3
    line = stage.replicas[-1].log.read_text().splitlines()[-1]
    assert line.startswith("eventsched run: ")
    assert "does not serve it; install the version of eventsched that made it" in line
    assert newer.stop() == 0
    assert set(stage.api.binds.values()) == {1}
    stage.newer.describe_schema(stage.database)
    for command in (("verify",), ("replay", "--verify")):
        done = stage.newer.run(*command, "--database", stage.database)
        assert done.returncode == 0, done.stdout + done.stderr
    assert VERSION in stage.newer.run("--version").stdout
