"""Strict decoding: YAML or JSON text to plain data, plain data to typed structs.

Whatever is wrong comes out as InputError with the path of the field, in the form
``profiles[0].plugins.score.enabled[1].weight``.
"""

import difflib
import json
import re
from decimal import Decimal
from typing import Any, TypeVar

import msgspec
import yaml

from eventsched.domain.errors import InputError

T = TypeVar("T")


def _schemas(kind: type) -> dict[str, Any]:
    return msgspec.json.schema_components([kind], schema_hook=lambda _: {})[1]


def _field_names(kind: type) -> frozenset[str]:
    """The names of all fields of a struct and of the structs within it."""
    return frozenset(
        name for schema in _schemas(kind).values() for name in schema.get("properties", ())
    )


_MESSAGE = re.compile(r"(?P<text>.*?)(?: - at (?:`key` in )?`\$(?P<path>[^`]*)`)?", re.DOTALL)
_EXPECTED = re.compile(r"Expected `(?P<wanted>[^`]*)`, got `(?P<found>\w+)`")
_FIELD = re.compile(r"Object (?P<case>contains unknown|missing required) field `(?P<name>.*)`")
_WORDS = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "object": "a mapping",
    "array": "a list",
    "null": "nothing",
}


def converted(raw: object, kind: type[T], where: str = "") -> T:
    """Plain data as a typed struct; ``where`` is the path of the data. Raises InputError with the
    path of the field, also for the ValueErrors (InputErrors included) of ``__post_init__``."""
    try:
        return msgspec.convert(_without_nulls(raw, _field_names(kind)), kind, strict=True)
    except msgspec.ValidationError as problem:
        raise _explained(problem, kind, where) from None


def _explained(problem: msgspec.ValidationError, kind: type, where: str) -> InputError:
    """msgspec's message as place, problem and remedy."""
    match = _MESSAGE.fullmatch(str(problem))
    text, path = match.group("text", "path") if match else (str(problem), "")
    place = joined(where, path or "")
    cause = problem.__cause__
    if isinstance(cause, InputError):
        return InputError(joined(place, cause.where), cause.problem, cause.remedy)
    if found := _FIELD.fullmatch(text):
        name = found["name"]
        place = joined(place, name)
        if found["case"].startswith("missing"):
            return InputError(place, f"{name} is missing", "add it")
        close = difflib.get_close_matches(name, _field_names(kind), n=1)
        remedy = f"did you mean {close[0]!r}?" if close else "remove it"
        return InputError(place, f"unknown field {name!r}", remedy)
    if found := _EXPECTED.fullmatch(text):
        wanted = found["wanted"].removesuffix(" | null")
        due, got = (_WORDS.get(word, word) for word in (wanted, found["found"]))
        return InputError(place, f"{got} where {due} is due", f"write {due}")
    choices = _choices(kind, place.rpartition(".")[2])
    remedy = f"use one of {', '.join(choices)}" if choices else "correct this value"
    return InputError(place, text.replace("`", ""), remedy)


def joined(where: str, path: str) -> str:
    """A path within the thing at ``where``."""
    path = path.removeprefix(".")
    return f"{where}{'' if path.startswith('[') else '.'}{path}" if where and path else where + path


def _choices(kind: type, field: str) -> list[str]:
    """The values of an enumerated field."""
    schemas = _schemas(kind)
    for schema in schemas.values():
        found = schema.get("properties", {}).get(field, {})
        found = schemas.get(found.get("$ref", "").rpartition("/")[2], found)
        if "enum" in found:
            return [str(choice) for choice in found["enum"]]
    return []


_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6}
_UNITS |= {"s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_PART = r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)"


def nanoseconds(text: str, where: str = "duration") -> int:
    """A duration in Go's notation ("1m30s") as nanoseconds. Raises InputError at ``where``."""
    unsigned = text[1:] if text[:1] in ("-", "+") else text
    # re.ASCII: Go knows no digits but 0-9.
    parts = re.findall(_PART, unsigned, re.ASCII)
    total = sum(int(Decimal(number) * _UNITS[unit]) for number, unit in parts)
    whole = re.fullmatch(rf"({_PART})+|0", unsigned, re.ASCII)
    if whole is None or total >= 2**63:
        raise InputError(where, f"{text!r} is not a duration", "write one such as 15s or 1m30s")
    return -total if text.startswith("-") else total
