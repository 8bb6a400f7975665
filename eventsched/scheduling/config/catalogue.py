"""Upstream's in-tree plugins: where each may run, and which are enabled by default.

As of v1.36 under its feature gates' defaults (upstream: plugins/registry.go, the interfaces that
each plugin implements, apis/config/v1/default_plugins.go getDefaultPlugins). The meaning of a
configuration does not depend on which of them exist here.
"""

from eventsched.scheduling.config.sections import PluginEntry

_FILTER = ("preFilter", "filter")
_SCORE = ("preScore", "score")

UPSTREAM_POINTS: dict[str, tuple[str, ...]] = {
    "SchedulingGates": ("preEnqueue",),
    "PrioritySort": ("queueSort",),
    "NodeUnschedulable": ("filter",),
    "NodeName": ("filter",),
    "TaintToleration": ("filter", *_SCORE),
    "NodeAffinity": (*_FILTER, *_SCORE),
    "NodePorts": _FILTER,
    "NodeResourcesFit": (*_FILTER, *_SCORE, "placementScore"),
    "VolumeRestrictions": _FILTER,
    "NodeVolumeLimits": _FILTER,
    "VolumeBinding": (*_FILTER, *_SCORE, "reserve", "preBind"),
    "VolumeZone": _FILTER,
    "PodTopologySpread": (*_FILTER, *_SCORE),
    "InterPodAffinity": (*_FILTER, *_SCORE),
    "DynamicResources": ("preEnqueue", *_FILTER, "postFilter", "score", "reserve", "preBind"),
    "DefaultPreemption": ("preEnqueue", "postFilter"),
    "NodeResourcesBalancedAllocation": _SCORE,
    "ImageLocality": ("score",),
    "DefaultBinder": ("bind",),
    "NodeDeclaredFeatures": _FILTER,
    "GangScheduling": ("preEnqueue", "permit"),
    "TopologyPlacementGenerator": ("placementGenerate",),
    "PodGroupPodsCount": ("placementScore",),
}
"""Plugin name → the extension points that it serves."""

DEFAULT_PLUGINS = (
    PluginEntry("SchedulingGates"),
    PluginEntry("PrioritySort"),
    PluginEntry("NodeUnschedulable"),
    PluginEntry("NodeName"),
    PluginEntry("TaintToleration", 3),
    PluginEntry("NodeAffinity", 2),
    PluginEntry("NodePorts"),
    PluginEntry("NodeResourcesFit", 1),
    PluginEntry("VolumeRestrictions"),
    PluginEntry("NodeVolumeLimits"),
    PluginEntry("VolumeBinding"),
    PluginEntry("VolumeZone"),
    PluginEntry("PodTopologySpread", 2),
    PluginEntry("InterPodAffinity", 2),
    PluginEntry("DynamicResources", 2),
    PluginEntry("DefaultPreemption"),
    PluginEntry("NodeResourcesBalancedAllocation", 1),
    PluginEntry("ImageLocality", 1),
    PluginEntry("DefaultBinder"),
    PluginEntry("NodeDeclaredFeatures"),
)
"""The plugins that multiPoint enables by default."""
