"""Which of the refusals of a failed attempt is named first: one that a user can resolve.

Most nodes are often not meant for a pod: they are tainted, or its node selector leaves them out. So
refusals are ranked, the lowest first:

0. refusals that the end of other pods may lift: any status code but UnschedulableAndUnresolvable
   (kube-scheduler framework/interface.go), with which preemption would not help;
1. others on nodes that are meant for the pod, such as requests that no such node could hold;
2. those of FENCES: the node is not meant for the pod;
3. those of no plugin: PreFilter left the node out, or the search ended before it.

Among those of a rank it is the one of the most nodes, among equals the one that the stream met
first. The column ``verdict`` of ``pod_now``, and with it view ``pods_now``, does not know ranks: it
is the refusal of the most nodes that a plugin refused.
"""

from eventsched.domain.records.verdicts import Code

FENCES = ("NodeAffinity", "NodeName", "NodeUnschedulable", "TaintToleration")
"""Filters that say which nodes a pod may use at all. kube-scheduler runs them before the others."""
_BY_NO_PLUGIN = 3


def refusal_rank(plugin: str | None, code: str) -> int:
    """The rank of a refusal, 0 to 3. ``plugin`` is "" or None if no single plugin refused."""
    if not plugin:
        return _BY_NO_PLUGIN
    if code != Code.UNRESOLVABLE:
        return 0
    return 2 if plugin in FENCES else 1


def rank_sql(plugin: str, code: str) -> str:
    """The same as an SQL expression over two columns."""
    fences = ", ".join(f"'{name}'" for name in FENCES)
    return (
        f"CASE WHEN coalesce({plugin}, '') = '' THEN {_BY_NO_PLUGIN} "
        f"WHEN {code} <> '{Code.UNRESOLVABLE}' THEN 0 "
        f"WHEN {plugin} IN ({fences}) THEN 2 ELSE 1 END"
    )
