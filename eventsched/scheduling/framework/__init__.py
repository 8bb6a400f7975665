"""What plugin authors import: the extension points and what a plugin is given and may answer.

Start with ``plugin``, then ``extension_points``, the methods' signatures. ``cycle_context`` has
what a plugin may read and do in an attempt, ``cluster_events`` what its hint sees. ``profile``
calls the plugins of a profile through ``plugin_calls``; ``wait_results`` has the answers of Permit
and PreBind that make a bind wait; ``extender`` is an extender as decisions see it. The lowest
package of ``eventsched.scheduling``: it imports only ``eventsched.domain``.
"""

from eventsched.domain.nodes.node_views import NodeView as NodeView
from eventsched.domain.records.verdicts import Code as Code
from eventsched.domain.records.verdicts import Normalization as Normalization
from eventsched.scheduling.framework.cluster_events import Change as Change
from eventsched.scheduling.framework.cluster_events import ClusterEvent as ClusterEvent
from eventsched.scheduling.framework.cycle_context import Cycle as Cycle
from eventsched.scheduling.framework.cycle_context import Memory as Memory
from eventsched.scheduling.framework.cycle_context import plain as plain
from eventsched.scheduling.framework.plugin import POINTS as POINTS
from eventsched.scheduling.framework.plugin import DependsOn as DependsOn
from eventsched.scheduling.framework.plugin import IntColumn as IntColumn
from eventsched.scheduling.framework.plugin import MemoryBounds as MemoryBounds
from eventsched.scheduling.framework.plugin import Plugin as Plugin
from eventsched.scheduling.framework.plugin import PluginError as PluginError
from eventsched.scheduling.framework.plugin import PostFilterResult as PostFilterResult
from eventsched.scheduling.framework.plugin import PreFilterResult as PreFilterResult
from eventsched.scheduling.framework.plugin import QueuedPod as QueuedPod
from eventsched.scheduling.framework.plugin import Status as Status
from eventsched.scheduling.framework.plugin import depends_on as depends_on
from eventsched.scheduling.framework.plugin import points_of as points_of
from eventsched.scheduling.framework.plugin import signed_by_spec as signed_by_spec
from eventsched.scheduling.framework.wait_results import Awaiting as Awaiting
from eventsched.scheduling.framework.wait_results import Preparation as Preparation
from eventsched.scheduling.framework.wait_results import Wait as Wait
