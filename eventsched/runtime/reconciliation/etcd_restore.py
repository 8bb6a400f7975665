"""Detects that the cluster's storage was restored to an earlier state, for example from a backup of
etcd.

What binds, answers and watches have shown is then no longer true, and resourceVersions may be given
out again. So the term ends. The next one takes the cluster as it is. Only at the beginning of a
term may a pod be on another node than in the log or on none, have a gate again, or be deleted in
the log alone.
"""

from collections.abc import Iterable, Iterator, Sequence

from eventsched.cluster.messages import Listing, PodSeen, Seen
from eventsched.domain import records
from eventsched.domain.objects import Pod
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.runtime.reconciliation.breaks import WithBreaks, gathered
from eventsched.runtime.reconciliation.seen_versions import SeenResources, resource_and_key

REASON = "the cluster's storage was restored to an earlier state"


class EtcdRestoreDetector:
    """Notices during a term that the cluster is older than what is known about it.

    A list with an earlier resourceVersion shows that. If versions were raised after the restore
    (etcd's ``--bump-revision``), only the listed objects are older than they were seen. But an
    answer to a request may also be newer than a list. Such objects are ``doubts``, until a list
    that is requested afterwards confirms or clears them.
    """

    def __init__(self, state: SchedulerState, seen_resources: SeenResources) -> None:
        self.doubts: set[tuple[str, str]] = set()
        """Resource and key of objects that a list has shown in an older version than before."""
        self._state, self._seen = state, seen_resources

    def shows(self, listings: Sequence[Listing], since: int | None) -> WithBreaks[bool]:
        """Whether lists show a restore. Call before the lists are taken in. ``since`` is that of
        ``Relisted``; None if the lists were requested after the doubts arose."""
        doubtful = set((yield from gathered(self._doubtful(listings))))
        decidable = self.doubts if since is None else set()
        self.doubts = (self.doubts - decidable) | doubtful
        return bool(doubtful & decidable) or any(
            listing.version < max(since or 0, self._seen.of(listing.resource).upto)
            for listing in listings
        )

    def _doubtful(self, listings: Sequence[Listing]) -> Iterator[tuple[str, str] | None]:
        for listing in listings:
            for seen in listing.seen:
                resource, key = resource_and_key(seen)
                is_older = seen.resource_version < self._seen.of(resource).version(key)
                is_doubtful = is_older or _has_lost_its_node(self._state, seen)
                yield (resource, key) if is_doubtful else None


def reverted(
    state: SchedulerState, listings: Iterable[Listing]
) -> Iterator[records.PodDeleted | None]:
    """The ends of pods that the cluster has in an earlier state than the log, at the beginning of a
    term; None for each other object. Such a change cannot be undone, so the listed pod is taken as
    a new one: it is scheduled again, and what it had is free."""
    for listing in listings:
        for seen in listing.seen:
            if isinstance(seen, PodSeen) and _is_reverted(state, seen.pod):
                yield records.PodDeleted(uid=seen.pod.uid)
            else:
                yield None


def _has_lost_its_node(state: SchedulerState, seen: Seen) -> bool:
    if not isinstance(seen, PodSeen) or seen.pod.node_name:
        return False
    pod_state = state.pods.get(seen.pod.uid)
    return pod_state is not None and pod_state.bound


def _is_reverted(state: SchedulerState, pod: Pod) -> bool:
    """Whether the log has a pod on another node than the cluster has it; or the cluster has it on
    none, and the log has seen the end of a gate that it has, or waits for its end."""
    pod_state = state.pods.get(pod.uid)
    if pod_state is None:
        return False
    if pod_state.bound or pod.node_name:
        return pod_state.bound and pod_state.pod.node_name != pod.node_name
    deletion_is_undone = pod_state.pod.deleting and not pod.deleting
    return deletion_is_undone or not set(pod.gates) <= set(pod_state.pod.gates)
