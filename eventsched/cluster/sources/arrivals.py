"""What a load is made of: pods with the time they arrive and the time they run."""

from dataclasses import dataclass

from eventsched.domain.objects import Pod
from eventsched.domain.objects.registry import PersistentVolumeClaim


@dataclass(frozen=True, slots=True)
class TracePod:
    """A pod of a trace or of a generated load.

    ``arrives_at`` is in microseconds since the trace's second 0, None where the source names no
    times (such pods arrive together). ``runs_for`` is in microseconds from the moment the pod is
    placed, None for a pod that never ends. ``claims`` are those that a controller makes for its
    ephemeral volumes.
    """

    pod: Pod
    arrives_at: int | None = None
    runs_for: int | None = None
    claims: tuple[PersistentVolumeClaim, ...] = ()
