"""An extender as decisions depend on it: which questions it answers, and for which pods.

Upstream: pkg/scheduler/extender.go.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from eventsched.domain.objects import Pod
from eventsched.scheduling.framework.plugin import PluginError

EXTENDER = "Extender"
"""Takes the place of a plugin's name if an extender refused a pod (upstream:
framework.ExtenderName)."""


@dataclass(frozen=True)
class Extender:
    """An extender. ``index`` is its place in the order in which extenders are asked, ``name`` its
    URL."""

    index: int
    name: str
    filters: bool = False
    prioritizes: bool = False
    preempts: bool = False
    binds: bool = False
    weight: int = 1
    ignorable: bool = False
    resources: frozenset[str] = frozenset()

    def is_interested(self, pod: Pod) -> bool:
        """Whether it is asked about a pod: all pods, or those that request one of its resources
        (upstream: IsInterested)."""
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        return not self.resources or any(
            self.resources & container.requests.keys() for container in containers
        )


class ExtenderError(PluginError):
    """An extender that is not ignorable has failed: the attempt ends."""

    def __init__(self, extender: Extender, problem: str) -> None:
        self.plugin, self.point, self.problem = EXTENDER, "extender", problem
        message = problem if extender.name in problem else f"extender {extender.name}: {problem}"
        Exception.__init__(self, message)


def binder(extenders: Sequence[Extender], pod: Pod) -> Extender | None:
    """The extender that binds a pod; None if a plugin binds it (upstream: schedule_one.go
    extendersBinding)."""
    if not extenders:
        return None
    binders = (extender for extender in extenders if extender.binds)
    return next((extender for extender in binders if extender.is_interested(pod)), None)
