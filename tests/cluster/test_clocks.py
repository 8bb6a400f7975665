"""Wrong clocks: leases and the log depend on elapsed time, not on the time of day."""

from itertools import pairwise
from pathlib import Path

import pytest

from eventsched.domain.records import TermBegan
from tests.cluster.harness.client import Object, wait_for
from tests.cluster.harness.manifests import node, pod
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import Pods
from tests.cluster.harness.scheduler import Schedulers
from tests.cluster.harness.wall_clock import WallClock

HOUR = 3600
MINUTE = 60_000_000
"""In µs."""


@pytest.mark.row(16)
def test_a_leaders_clock_jumps(
    plane: ControlPlane, schedulers: Schedulers, namespace: str, tmp_path: Path
) -> None:
    """First it is an hour ahead, then an hour behind. It keeps its lease, whatever times the
    lease contains; backoffs end; the log's time advances steadily, also under the next leader,
    whose clock is right."""
    plane.admin.create(node("a"))
    pods = Pods(plane.admin, namespace)
    times = {"leaseDuration": "60s", "renewDeadline": "40s", "retryPeriod": "500ms"}
    where = {"resourceName": "clocks", "resourceNamespace": namespace}
    config = {"leaderElection": {"leaderElect": True, **where, **times}}
    clock = WallClock(tmp_path / "clock")
    clock.jump(HOUR)
    first = schedulers.start(config=config, environment=clock.environment)
    second = schedulers.make(config=config)
    second.server.start()

    def lease() -> Object:
        found: Object = plane.admin.get("Lease", "clocks", namespace)["spec"]
        return found

    def renewed(times: int) -> list[str]:
        seen = [lease()["renewTime"]]
        for _ in range(times):
            seen.append(wait_for(lambda: other(lease()["renewTime"], seen[-1]), "it is renewed"))
        return seen[1:]

    pods.create(pod("p1"))
    pods.create(pod("large", "32"))
    pods.node("p1")
    pods.wait_condition("large")
    wait_for(lambda: second.ask("/readyz")[0] == 200, "the second one stands by", 60.0)
    before = lease()
    clock.jump(-HOUR)
    assert renewed(4)[-1] < before["acquireTime"]
    plane.admin.create(node("b", "64"))
    assert pods.node("large") == "b"
    assert lease()["holderIdentity"] == before["holderIdentity"]
    assert lease()["leaseTransitions"] == before["leaseTransitions"]
    assert first.stop() == 0
    second.leads()
    pods.create(pod("p2"))
    pods.node("p2")
    log = second.log()
    assert [each.epoch for each in log.of(TermBegan)] == [1, 2]
    steps = [after.at - each.at for each, after in pairwise(log.stored)]
    assert min(steps) >= 0
    assert max(steps) < MINUTE


def other(now: str, before: str) -> str:
    return now if now != before else ""
