"""The pods of a load, with their times of arrival and running."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

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


@dataclass(frozen=True)
class GeneratedPods(Sequence[TracePod]):
    """Pods that are made when they are asked for, so that the arrivals of a year take no memory.
    They are in the order of their arrival and have no claims."""

    length: int
    make: Callable[[int], TracePod]

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> TracePod: ...

    @overload
    def __getitem__(self, index: slice) -> list[TracePod]: ...

    def __getitem__(self, index: int | slice) -> TracePod | list[TracePod]:
        numbers = range(self.length)[index]
        if isinstance(numbers, int):
            return self.make(numbers)
        return [self.make(number) for number in numbers]

    def __iter__(self) -> Iterator[TracePod]:
        return map(self.make, range(self.length))

    def changed(self, change: Callable[[TracePod], TracePod]) -> "GeneratedPods":
        """The same pods, each changed when it is made."""
        return GeneratedPods(self.length, lambda index: change(self.make(index)))


class Arrivals:
    """The pods that are still to arrive, in order. ``on_loaded`` is called once with each pod, at
    the latest when it arrives."""

    def __init__(self, pods: Sequence[TracePod], on_loaded: Callable[[TracePod], None]) -> None:
        """``pods`` are in the order of their arrival."""
        self._pods, self._on_loaded = pods, on_loaded
        self._loaded: deque[TracePod] = deque()
        self._unloaded = 0
        """The index of the first pod that is not loaded."""
        self._load()

    def __len__(self) -> int:
        return len(self._pods) - self._unloaded + len(self._loaded)

    @property
    def next_at(self) -> int | None:
        """When (µs) the next pod arrives; None if none is left."""
        return (self._loaded[0].arrives_at or 0) if self._loaded else None

    def pop(self) -> Pod:
        """The next pod, of which there is one; it is removed."""
        arrival = self._loaded.popleft()
        if not self._loaded:
            self._load()
        return arrival.pod

    def load_until(self, at: int) -> None:
        """Loads the pods that arrive up to a time (µs)."""
        while self._loaded and (self._loaded[-1].arrives_at or 0) <= at and self._load():
            pass

    def skip_to(self, left: int, *, load: bool) -> None:
        """Leaves out the first pods, so that ``left`` remain. With ``load`` they are loaded
        nevertheless."""
        while load and len(self) > left:
            self.pop()
        if len(self) > left:
            self._loaded.clear()
            self._unloaded = len(self._pods) - left
            self._load()

    def _load(self) -> bool:
        if self._unloaded == len(self._pods):
            return False
        arrival = self._pods[self._unloaded]
        self._unloaded += 1
        self._loaded.append(arrival)
        self._on_loaded(arrival)
        return True
