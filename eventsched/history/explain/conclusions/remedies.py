"""What would help a pod that a plugin refuses, and what to do next, in a few words."""

import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from eventsched.domain.objects import Pod, Requirement, pod_requests
from eventsched.domain.records.exclusions import NARROWED
from eventsched.domain.records.verdicts import Code
from eventsched.history.closed_nodes import ClosedNodes, UnselectedNodes, requests_extended
from eventsched.history.explain.conclusions.node_opening import (
    closed_text,
    counted_nodes,
    opening_text,
    proof_text,
    repairs,
    room_text,
    why_not_command,
)
from eventsched.history.explain.conclusions.reason_codes import reason_code
from eventsched.history.why_not.change_value import quantity
from eventsched.scheduling.preemption.preemption_messages import NEVER, NO_VICTIMS
from eventsched.scheduling.rules.selection import NAME_FIELD

_INSUFFICIENT = "Insufficient "
_MISSING_CLAIM = re.compile(r'persistentvolumeclaim "([^"]+)" not found')
"""The reason of every volume plugin for a missing claim."""
_OF_VOLUMES = ("Volume", "NodeVolumeLimits")
_OF_PLUGINS = {
    "NodeUnschedulable": "an uncordoned node, or a toleration for cordoned ones",
    "NodeName": "the node that its spec.nodeName names",
    "TaintToleration": "a toleration for the taints, or nodes without them",
    "NodeAffinity": "a node with the labels that its node selector or affinity asks for",
    "NodePorts": "a node where its host ports are free",
    "NodeResourcesFit": "the end of pods on those nodes, another node, or smaller requests",
    "PodTopologySpread": "a node in a domain with fewer of its pods, or a larger maxSkew",
    "InterPodAffinity": "a node that suits its affinity and the anti-affinity of all pods",
    "VolumeBinding": "a volume that fits its claims and can be reached from a node",
    "VolumeRestrictions": "the end of the pod that uses the same volume",
    "VolumeZone": "a node in the zone of its volumes",
    "NodeVolumeLimits": "a node whose driver can attach one more volume",
    "SchedulingGates": "the removal of its scheduling gates",
    "DynamicResources": "a kube-scheduler: pods with resource claims are not scheduled here",
    "Coscheduling": "more members of its group, and room for all of them at once",
    "CapacityScheduling": "room in its namespace's ElasticQuota",
    "NodeResourceTopologyMatch": "a node with what it asks for in one NUMA zone",
    "FirstScheduledNode": "room on the node that is remembered, or `eventsched sticky forget`",
    "NodeGroup": "a node whose label nodeGroup equals the pod's",
    "PriorityLabel": "a node with the label that the plugin scores by",
    "NodeHardware": "a node with the hardware that it asks for",
}


def remedy(plugin: str, reasons: Sequence[str], code: str = "", closed_by: str = "") -> str:
    """What would help against a refusal for these reasons; "" if that is not known. ``code`` is
    that of the refusal's status, ``closed_by`` the plugin that alone refuses nodes that are large
    enough."""
    if closed_by:
        opened = remedy(closed_by, ())
        return f"{opened}; {closed_text(closed_by)}"
    lacking = _lacking(reasons)
    if plugin == "NodeResourcesFit" and lacking and code == Code.UNRESOLVABLE:
        return (
            "a larger node, or smaller requests: no node that is open to it is large"
            " enough, even if empty"
        )
    if plugin == "NodeResourcesFit" and lacking:
        resources = " and ".join(lacking)
        return f"{resources} that pods on those nodes give back, another node, or smaller requests"
    if plugin == "NodeResourcesFit" and "Too many pods" in reasons:
        return "the end of pods on those nodes, or another node: they hold as many as they may"
    missing = next(filter(None, map(_MISSING_CLAIM.search, reasons)), None)
    if missing is not None and plugin.startswith(_OF_VOLUMES):
        return f"the PersistentVolumeClaim {missing[1]} in the pod's namespace"
    return _OF_PLUGINS.get(plugin, "")


