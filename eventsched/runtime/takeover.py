"""What a new leader does before its first attempt, and after a broken watch: the log and the
cluster are brought to agree.

After a clean takeover the log is complete: what it does not intend was never sent. After lost
history (ruling R6) it may be missing intents whose binds are still on their way, and ends of
intents that it shows as open. So every pod without a node is touched, which stops whatever is on
its way; what the cluster has then is taken in; and everything that the log still promises is void.
"""

from eventsched.domain import records
from eventsched.domain.columns import ALLOCATABLE, REQUESTED
from eventsched.domain.records import Stimulus
from eventsched.domain.state import SchedulerState
from eventsched.runtime.messages import Listed, PodAnswer, PodRequest, TouchPod
from eventsched.runtime.sight import Sight

LOST = "history was lost"


class Fence:
    """Touches pods, and knows which of them have not been touched yet."""

    def __init__(self, listed: Listed) -> None:
        self._pending = {
            pod.uid: TouchPod(pod.uid, pod.namespace, pod.name)
            for pod in (seen.pod for seen in listed.pods)
            if not pod.node_name
        }

    @property
    def requests(self) -> list[PodRequest]:
        """The touches that are not acknowledged yet."""
        return list(self._pending.values())

    def answered(self, answer: PodAnswer) -> None:
        """A pod was touched, or is gone."""
        self._pending.pop(answer.request.uid, None)


def differences(state: SchedulerState, listed: Listed, nodes: Sight, pods: Sight) -> list[Stimulus]:
    """What a list says that is news: ends first, then nodes, then pods."""
    there = {seen.node.name for seen in listed.nodes}
    alive = {seen.pod.uid for seen in listed.pods}
    found: list[Stimulus] = [
        records.NodeDeleted(name=name) for name in state.nodes.rows if name not in there
    ]
    found += [records.PodDeleted(uid=uid) for uid in state.pods if uid not in alive]
    found += [
        records.NodeUpdated(node=seen.node)
        for seen in listed.nodes
        if nodes.answered(seen.node.name, seen.resource_version)
    ]
    found += [
        records.PodUpdated(pod=seen.pod)
        for seen in listed.pods
        if pods.answered(seen.pod.uid, seen.resource_version)
    ]
    nodes.relisted(listed.nodes_version, there)
    pods.relisted(listed.pods_version, alive)
    return found


def is_crowded(state: SchedulerState, uid: str) -> bool:
    """Whether the node that is held for a pod is gone, or is booked beyond what it has: somebody
    else has placed pods there."""
    row = state.pods[uid].row
    if row < 0:
        return True
    books = state.nodes.books[row]
    return bool((books[REQUESTED] > books[ALLOCATABLE]).any())


def void(state: SchedulerState, uid: str, reason: str, version: int = 0) -> Stimulus:
    """The end of a reservation for which no bind can land."""
    held = state.reservations[uid]
    return records.BindVoided(
        uid=uid, node=held.node, attempt=held.attempt, reason=reason, resource_version=version
    )
