"""The open loop: each decision from the state that history had."""

from pathlib import Path

import pytest

from eventsched.cluster.sources.arrivals import TracePod
from eventsched.domain.errors import InputError
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.domain.units import SECOND
from eventsched.history.export_reader import FileLog
from eventsched.runtime.queries.state_at import FoldedState
from eventsched.runtime.queries.what_if.history_run import Stretch, run_open
from eventsched.runtime.queries.what_if.open_loop import OpenLoop, OtherChoice
from eventsched.runtime.queries.what_if.pod_fates import Reason
from eventsched.runtime.queries.what_if.result_documents import open_document
from eventsched.testing import make_node, make_pod
from tests.builders import engine_of
from tests.databases import ROOT
from tests.unit.runtime.what_if.histories import (
    MOST_ALLOCATED,
    SAME,
    configured,
    rules,
    simulated,
    whole,
)


@pytest.mark.parametrize("name", ["0.1-cluster", "0.1-gallery", "0.1-live", "0.1-importance"])
def test_same_rules_on_logs_of_an_older_version(name: str) -> None:
    log = FileLog(ROOT / "tests" / "histories" / f"{name}.jsonl.gz")
    loop = run_open(Stretch(log, FoldedState(SchedulerState(), 0, 0, None), log.head.next), SAME)
    assert loop.others == []
    assert loop.decisions == sum(stored.kind == "PodDecided" for stored in log.read())


def test_nothing_carries_on(tmp_path: Path) -> None:
    """History spreads three pods. The other rules would stack each on a node that has one: the
    first may go anywhere."""
    nodes = [make_node(f"n{index}") for index in range(3)]
    arrivals = [TracePod(make_pod(f"p{index}"), index * SECOND) for index in range(3)]
    _, log = simulated(nodes, arrivals)
    was = {uid: stored.record.node for stored in log.read() if stored.kind == "PodDecided"
           for uid in [stored.record.uid]}  # fmt: skip
    for first in (0, next(s.position for s in log.read() if s.at >= SECOND)):
        loop = run_open(whole(log, first), rules(configured(MOST_ALLOCATED, tmp_path)))
        others = {other.pod: other for other in loop.others}
        assert others["p1"].before == was["p1"]
        assert others["p1"].after == was["p0"]
        assert others["p2"].after in (was["p0"], was["p1"])
        assert others["p2"].reason.plugin == "NodeResourcesFit"


def test_a_range_without_decisions() -> None:
    _, log = simulated([make_node("n1")], [TracePod(make_pod())])
    with pytest.raises(InputError, match="holds no decision from position 0 to 2"):
        run_open(whole(log, 0, 2), SAME)


def test_a_pod_that_only_one_side_places_has_not_moved() -> None:
    """It is among the differences."""
    loop = OpenLoop(engine_of(), lambda _: engine_of())
    reason = Reason("NodeResourcesFit", "Insufficient cpu", 0)
    nodes = (("n1", "n2"), ("n1", ""), ("", "n2"))
    loop.others = [
        OtherChoice(position, "p", "default", 0, 1, before, after, reason)
        for position, (before, after) in enumerate(nodes)
    ]
    document = open_document(loop, 0, 9)
    assert document["moved"] == 1
    found = [(each["before"]["node"], each["after"]["node"]) for each in document["differences"]]
    assert found == list(nodes)
