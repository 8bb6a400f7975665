"""kube-scheduler and eventsched on one API server, asked about the same pods one after another:
if one node is best, both choose it; if no node fits, both give the reason in the same words.
"""

from collections.abc import Callable, Generator
from contextlib import closing
from functools import partial
from typing import NamedTuple

from eventsched.domain.records import Outcome, PodDecided
from tests.cluster.harness import mixed
from tests.cluster.harness.client import Client, Object, wait_for
from tests.cluster.harness.manifests import SCHEDULER, UPSTREAM, pod
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import condition
from tests.cluster.harness.scheduler import Scheduler, Schedulers
from tests.cluster.harness.servers import Server

NODES, PODS, SEED = 100, 500, 6
"""With this number of nodes kube-scheduler looks at all of them."""
WAIT_SECONDS = 30
"""Seconds for one pod."""

BEST = """
    SELECT d.seq, array_agg(DISTINCT s.node) AS nodes
    FROM eventsched.decisions d, LATERAL eventsched.scores(d.stream, d.seq) s
    WHERE s.rank = 1 GROUP BY d.seq
"""


class Fate(NamedTuple):
    """A pod's result: a node, or the reason for none."""

    node: str
    message: str


class Judge:
    """Has one pod after the other judged, and follows them by a watch; close it."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client, self._namespace = client, namespace
        self._version = client.listing("Pod", namespace)["metadata"]["resourceVersion"]
        self._events = self._watch()

    def fate(self, manifest: Object, scheduler: str, *, keep: bool) -> tuple[str, Fate]:
        """A new pod's uid and fate with a scheduler. One that is not kept, or has no node, is gone
        afterwards."""
        spec = {**manifest["spec"], "schedulerName": scheduler}
        made = self._client.create({**manifest, "spec": spec}, self._namespace)
        name, uid = made["metadata"]["name"], made["metadata"]["uid"]
        fate = fate_of(self._until(lambda _, each: condition(each, "PodScheduled"), uid))
        if not keep or not fate.node:
            self._client.delete("Pod", name, self._namespace, grace=0)
            self._until(lambda kind, each: kind == "DELETED", uid)
        return uid, fate

    def _until(self, wanted: Callable[[str, Object], object], uid: str) -> Object:
        """The pod, once the watch shows what is expected."""
        for _ in range(2):
            for event in self._events:
                found: Object = event["object"]
                self._version = found["metadata"]["resourceVersion"]
                if found["metadata"]["uid"] == uid and wanted(event["type"], found):
                    return found
            self._events = self._watch()
        raise TimeoutError(f"{uid} is not judged within {WAIT_SECONDS} s")

    def close(self) -> None:
        """Ends the watch."""
        self._events.close()

    def _watch(self) -> Generator[Object, None, None]:
        return self._client.watch(
            "Pod", self._namespace, seconds=WAIT_SECONDS, resourceVersion=self._version
        )


def counts_all_nodes(judge: Judge) -> bool:
    """Whether kube-scheduler has seen all nodes: a pod may reach it before nodes that were there
    earlier."""
    _, fate = judge.fate(pod("huge", cpu="1000"), UPSTREAM, keep=False)
    return fate.message.startswith(f"0/{NODES} nodes are available")


def fate_of(found: Object) -> Fate:
    scheduled = condition(found, "PodScheduled") or {}
    return Fate(found["spec"].get("nodeName", ""), scheduled.get("message", ""))


def test_both_choose_the_same(
    plane: ControlPlane, upstream: Server, schedulers: Schedulers, namespace: str
) -> None:
    scheduler = schedulers.start()
    for each in (*mixed.services(), *mixed.nodes(NODES)):
        plane.admin.create(each, namespace)
    theirs, ours = {}, {}
    cached = partial(scheduler.metric, "scheduler_cache_size", type="nodes")
    wait_for(lambda: cached() == NODES, "all nodes are seen")
    with closing(Judge(plane.admin, namespace)) as judge:
        wait_for(lambda: counts_all_nodes(judge), "kube-scheduler sees them, too")
        for manifest in mixed.pods(PODS, SEED):
            _, fate = judge.fate(manifest, UPSTREAM, keep=False)
            uid, ours[uid] = judge.fate(manifest, SCHEDULER, keep=True)
            theirs[uid] = fate

    best = best_nodes(scheduler)
    differing = {
        uid: (theirs[uid], ours[uid], best[uid])
        for uid in ours
        if theirs[uid].message != ours[uid].message or theirs[uid].node not in best[uid]
    }
    assert differing == {}
    assert sum(len(nodes) == 1 and nodes != [""] for nodes in best.values()) > PODS / 2
    assert len({fate.message for fate in ours.values()}) > 10


def best_nodes(scheduler: Scheduler) -> dict[str, list[str]]:
    """Uid → the nodes with the highest score, by the log; [""] if there is none."""
    rows = {row["seq"]: row["nodes"] for row in scheduler.reader().rows(BEST)}
    log = scheduler.log()
    found = {}
    for stored, record in zip(log.stored, log.records, strict=True):
        if isinstance(record, PodDecided):
            found[record.uid] = rows.get(stored.position, [""])
            if record.outcome is Outcome.SCHEDULED:
                assert len(found[record.uid]) == record.ties
                assert record.node in found[record.uid]
    return found
