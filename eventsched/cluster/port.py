"""What a cluster is to the scheduler: where stimuli come from and where effects go."""

from typing import Protocol

from eventsched.domain.records import Effect, Stimulus


class Cluster(Protocol):
    """A cluster. Times are in microseconds."""

    @property
    def next_at(self) -> int | None:
        """When something will happen next; None where nothing is known of."""

    def take(self, now: int) -> list[Stimulus]:
        """What has happened up to now and was not taken before, in order."""

    def execute(self, effect: Effect, at: int) -> None:
        """Carries out an effect whose intent, decided at a time, is committed. Its outcome comes as
        a stimulus."""
