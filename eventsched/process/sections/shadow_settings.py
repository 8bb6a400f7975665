"""The setting ``shadow``: another scheduler is followed, and nothing is bound (docs/shadow.md)."""

from collections.abc import Iterator, Sequence

from eventsched.domain.errors import InputError
from eventsched.process.sections.settings_part import SettingsPart

KUBE_SCHEDULER = "default-scheduler"
"""The schedulerName of pods that name none."""

NO_REVIEWS = "a shadow sends no reviews to the API server; set serving.authorization: off"


class ShadowSettings(SettingsPart, frozen=True):
    """Whether the process is a shadow, and the schedulerNames of the pods that it decides for."""

    enabled: bool = False
    schedulers: tuple[str, ...] = (KUBE_SCHEDULER,)

    def problems(self) -> Iterator[InputError]:
        """No scheduler, one twice, or a name that cannot be one."""
        yield from name_problems(self.schedulers)


def name_problems(schedulers: Sequence[str]) -> Iterator[InputError]:
    """What is wrong with the names of schedulers to follow."""
    if not schedulers:
        yield InputError("schedulers", "is empty", f"name one, such as {KUBE_SCHEDULER}")
    for i, name in enumerate(schedulers):
        if not name or name.split() != [name]:
            yield InputError(
                f"schedulers[{i}]", f"{name!r} cannot be a schedulerName",
                "write the spec.schedulerName of the pods to decide for",
            )  # fmt: skip
        elif name in schedulers[:i]:
            yield InputError(f"schedulers[{i}]", f"{name} is there twice", "leave one")
