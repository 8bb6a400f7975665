"""The extension points as types: one Protocol for each method that the scheduler calls.

A plugin need not inherit from any of these: it has the methods of the points that it serves
(``plugin.py`` says when they run and what the answers do). ``plugin_calls`` binds the methods when
a profile is assembled and gives them these signatures, so that go-to-definition leads here.

``nodes`` has n rows, the nodes in question in the order of the node table. An array in an answer
has shape (n,), one value a row. Upstream: k8s.io/kube-scheduler/framework/interface.go.
"""

from collections.abc import Hashable
from typing import Any, Protocol

from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import Pod
from eventsched.scheduling.framework.cluster_events import Change
from eventsched.scheduling.framework.cycle_context import Cycle
from eventsched.scheduling.framework.plugin import (
    IntColumn,
    PostFilterResult,
    PreFilterResult,
    QueuedPod,
    Status,
)
from eventsched.scheduling.framework.wait_results import Awaiting, Preparation, Wait


class NamedPlugin(Protocol):
    """The base of all Protocols here."""

    @property
    def name(self) -> str:
        """The name under which a configuration enables the plugin."""


class PreEnqueuePlugin(NamedPlugin, Protocol):
    """Upstream: PreEnqueuePlugin."""

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Whether the pod may enter the active queue: None and Success let it."""


class QueueSortPlugin(NamedPlugin, Protocol):
    """Upstream: QueueSortPlugin, whose Less compares two pods; a key for each is enough here."""

    def sort_key(self, queued: QueuedPod) -> tuple[Any, ...]:
        """The pod's place in the active queue: the smallest key goes first."""


class SignPlugin(NamedPlugin, Protocol):
    """Upstream: SignPlugin."""

    def sign(self, pod: Pod) -> Hashable:
        """What PreFilter, Filter, PreScore and Score depend on of a pod; None if they may depend on
        all of it. Pods with equal signatures share their columns."""


class PreFilterPlugin(NamedPlugin, Protocol):
    """Upstream: PreFilterPlugin."""

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: Any) -> PreFilterResult | Status | None:
        """Called once before Filter. ``nodes`` is a NodeView of all nodes; None for a pod that the
        plugin signs, because the answer then holds for all pods of that signature, whatever the
        nodes. Skip leaves out the plugin's Filter; a refusal rejects all nodes."""


class FilterPlugin(NamedPlugin, Protocol):
    """Upstream's FilterPlugin is called for one node at a time, this one once for all."""

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn | None:
        """A code from 0 to 65535 for each node, of any integer dtype. 0 passes; ``explain`` says
        what other codes mean. None: all pass."""


class CodeNumberingPlugin(NamedPlugin, Protocol):
    """Has no counterpart upstream."""

    def drop_codes(self) -> bool:
        """Whether the plugin has begun the numbering of its filter's codes again. No attempt is
        under way, and ``explain`` is not called with an earlier code again."""


class ExplainPlugin(NamedPlugin, Protocol):
    """Has no counterpart upstream, where Filter answers with a Status itself."""

    def explain(self, cycle: Cycle, pod: Pod, code: int) -> Status:
        """The refusal that a code of ``filter`` stands for."""


class PostFilterPlugin(NamedPlugin, Protocol):
    """Upstream: PostFilterPlugin."""

    def post_filter(self, cycle: Cycle, pod: Pod, refused: Any) -> PostFilterResult | Status | None:
        """Called if no node is left. ``refused`` is the Judgement (cycle/judgement.py)."""


class PreScorePlugin(NamedPlugin, Protocol):
    """Upstream: PreScorePlugin."""

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: Any) -> Status | None:
        """Called once before Score. ``nodes`` is a NodeView of the feasible nodes; None for a pod
        that the plugin signs. Skip leaves out the plugin's Score."""


class ScorePlugin(NamedPlugin, Protocol):
    """Upstream's ScorePlugin is called for one node at a time, this one once for all."""

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """A raw score for each node, of any integer dtype. The range depends on the plugin's
        ``normalization`` (plugin_columns.score_range)."""


class NormalizeScorePlugin(NamedPlugin, Protocol):
    """Upstream: ScoreExtensions."""

    def normalize_score(self, cycle: Cycle, pod: Pod, scores: IntColumn) -> IntColumn:
        """A score from 0 to 100 for each feasible node, of any integer dtype. ``scores`` are their
        raw scores, int64[n]."""


class ReservePlugin(NamedPlugin, Protocol):
    """Upstream: ReservePlugin's Reserve."""

    def reserve(self, cycle: Cycle, pod: Pod, node: str) -> Status | None:
        """The pod is about to get the node. A refusal is followed by Unreserve of all plugins."""


class UnreservePlugin(NamedPlugin, Protocol):
    """Upstream: ReservePlugin's Unreserve."""

    def unreserve(self, cycle: Cycle, pod: Pod, node: str) -> None:
        """The reservation is given up."""


class PermitPlugin(NamedPlugin, Protocol):
    """Upstream: PermitPlugin."""

    def permit(self, cycle: Cycle, pod: Pod, node: str) -> Status | Wait | None:
        """Whether the pod may be bound now, has to wait, or is refused."""


class PreBindPlugin(NamedPlugin, Protocol):
    """Upstream: PreBindPlugin."""

    def pre_bind(self, cycle: Cycle, pod: Pod, node: str) -> Status | Preparation | None:
        """What the cluster has to do before the bind."""


class PreparedPlugin(NamedPlugin, Protocol):
    """Has no counterpart upstream, where PreBind blocks until the cluster has done its part."""

    def prepared(
        self, cycle: Cycle, pod: Pod, node: str, nodes: NodeView
    ) -> Status | Awaiting | None:
        """Whether the cluster has done what PreBind asked for. ``nodes`` is the row of the pod's
        node, empty if the node is gone."""


class BindPlugin(NamedPlugin, Protocol):
    """Upstream: BindPlugin."""

    def bind(self, cycle: Cycle, pod: Pod, node: str) -> Status | None:
        """Accepts the pod's bind, or leaves it to the next plugin with Skip."""


class PostBindPlugin(NamedPlugin, Protocol):
    """Upstream: PostBindPlugin."""

    def post_bind(self, cycle: Cycle, pod: Pod, node: str) -> None:
        """The pod is bound."""


class HintPlugin(NamedPlugin, Protocol):
    """Upstream: QueueingHintFn of EnqueueExtensions."""

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """Whether a change may make a pod pass that the plugin has refused."""
