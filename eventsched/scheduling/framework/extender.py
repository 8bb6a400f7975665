"""An extender as decisions depend on it: what it is asked for, by which pods.

Upstream: pkg/scheduler/extender.go.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from eventsched.domain.objects import Pod
from eventsched.scheduling.framework.plugin import PluginError

EXTENDER = "Extender"
"""Stands for a plugin where an extender has refused a pod (upstream: framework.ExtenderName)."""


@dataclass(frozen=True)
class Extender:
    """``index`` is its place in the order in which extenders are asked, ``name`` its URL."""

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
        """Whether it is asked for a pod: for all of them, or those that request one of its
        resources (upstream: IsInterested)."""
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        return not self.resources or any(
            self.resources & each.requests.keys() for each in containers
        )


class ExtenderError(PluginError):
    """An extender that is not ignorable has failed: the attempt ends."""

    def __init__(self, extender: Extender, problem: str) -> None:
        self.plugin, self.point, self.problem = EXTENDER, "extender", problem
        said = problem if extender.name in problem else f"extender {extender.name}: {problem}"
        Exception.__init__(self, said)


def binder(extenders: Sequence[Extender], pod: Pod) -> Extender | None:
    """The extender that binds a pod; None where it is bound as usual (upstream:
    schedule_one.go extendersBinding)."""
    return next((each for each in extenders if each.binds and each.is_interested(pod)), None)
