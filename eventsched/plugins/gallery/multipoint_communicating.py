"""multipoint-communicating-plugin: Reserve tells PreBind, through the cycle, that a pod must not
be bound. The classic example of how a plugin's points talk to each other."""

from collections.abc import Iterator

from eventsched.domain.errors import InputError
from eventsched.domain.objects import Pod
from eventsched.scheduling.config.pluginargs import Arguments
from eventsched.scheduling.framework import Cycle, Status

NEVER = "never bind"


class MultipointCommunicatingArgs(Arguments, frozen=True):
    """``pod_name`` is the pod that is never bound, in whichever namespace."""

    pod_name: str = "my-test-pod"

    def problems(self) -> Iterator[InputError]:
        """An empty name."""
        if not self.pod_name:
            yield InputError("podName", "is empty", "name the pod that must not be bound")


class MultipointCommunicating:
    """Reserve writes, PreBind reads and refuses, Unreserve takes it back. What is in the cycle is
    stored with the decision where the pod waits at Permit, so a restart in between changes nothing.
    """

    name = "multipoint-communicating-plugin"
    Args = MultipointCommunicatingArgs

    def __init__(self, args: MultipointCommunicatingArgs | None = None) -> None:
        self._pod_name = (args or MultipointCommunicatingArgs()).pod_name

    def reserve(self, cycle: Cycle, pod: Pod, node: str) -> None:
        """Leaves word for PreBind."""
        if pod.name == self._pod_name:
            cycle.data[self.name] = NEVER

    def unreserve(self, cycle: Cycle, pod: Pod, node: str) -> None:
        """Takes it back; once or more often."""
        cycle.data.pop(self.name, None)

    def pre_bind(self, cycle: Cycle, pod: Pod, node: str) -> Status | None:
        """Refuses where word was left (the words of upstream's example)."""
        if cycle.data.get(self.name) == NEVER:
            return Status.unschedulable("pod is not permitted")
        return None
