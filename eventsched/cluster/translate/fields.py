"""Checked reading of parsed API objects: each value knows its path, for error messages."""

import reprlib
from collections.abc import Callable, Collection
from typing import Any

from eventsched.domain.errors import InputError
from eventsched.domain.objects import CPU, Resources, quantities
from eventsched.domain.objects.texts import is_unicode, without_nul

_KINDS = {dict: "a mapping", list: "a list", str: "a string", int: "a whole number"}
_KINDS |= {bool: "true or false"}
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 200
_REPR.maxlist = _REPR.maxdict = _REPR.maxset = 20
_REPR.maxlevel = 3


class Field:
    """A value in a parsed API object, with its path.

    A field that is missing or null has the value None; the reading methods then return their
    default, as the API does. They raise InputError naming object and path for a value of the wrong
    type.
    """

    __slots__ = ("_origin", "_step", "value")

    def __init__(self, value: Any, origin: "Field | str", step: str | int = "") -> None:
        """``origin`` is the enclosing field; for the object itself it is the text for file and
        object (``pods.yaml: Pod default/a``). ``step`` is the name or index in ``origin``. The path
        is built only for an error, because an object may have tens of thousands of fields."""
        self.value = value
        self._origin = origin
        self._step = step

    @property
    def where(self) -> str:
        """File, object and path: ``pods.yaml: Pod default/a: spec.containers[0].image``."""
        steps = []
        field: Field | str = self
        while isinstance(field, Field):
            step, origin = field._step, field._origin
            if isinstance(origin, Field):
                steps.append(f".{step}" if isinstance(step, str) else f"[{step}]")
            field = origin
        path = "".join(reversed(steps)).removeprefix(".")
        where = f"{field}: {path}" if path else field
        return where.encode(errors="backslashreplace").decode()

    def wrong(self, problem: str, remedy: str) -> InputError:
        """An error about this field's value."""
        return InputError(self.where, problem, remedy)

    def get(self, name: str) -> "Field":
        """The field of that name in this mapping."""
        value = self.value
        if value is not None:
            value = value.get(name) if type(value) is dict else self._typed(dict)
        return Field(value, self, name)

    def items(self) -> list["Field"]:
        """The elements of this list."""
        if self.value is None:
            return []
        return [Field(item, self, index) for index, item in enumerate(self._typed(list))]

    def text(self, default: str = "") -> str:
        """This string, with U+FFFD for U+0000 (see domain/objects/texts). Raises InputError if it
        is not valid Unicode."""
        value = self.value
        if value is None:
            return default
        return value if _is_plain(value) else self._storable(self._typed(str))

    def needed_text(self) -> str:
        """This string, which must be present and not empty."""
        text = self.text()
        if not text:
            raise self.wrong("is missing", "give it a value; the Kubernetes API requires one")
        return text

    def one_of(self, allowed: Collection[str], default: str = "") -> str:
        """This string, which must be in ``allowed``; empty counts as missing."""
        text = self.text() or default
        if text not in allowed:
            names = ", ".join(name for name in allowed if name)
            raise self.wrong(f"is {text!r}, which is not known", f"use one of {names}")
        return text

    def integer(self, lowest: int, highest: int) -> int:
        """This whole number within bounds; 0 if it is missing."""
        if self.value is None:
            return 0
        number: int = self._typed(int)
        if not lowest <= number <= highest:
            raise self.wrong(f"is {number}", f"use a number from {lowest} to {highest}")
        return number

    def flag(self) -> bool:
        """This boolean; false if it is missing."""
        return self.value is not None and bool(self._typed(bool))

    def texts(self) -> tuple[str, ...]:
        """This list of strings."""
        if type(self.value) is list and all(map(_is_plain, self.value)):
            return tuple(self.value)  # fast path: there may be tens of thousands
        return tuple(item.text() for item in self.items())

    def text_map(self) -> dict[str, str]:
        """This mapping of strings, such as labels."""
        value = self.value
        if (
            type(value) is dict
            and all(map(_is_plain, value))
            and all(map(_is_plain, value.values()))
        ):
            return dict(value)
        return {self._storable(name): field.text() for name, field in self._entries()}

    def resources(self) -> Resources:
        """This mapping of quantities: cpu in millicores, others in bytes or as counts. Amounts
        beyond int64 are those of upstream (``quantities.amount``). Raises InputError for a quantity
        that is malformed or negative."""
        return {
            self._storable(name): _checked(field, quantities.amount, 1000 if name == CPU else 1)
            for name, field in self._entries()
        }

    def names(self) -> tuple[str, ...]:
        """The keys of this mapping."""
        return tuple(self._storable(name) for name, _ in self._entries())

    def amount(self, resource: str = "") -> int | None:
        """This quantity in bytes or as a count, cpu in millicores, at most 2**63 - 1; None if it
        is missing. Raises InputError as ``resources`` does."""
        return (
            None
            if self.value is None
            else _checked(self, quantities.parse, 1000 if resource == CPU else 1)
        )

    def _entries(self) -> list[tuple[str, "Field"]]:
        if self.value is None:
            return []
        entries = self._typed(dict).items()
        for name, _ in entries:
            if not isinstance(name, str):
                raise self.wrong(f"has the key {name!r}, not a string", "put the key in quotes")
        return [(name, Field(value, self, name)) for name, value in entries]

    def _storable(self, text: str) -> str:
        if not is_unicode(text):
            raise self.wrong(
                f"holds half of a surrogate pair ({excerpt(text)})",
                "write the character itself, or both halves",
            )
        return without_nul(text)

    def _typed(self, kind: type) -> Any:
        # isinstance would accept true as a whole number.
        if type(self.value) is kind:
            return self.value
        remedy = f"write {_KINDS[kind]} here"
        if kind is str and isinstance(self.value, bool | int | float):
            remedy = "put the value in quotes"
        raise self.wrong(f"is not {_KINDS[kind]} ({excerpt(self.value)})", remedy)


def _is_plain(value: Any) -> bool:
    """Whether a value is a text that needs no further check."""
    return type(value) is str and value.isascii() and "\0" not in value


def excerpt(value: Any) -> str:
    """The beginning of a value. It is not written out as a whole: with YAML's aliases a short text
    stands for millions of items."""
    text = _REPR.repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _checked(field: Field, read: Callable[[str | int | float, int], int], scale: int) -> int:
    if type(field.value) not in (str, int, float):
        raise field.wrong(
            f"is not a quantity ({excerpt(field.value)})",
            "write a number with an optional suffix, such as 500m or 2Gi",
        )
    try:
        amount = read(field.value, scale)
    except InputError as error:
        raise field.wrong(f"{excerpt(field.value)} {error.problem}", error.remedy) from error
    # Beyond int64 the amount may have wrapped around, so the sign is taken from the text.
    if amount < 0 and quantities.parse(field.value) < 0:
        raise field.wrong(f"is negative ({field.value})", "write a quantity of 0 or more")
    return amount