_NODE_GROUP = "give a node the pod's group label, with the same value"
_PRIORITY_LABEL = "give a node the label that the plugin scores by, with a whole number as value"
_OF_CODES = {
    "TooManyPods": "delete pods on those nodes or add a node, they hold as many pods as they may",
    "NodeUnschedulable": "uncordon one of the nodes, or add a toleration for cordoned nodes",
    "NodeNameMismatch": "create the node that its spec.nodeName names",
    "TaintMismatch": "add a toleration for the taints to the pod, or remove them from a node",
    "NodeAffinityMismatch": "label a node as its node selector and affinity ask, or relax these",
    "HostPortConflict": "delete a pod that uses the same host port, or add a node",
    "TopologyLabelMissing": "give the nodes the label that its spread constraints name",
    "TopologySpreadConflict": "make room in a domain with fewer of its pods, or raise maxSkew",
    "PodAffinityMismatch": "start a pod that its affinity asks for, or relax the affinity",
    "PodAntiAffinityConflict": "add a node in a domain without such pods, or relax its"
    " anti-affinity",
    "ExistingPodAntiAffinityConflict": "add a node in a domain without the pods whose"
    " anti-affinity keeps it away, or delete these",
    "VolumeUnavailable": "create a volume that fits its claims and can be reached from a node",
    "VolumeInUse": "delete the pod that uses the same volume",
    "VolumeZoneMismatch": "add a node in the zone of its volumes",
    "VolumeLimitExceeded": "add a node whose driver can attach one more volume",
    "NodeFeatureMissing": "add a node that declares the features that it needs",
    "SchedulingGated": "remove its scheduling gates",
    "DynamicResourcesRefused": "remove its resource claims, or let a kube-scheduler schedule it,"
    " pods with resource claims are not scheduled here",
    "CoschedulingRefused": "make room for all members of its group at once, and create those that"
    " are missing",
    "CapacitySchedulingRefused": "raise its namespace's ElasticQuota, or delete pods that use it",
    "NodeResourceTopologyMatchRefused": "add a node with what it asks for in one NUMA zone, or"
    " lower its requests",
    "FirstScheduledNodeRefused": "make room on the node that is remembered, or run `eventsched"
    " sticky forget`",
    "NodeGroupRefused": _NODE_GROUP,
    "MyCustomPluginRefused": _NODE_GROUP,
    "PriorityLabelRefused": _PRIORITY_LABEL,
    "PriorityRefused": _PRIORITY_LABEL,
    "NodeHardwareRefused": "add a node with the hardware that it asks for",
    "multipoint-communicating-pluginRefused": "remove the mark for which that plugin refuses it",
}
"""What to do about a refusal with a code of reason_codes.py, as an imperative phrase."""
OTHER_NODES = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME_FITS = "node(s) didn't find available persistent volumes to bind"
_OF_VOLUME_REASONS = {
    OTHER_NODES: "open, make room on, or add a node"
    " that the node affinity of its PersistentVolume names, or give it another volume",
    "node(s) did not have enough free storage": "add a node with more storage for its claims, or"
    " lower what they request",
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)": "create the"
    " PersistentVolume that its claim names, or delete the claim and create it again",
}
"""What to do about the other reasons of VolumeBinding: one more volume would not help."""
_BY_TAINTS = ("TaintToleration", "NodeUnschedulable")
_OF_ANY_CODE = "run `eventsched explain {pod} --why-not NODE`, which looks for a change that helps"


class Circumstances(NamedTuple):
    """What else an attempt shows: how many nodes were refused for their taints alone, as far
    as is known, and how many because they are cordoned; one of these nodes, "" if none is named;
    the attempt's message, which says why preemption did not help; which of these nodes are large
    enough for the pod, None if that was not checked; the open nodes that are, and that only its
    node selector or affinity leaves out; a node that lacks room for the pod, "" if none is
    named; why open nodes are too small for it even if empty; and how many nodes have room for it
    but no volume for its claims, with one of these; whether its volume ties it to some nodes."""

    tainted: int = 0
    cordoned: int = 0
    example: str = ""
    message: str = ""
    closed: Sequence[ClosedNodes] | None = None
    unselected: UnselectedNodes = UnselectedNodes()
    full: str = ""
    too_small: Sequence[str] = ()
    without_volume: int = 0
    without_volume_example: str = ""
    is_tied: bool = False


