"""ImportanceSort: sorts the queue by an annotation of the pods, larger numbers first."""

from eventsched.domain.objects.integers import integer
from eventsched.scheduling.config.pluginargs import Arguments
from eventsched.scheduling.framework import QueuedPod


class ImportanceSortArgs(Arguments, frozen=True):
    """``annotation`` is the key of the annotation with a pod's importance."""

    annotation: str = "importance"


class ImportanceSort:
    """QueueSort by importance. Pods without an integer there (``abc``, ``1e9``, more than 64 bits)
    come last. Among equals the longer wait goes first, then the earlier creation."""

    name = "ImportanceSort"
    Args = ImportanceSortArgs

    def __init__(self, args: ImportanceSortArgs | None = None) -> None:
        self._annotation = (args or ImportanceSortArgs()).annotation
        self.annotations = (self._annotation,)

    def sort_key(self, queued: QueuedPod) -> tuple[int, int, int, int]:
        """The sort key: smaller goes first."""
        importance = integer(queued.pod.annotations.get(self._annotation))
        age = (queued.since, queued.pod.created_at)
        return (1, 0, *age) if importance is None else (0, -importance, *age)
