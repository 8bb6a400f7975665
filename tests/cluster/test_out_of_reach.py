"""A leader whose database no longer answers it, and another replica that it does answer."""

import re
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from eventsched.domain.records import TermBegan
from tests.cluster.harness.client import wait_for
from tests.cluster.harness.faults import Lose
from tests.cluster.harness.manifests import pod
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.test_replicas import SHORT, Stage, said, stands_by


@pytest.fixture
def stage(plane: ControlPlane, database: str, namespace: str) -> Iterator[Stage]:
    """Two replicas, the first one between proxies."""
    with ExitStack() as running:
        yield Stage(plane, database, namespace, running)


@pytest.mark.row(31)
def test_the_lease_is_given_to_one_who_reaches_the_database(stage: Stage) -> None:
    """After 45 s. None of the first one's uncommitted decisions is bound."""
    first = stage.first(**SHORT)
    second = stage.second(**SHORT)
    second.server.start()
    stage.placed("p1")
    wait_for(lambda: stands_by(second), "the second one stands by", 60.0)
    stage.postgres.on("", Lose())
    before = stage.bindings()
    stage.pods.create(pod("p2"))
    stage.pods.node("p2", 120.0)
    assert stage.bindings() == before
    second.leads()
    [line] = said(first, "no longer the leader")
    unreachable = re.match(r"the database: unreachable for (\d+) s", line["reason"])
    assert unreachable is not None
    assert int(unreachable[1]) >= 45
    assert [each.epoch for each in second.log().of(TermBegan)] == [1, 2]
    stage.postgres.clear()
    wait_for(lambda: stands_by(first), "the first one stands by", 60.0)