def next_step(
    plugin: str, reasons: Sequence[str], pod_name: str, pod: Pod | None, code: str = "",
    circumstances: Circumstances = Circumstances(),  # noqa: B008 - immutable
) -> str:  # fmt: skip
    """What to do about a refusal for these reasons, as an imperative phrase. ``pod_name`` is
    ``namespace/name``; ``pod`` says how much is requested and of which nodes, None if that is not
    known. ``code`` is that of the refusal's status.

    Nodes that only keep pods away are opened if they are for the pod (ClosedNodes), and if that
    helps: they have room, or no open node is large enough. A toleration for the taints of other
    nodes, which are dedicated to other pods, is advised only if there is nothing else to do."""
    lacking = _lacking(reasons)
    if plugin == "NodeResourcesFit" and lacking:
        more = _more_room(lacking, pod, code)
        if circumstances.is_tied and code != Code.UNRESOLVABLE:
            reached = "make room on a node that its volume can be reached from"
            more[:2] = [reached, "add such a node"]
        ways = [*more, *_preemption(pod, circumstances.message)]
        steps = [_either(ways)]
        if closed_nodes := _closed_nodes(circumstances, pod_name, pod, code):
            # If no open node is large enough, opening one of these needs no new node.
            is_first = code == Code.UNRESOLVABLE and circumstances.closed is not None
            steps.insert(0 if is_first else 1, closed_nodes)
        repairing = repairs(circumstances.closed)
        if circumstances.full and not closed_nodes and not repairing:
            command = why_not_command(pod_name, circumstances.full)
            steps[0] += f" ({command} says what it would take there)"
        if circumstances.without_volume:
            # Room does not give a volume. The nodes without room were not asked for one.
            steps.insert(0, _volume_where_room_is(circumstances, pod_name))
        return "; or ".join([*steps, *repairing])
    if plugin == "NodeAffinity":
        steps = [_selected(pod, reasons, pod_name, circumstances)]
        return "; or ".join([*steps, *repairs(circumstances.closed)])
    if plugin in _BY_TAINTS:
        return _opening(plugin, pod, pod_name, circumstances)
    missing = next(filter(None, map(_MISSING_CLAIM.search, reasons)), None)
    if missing is not None and plugin.startswith(_OF_VOLUMES):
        return f"create the PersistentVolumeClaim {missing[1]} in the pod's namespace"
    for reason in reasons or ("",):
        if plugin == "VolumeBinding" and reason in _OF_VOLUME_REASONS:
            return _OF_VOLUME_REASONS[reason]
        if known := _OF_CODES.get(reason_code(plugin, reason)):
            return known
    return _OF_ANY_CODE.format(pod=shlex.quote(pod_name))


def _volume_where_room_is(circumstances: Circumstances, pod_name: str) -> str:
    node, number = circumstances.without_volume_example, circumstances.without_volume
    where = f"one of {number} nodes" if number > 1 else f"node {node}" if node else "the node"
    # With less detail the log names none.
    proof = f" ({why_not_command(pod_name, node)} proves it)" if node else ""
    return f"create a volume that fits its claims on {where} with room{proof}"


def _lacking(reasons: Sequence[str]) -> list[str]:
    """The resources of which nodes have too little."""
    lacking = (
        text.removeprefix(_INSUFFICIENT) for text in reasons if text.startswith(_INSUFFICIENT)
    )
    return list(dict.fromkeys(lacking))


def _more_room(lacking: Sequence[str], pod: Pod | None, code: str) -> list[str]:
    """How nodes could have more of these resources for the pod."""
    amounts = " and ".join(_amount(resource, pod) for resource in lacking)
    labels = "" if pod is None else _labels(pod)  # begins with a blank, or is empty
    if code == Code.UNRESOLVABLE:  # more than such a node has without any pod
        return [f"add a larger node{labels}, with {amounts}", "lower its requests"]
    where = "a node" if not labels else "one of those nodes"
    return [f"add a node{labels} with {amounts} free", f"delete pods on {where}",
            "lower its requests"]  # fmt: skip


