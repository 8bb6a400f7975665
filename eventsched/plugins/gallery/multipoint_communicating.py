"""multipoint-communicating-plugin: an example of how extension points pass data through the cycle.

Reserve marks a pod that must not be bound, and PreBind refuses it.
"""

from collections.abc import Iterator

from eventsched.domain.errors import InputError
from eventsched.domain.objects import Pod
from eventsched.scheduling.config.pluginargs import Arguments
from eventsched.scheduling.framework import Cycle, Status

NEVER = "never bind"


class MultipointCommunicatingArgs(Arguments, frozen=True):
    """``pod_name`` is the pod that is never bound, in any namespace."""

    pod_name: str = "my-test-pod"

    def problems(self) -> Iterator[InputError]:
        """An empty name."""
        if not self.pod_name:
            yield InputError("podName", "is empty", "name the pod that must not be bound")


class MultipointCommunicating:
    """Reserve writes the mark, PreBind reads it and refuses, Unreserve removes it. If the pod waits
    at Permit, the cycle's data is stored with the decision, so a restart in between changes
    nothing.
    """

    name = "multipoint-communicating-plugin"
    Args = MultipointCommunicatingArgs

    def __init__(self, args: MultipointCommunicatingArgs | None = None) -> None:
        self._pod_name = (args or MultipointCommunicatingArgs()).pod_name

    def reserve(self, cycle: Cycle, pod: Pod, node: str) -> None:
        """Marks the pod for PreBind."""
        if pod.name == self._pod_name:
            cycle.data[self.name] = NEVER

    def unreserve(self, cycle: Cycle, pod: Pod, node: str) -> None:
        """Removes the mark; may be called more than once."""
        cycle.data.pop(self.name, None)

    def pre_bind(self, cycle: Cycle, pod: Pod, node: str) -> Status | None:
        """Refuses a marked pod, in the words of upstream's example."""
        if cycle.data.get(self.name) == NEVER:
            return Status.unschedulable("pod is not permitted")
        return None
