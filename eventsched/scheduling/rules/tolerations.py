"""Whether tolerations tolerate a taint (upstream: api/core/v1/toleration.go ToleratesTaint; the
comparison operators Lt and Gt are an alpha feature there, off by default, and tolerate nothing)."""

from collections.abc import Callable, Hashable, Iterable

from eventsched.domain.objects import Node, Taint, Toleration

Taints = tuple[Taint, ...]
COLUMN = "taints"
"""The derived column of the nodes' taints."""


def taints_of(node: Node) -> Hashable:
    """The value of the column for a node."""
    return node.taints


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Whether any of the tolerations tolerates the taint."""
    return any(_tolerates_taint(toleration, taint) for toleration in tolerations)


def untolerated(tolerations: Iterable[Toleration]) -> Callable[[Taints | None], int]:
    """A predicate over a node's taints: whether one with effect NoSchedule or NoExecute repels a
    pod with these tolerations (upstream: helper/taint.go DoNotScheduleTaintsFilterFunc)."""

    def repels(taints: Taints | None) -> int:
        return any(
            taint.effect in ("NoSchedule", "NoExecute") and not tolerates(tolerations, taint)
            for taint in taints or ()
        )

    return repels


def _tolerates_taint(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"