def _preemption(pod: Pod | None, message: str) -> list[str]:
    """How the pod could evict others, if its priority or its policy kept it from that."""
    if NEVER in message:
        return ["set another preemptionPolicy than Never, so that it may evict less important pods"]
    if NO_VICTIMS not in message:
        return []
    if pod is None or not pod.priority:
        return ["give it a priority, so that it may evict less important pods"]
    return [f"raise its priority above {pod.priority}, so that it may evict less important pods"]


def _closed_nodes(circumstances: Circumstances, pod_name: str, pod: Pod | None, code: str) -> str:
    """How the pod could use nodes that only keep pods away, if open ones lack room; "" if there are
    none for it."""
    closed = circumstances.closed
    if closed is not None:
        needs_room = code != Code.UNRESOLVABLE  # as the open nodes do: full ones do not help
        useful = [each for each in closed if each.with_room != 0 or not needs_room]
        return opening_text([each for each in useful if each.is_for_the_pod], pod_name)
    ways = _unchecked(circumstances, pod)
    says = proof_text(pod_name, circumstances.example or "NODE")
    unchecked = f"whether they are large enough was not checked; {says}"
    return f"{' or '.join(ways)}, if meant for such pods ({unchecked})" if ways else ""


def _opening(plugin: str, pod: Pod | None, pod_name: str, circumstances: Circumstances) -> str:
    """What to do if taints or cordons keep the pod away from the nodes that matter."""
    if circumstances.closed is None:
        known = _OF_CODES[reason_code(plugin, "")]
        unchecked = "whether a node is large enough and suits it otherwise was not checked"
        return f"{known} ({unchecked}; {proof_text(pod_name, circumstances.example or 'NODE')})"
    closed = [each for each in circumstances.closed if not each.conditions]
    steps = [opening_text([each for each in closed if each.is_for_the_pod], pod_name)]
    if lacking := _lacking(circumstances.too_small):
        steps.append(_either(_more_room(lacking, pod, Code.UNRESOLVABLE)))
    steps += repairs(circumstances.closed)
    if not any(steps):
        steps = [opening_text(closed, pod_name)]
    if any(steps):
        return "; or ".join(filter(None, steps))
    return f"{_node_for(pod)}: none of the nodes whose taints or cordon keep it away suits it"


def _selected(
    pod: Pod | None, reasons: Sequence[str], pod_name: str, circumstances: Circumstances
) -> str:
    """What to do if the node selector or the affinity leaves out the nodes that matter."""
    asked = "" if pod is None else ", ".join(_asked_labels(pod))
    names = [] if pod is None else _named_nodes(pod)
    if names and any(map(NARROWED.search, reasons)):  # none of them exists
        missing = " or ".join(f"node {name}" for name in names)
        return f"add {missing}, which its node affinity names, or relax the affinity"
    if pod is None or not asked:
        known = _OF_CODES["NodeAffinityMismatch"]
        if circumstances.closed is None or not circumstances.unselected.names:
            return known
        labels, relax = "as its node selector and affinity ask", "relax these"
    else:
        labels, relax = f"with {asked}", _relaxed(pod)
    unselected = circumstances.unselected
    nodes = [name for name in unselected.names if not names or name in names]
    if circumstances.closed is None:
        return f"label {_one_of(names)} {labels}, or {relax}"
    if names and not nodes:
        return "relax its node affinity: no node that it names is open to the pod and large enough"
    if not nodes:
        return f"{_node_for(pod)}: no node that is open to it is large enough"
    replaced = dict(unselected.replaced)
    nodes = [name for name in nodes if name not in replaced] or nodes
    node = nodes[0] if len(nodes) == 1 else f"one of {len(nodes)} open nodes, such as {nodes[0]},"
    with_room = unselected.with_room
    if with_room is not None:
        with_room = len({*nodes}.intersection(unselected.names[:with_room]))
    room = room_text(len(nodes), with_room, pod_name, nodes[0])
    if other := replaced.get(nodes[0]):
        ways = [f"correct {_asking(pod)}", *([] if names else [_node_for(pod)])]
        by_label = f"label {node} {labels} instead of {other}, which other pods may select"
        return f"{_either([*ways, by_label])} ({room})"
    return f"label {node} {labels}, or {relax} ({room})"


