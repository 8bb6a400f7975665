"""Whether tolerations tolerate a taint (upstream: api/core/v1/toleration.go ToleratesTaint; the
comparison operators Lt and Gt are an alpha feature there, off by default, and tolerate nothing)."""

from collections.abc import Iterable

from eventsched.domain.objects import Taint, Toleration


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Whether any of the tolerations tolerates the taint."""
    return any(_one(toleration, taint) for toleration in tolerations)


def _one(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"
