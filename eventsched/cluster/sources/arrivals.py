"""The pods of a load, with their times of arrival and running."""

from dataclasses import dataclass

from eventsched.domain.objects import Pod
from eventsched.domain.objects.registry import PersistentVolumeClaim


@dataclass(frozen=True, slots=True)
class TracePod:
    """A pod of a trace or of a generated load.

    ``arrives_at`` is in microseconds since the trace's second 0; None if the source has no times
    (such pods arrive together). ``runs_for`` is in microseconds from the moment the pod is placed;
    None for a pod that does not end. ``claims`` are those that a controller makes for its
    ephemeral volumes.
    """

    pod: Pod
    arrives_at: int | None = None
    runs_for: int | None = None
    claims: tuple[PersistentVolumeClaim, ...] = ()
