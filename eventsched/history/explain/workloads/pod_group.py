"""A pod group (gang) that ``explain`` names: its members, and what keeps them from being bound
together.

Members name their group by a label or an annotation, which the tables of a database do not have;
they are found in the scheduler's state.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from eventsched.domain.errors import InputError
from eventsched.domain.objects import Pod
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.history.explain.conclusions.remedies import next_step
from eventsched.history.explain.explanation import NoPodError, suggestion
from eventsched.history.explain.workloads.workload import (
    ExplainTarget,
    WaitingGroup,
    Workload,
)
from eventsched.scheduling.framework.pod_groups import MINIMUM, membership
from eventsched.scheduling.framework.profile import profile_for

GROUPS_PLUGIN = "Coscheduling"
"""The plugin whose refusals only say that other members are not ready."""


@dataclass(frozen=True)
class GroupMembers:
    """The pods of a group that are not being deleted, by uid. ``minimum`` is how many have to be
    bound together, 0 if none says so. ``problem`` is what is wrong with a member's labels.
    ``nodes`` are those that are bound or reserved, by uid. ``unscheduled`` says why the plugin that
    schedules groups has no part in it, as far as is known."""

    namespace: str
    name: str
    minimum: int
    pods: Mapping[str, Pod]
    problem: str = ""
    nodes: Mapping[str, str] = field(default_factory=dict)
    unscheduled: str = ""

    def in_order(self, most: int) -> list[tuple[str, str]]:
        """The names of at most ``most`` members with their nodes, those without one first."""
        members = [(pod.full_name, self.nodes.get(uid, "")) for uid, pod in self.pods.items()]
        return sorted(members, key=lambda member: (member[1] != "", member[0]))[:most]


class GroupVerdict(NamedTuple):
    """Why a group is not bound, or that it is, as the end of a sentence about it; what to do, ""
    for nothing; and a pod that shows why, "" for the first that waits."""

    reason: str
    next_step: str
    example: str = ""


def group_members(
    state: SchedulerState, target: ExplainTarget, stream: str, profiles: Mapping[str, bool]
) -> GroupMembers:
    """The members of the group that ``target`` names. ``profiles`` are by name: True if the profile
    has the plugin GROUPS_PLUGIN at Permit; it is empty if that is not known. Raises NoPodError if
    there are no members, and InputError if several namespaces have a group of that name."""
    groups: dict[str, dict[str, Pod]] = {}
    for uid, pod_state in state.pods.items():
        own = membership(pod_state.pod)
        if own is not None and not pod_state.pod.deleting:
            groups.setdefault(own.group, {})[uid] = pod_state.pod
    found = [
        group
        for group in groups
        if group.rpartition("/")[2] == target.name
        and target.namespace in (None, group.partition("/")[0])
    ]
    if not found:
        words = ["/group/".join(group.split("/")) for group in sorted(groups)]
        remedy = suggestion(target.name, words) if words else "no pod names a group"
        problem = f"there is no pod of {target.kind} {target.full_name} in stream {stream}"
        raise NoPodError("POD", problem, remedy)
    if len(found) > 1:
        names = ", ".join(f"{'/group/'.join(group.split('/'))}" for group in sorted(found)[:9])
        problem = f"{target.word} is in {len(found)} namespaces"
        raise InputError("POD", problem, f"name one: {names}")
    pods = groups[found[0]]
    nodes = {uid: node for uid in pods if (node := state.pods[uid].booked_node)}
    memberships = [own for pod in pods.values() if (own := membership(pod)) is not None]
    return GroupMembers(
        found[0].partition("/")[0], target.name, max(own.minimum for own in memberships), pods,
        next((own.problem for own in memberships if own.problem), ""), nodes,
        _unscheduled(state, pods.values(), profiles),
    )  # fmt: skip


def _unscheduled(state: SchedulerState, pods: Iterable[Pod], profiles: Mapping[str, bool]) -> str:
    """Why the group means nothing to the profile of its pods; "" if it does."""
    if profiles and not any(profiles.values()):
        return f"no profile has the plugin {GROUPS_PLUGIN}"
    names = {name: name for name in profiles}
    own = (profile_for(names, state.shadows, pod.scheduler_name) for pod in pods)
    lacking = next((name for name in own if name is not None and not profiles[name]), None)
    return "" if lacking is None else f"the profile {lacking} lacks the plugin {GROUPS_PLUGIN}"


def group_verdict(workload: Workload, members: GroupMembers) -> GroupVerdict:
    """Why the group is not bound together: pods that are missing come first, then the refusal by
    another plugin that most members have."""
    minimum = members.minimum
    if members.unscheduled:
        return _verdict_without_plugin(workload, members.unscheduled)
    if members.problem:
        return GroupVerdict(members.problem, f"correct {MINIMUM} and the timeout of its pods")
    if not minimum:
        return GroupVerdict(
            "none of its pods says how many it needs", f"give its pods the label {MINIMUM}"
        )
    if workload.pods < minimum:
        lacking = minimum - workload.pods
        return GroupVerdict(
            f"it has {workload.pods} of the {minimum} pods that it needs",
            f"create the missing {'pod' if lacking == 1 else f'{lacking} pods'}",
        )
    if not workload.groups:
        return GroupVerdict(f"it is complete: it needs {minimum} on nodes, and has them", "")
    reserved = sum(group.pods for group in workload.groups if group.state == "waiting")
    holding = max(filter(_holds, workload.groups), key=lambda group: group.pods, default=None)
    blocking = holding or workload.groups[0]
    words = f"{_pods(blocking, holding)}: {blocking.why}"
    if workload.placed >= minimum:
        words = f"it has the {minimum} on nodes that it needs, but {words}"
    elif holding is not None:
        words += f"; {workload.placed + reserved} of the {minimum} that it needs have a node"
    if reserved and holding is not None:
        words += f", {reserved} of them only reserved"
    step = "" if holding is None else _next_step(holding, members)
    return GroupVerdict(words, step, blocking.examples[0])


def _verdict_without_plugin(workload: Workload, unscheduled: str) -> GroupVerdict:
    """Why the pods wait of a group that means nothing to the scheduler: the largest group of them,
    and the next step of its oldest pod."""
    reason = f"{unscheduled}, so its pods are scheduled one by one"
    if not workload.groups:
        return GroupVerdict(f"{reason}; all of them are on nodes", "")
    groups = (each for each in workload.groups if workload.needs_step in each.examples)
    largest = next(groups, workload.groups[0])
    words = f"{reason}; {_pods(largest, None)}: {largest.why}"
    return GroupVerdict(words, workload.next_step, largest.examples[0])


def _holds(group: WaitingGroup) -> bool:
    """Whether pods wait for something else than the other members."""
    return group.state == "gated" or (group.is_refused and group.plugin != GROUPS_PLUGIN)


def _pods(group: WaitingGroup, holding: WaitingGroup | None) -> str:
    first = group.examples[0].rpartition("/")[2]
    if group.pods == 1:
        return f"its pod {first}{'' if holding is None else ' holds it'}"
    return f"{group.pods} of its pods ({first}, …){'' if holding is None else ' hold it'}"


def _next_step(holding: WaitingGroup, members: GroupMembers) -> str:
    if holding.state == "gated":
        return "remove the scheduling gates of these pods"
    example = holding.examples[0]
    pod = next((pod for pod in members.pods.values() if pod.full_name == example), None)
    step = next_step(holding.plugin, holding.reason.split(", "), example, pod, holding.code)
    return step if holding.pods == 1 else f"{step}; so for each of these {holding.pods} pods"