def _asking(pod: Pod | None) -> str:
    """What asks for labels of nodes."""
    if pod is None or (pod.spec.node_selector and pod.spec.required_node_terms):
        return "its nodeSelector and node affinity"
    return "its nodeSelector" if pod.spec.node_selector else "its node affinity"


def _asked_labels(pod: Pod) -> list[str]:
    """The labels of a node that meets the node selector and the affinity, if that also names the
    node or any node will do; none if several labels would."""
    labels = [f"{key}={value}" for key, value in pod.spec.node_selector.items()]
    terms = pod.spec.required_node_terms or ()
    for term in terms:
        for requirement in term.expressions:
            is_one = requirement.operator == "In" and len(requirement.values) == 1
            if len(terms) > 1 or not is_one:
                return []
            labels.append(f"{requirement.key}={requirement.values[0]}")
        if term.fields and not _named_nodes(pod):
            return []
    return list(dict.fromkeys(labels))


def _named_nodes(pod: Pod) -> list[str]:
    """The nodes that its affinity names, as that of a DaemonSet's pod does; none if another node
    could meet it, too."""
    names: list[str] = []
    for term in pod.spec.required_node_terms or ():
        own = [field for field in term.fields if _names_nodes(field)]
        if not own:
            return []
        names += own[0].values
    return list(dict.fromkeys(names))


def _names_nodes(field: Requirement) -> bool:
    return field.key == NAME_FIELD and field.operator == "In"


def _one_of(names: Sequence[str]) -> str:
    if len(names) > 1:
        return "one of the nodes that its node affinity names"
    return f"node {names[0]}" if names else "a node"


def _relaxed(pod: Pod) -> str:
    terms = pod.spec.required_node_terms
    only_names = bool(terms) and all(term.fields and not term.expressions for term in terms or ())
    if terms is not None and not only_names:
        return "relax its node affinity"
    return f"remove {'that' if len(pod.spec.node_selector) == 1 else 'these'} from its nodeSelector"


def _node_for(pod: Pod | None) -> str:
    """The addition of a node that is large enough for the pod, and that it selects."""
    if pod is None:
        return "add a node that is large enough and has the labels that it asks for"
    asked = _asked_labels(pod)
    labels = f" labelled {', '.join(asked)}" if asked else ""
    requests = pod_requests.of(pod.spec).effective
    amounts = " and ".join(_amount(name, pod) for name, amount in requests.items() if amount)
    return f"add a node{labels}{f' with {amounts}' if amounts else ''}"


def _unchecked(circumstances: Circumstances, pod: Pod | None) -> list[str]:
    """How to open the nodes that the attempt refused, of any size. Of taints only for a pod that
    may ask for what such nodes offer."""
    ways = []
    if circumstances.cordoned:
        ways.append(f"uncordon {counted_nodes(circumstances.cordoned)}")
    asks = pod is None or bool(_labels(pod)) or requests_extended(pod)
    if circumstances.tainted and asks:
        ways.append(f"add a toleration for the taints of {counted_nodes(circumstances.tainted)}")
    return ways


def _either(ways: Sequence[str]) -> str:
    *first, last = ways
    return f"{', '.join(first)}{',' if len(first) > 1 or ',' in first[0] else ''} or {last}"


def _labels(pod: Pod) -> str:
    selector = pod.spec.node_selector
    return f" labelled {', '.join(f'{k}={v}' for k, v in selector.items())}" if selector else ""


def _amount(resource: str, pod: Pod | None) -> str:
    """``4 cpu``; without an amount if that is not known."""
    requested = 0 if pod is None else pod.requests(resource)
    return f"{quantity(resource, requested)} {resource}" if requested else resource
