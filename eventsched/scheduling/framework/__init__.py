"""What plugin authors import: the extension points and what a plugin is given and may answer.

Start with ``plugin``, then ``extension_points``, the methods' signatures. ``profile`` calls the
plugins of a profile, by way of ``plugin_calls``; ``wait_results`` has the answers of Permit and
PreBind that make a bind wait; ``extender`` is upstream's extender as decisions see it. The
lowest room of ``eventsched.scheduling``: it imports only ``eventsched.domain``.
"""

from eventsched.scheduling.framework.plugin import (
    POINTS,
    Awaiting,
    Change,
    ClusterEvent,
    Code,
    Cycle,
    DependsOn,
    IntColumn,
    Memory,
    NodeView,
    Normalization,
    Plugin,
    PluginError,
    PostFilterResult,
    PreFilterResult,
    Preparation,
    QueuedPod,
    Status,
    Wait,
    depends_on,
    plain,
    points_of,
    signed_by_spec,
)

__all__ = [
    "POINTS",
    "Awaiting",
    "Change",
    "ClusterEvent",
    "Code",
    "Cycle",
    "DependsOn",
    "IntColumn",
    "Memory",
    "NodeView",
    "Normalization",
    "Plugin",
    "PluginError",
    "PostFilterResult",
    "PreFilterResult",
    "Preparation",
    "QueuedPod",
    "Status",
    "Wait",
    "depends_on",
    "plain",
    "points_of",
    "signed_by_spec",
]
