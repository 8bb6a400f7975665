"""What all sections of the settings have in common."""

from collections.abc import Iterator

import msgspec

from eventsched.domain.errors import InputError
from eventsched.domain.units import nanoseconds
from eventsched.scheduling.config.decoding import RuleError


class SettingsPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Base of all sections. Constructing one with invalid values raises RuleError. Durations stay
    in Go's notation."""

    def __post_init__(self) -> None:
        if problems := list(self.problems()):
            raise RuleError(problems)

    def problems(self) -> Iterator[InputError]:
        """Every problem with the values; ``where`` is the field's path within the section."""
        yield from ()


def fields_of(part: SettingsPart) -> dict[str, object]:
    """The values of a section by the names of its fields."""
    fields = msgspec.structs.fields(part)
    return {field.encode_name: getattr(part, field.name) for field in fields}


def duration_problems(where: str, text: str, least: int) -> Iterator[InputError]:
    """Not a duration in Go's notation, or less than ``least`` nanoseconds."""
    try:
        duration = nanoseconds(text, where)
    except InputError as problem:
        yield problem
        return
    if duration < least:
        allowed = "a duration above zero" if least else "0s or more"
        yield InputError(where, f"{text} is out of range", f"use {allowed}")
