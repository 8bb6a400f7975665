"""ImportanceSort: the queue is ordered by an annotation of the pods, larger numbers first."""

from eventsched.domain.objects.integers import integer
from eventsched.scheduling.config.pluginargs import Arguments
from eventsched.scheduling.framework import QueuedPod


class ImportanceSortArgs(Arguments, frozen=True):
    """``annotation`` is where pods say how important they are."""

    annotation: str = "importance"


class ImportanceSort:
    """QueueSort by importance. Pods without it, or where it is no integer (``abc``, ``1e9``, more
    than 64 bits), come after all that have it. Among equals who has waited longer goes first, and
    of those who came at once who was created earlier."""

    name = "ImportanceSort"
    Args = ImportanceSortArgs

    def __init__(self, args: ImportanceSortArgs | None = None) -> None:
        self._annotation = (args or ImportanceSortArgs()).annotation
        self.annotations = (self._annotation,)

    def sort_key(self, queued: QueuedPod) -> tuple[int, int, int, int]:
        """Smaller goes first."""
        importance = integer(queued.pod.annotations.get(self._annotation))
        age = (queued.since, queued.pod.created_at)
        return (1, 0, *age) if importance is None else (0, -importance, *age)
