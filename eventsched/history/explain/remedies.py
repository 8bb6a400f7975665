"""What would help a pod that a plugin refuses, in a few words."""

import re
from collections.abc import Sequence

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


def remedy(plugin: str, reasons: Sequence[str]) -> str:
    """What would help against a refusal for these reasons; "" if that is not known."""
    lacking = [text.removeprefix(_INSUFFICIENT) for text in reasons if _INSUFFICIENT in text]
    if plugin == "NodeResourcesFit" and lacking:
        resources = " and ".join(dict.fromkeys(lacking))
        return f"{resources} that pods on those nodes give back, another node, or smaller requests"
    if plugin == "NodeResourcesFit" and "Too many pods" in reasons:
        return "the end of pods on those nodes, or another node: they hold as many as they may"
    missing = next(filter(None, map(_MISSING_CLAIM.search, reasons)), None)
    if missing is not None and plugin.startswith(_OF_VOLUMES):
        return f"the PersistentVolumeClaim {missing[1]} in the pod's namespace"
    return _OF_PLUGINS.get(plugin, "")
