"""Strict decoding: plain data to typed structs.

A problem is an InputError with the path of the field, such as
``profiles[0].plugins.score.enabled[1].weight``. To get all problems instead of the first, pass a
``report`` that returns: the wrong part is then cut out of the data, and the rest is decoded.
"""

import copy
import difflib
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NoReturn, TypeVar

import msgspec
from msgspec import inspect

from eventsched.domain.errors import InputError

T = TypeVar("T")

Report = Callable[[InputError], None]
"""Called with each problem. If it returns, the search for other problems continues."""


def refuse(problem: InputError) -> NoReturn:
    """Raises the first problem."""
    raise problem


class RuleError(InputError):
    """The types are right, but a struct's ``__post_init__`` refused the values. The error is the
    first of ``problems``, which is not empty."""

    def __init__(self, problems: Sequence[InputError]) -> None:
        first = problems[0]
        super().__init__(first.where, first.problem, first.remedy)
        self.problems = problems


@lru_cache(maxsize=256)
def _kind_of(kind: Any) -> inspect.Type:
    return inspect.type_info(kind)


def _zeroed(value: Any, kind: inspect.Type) -> Any:
    """The data with nulls as Go reads them: a null field is unset, a null item is the zero value of
    its type. A null under an unknown name stays, so that it is refused."""
    for member in kind.types if isinstance(kind, inspect.UnionType) else (kind,):
        if isinstance(member, inspect.StructType) and isinstance(value, dict):
            kinds = {field.encode_name: field.type for field in member.fields}
            return {
                name: _zeroed(inner, kinds[name]) if name in kinds else inner
                for name, inner in value.items()
                if inner is not None or name not in kinds or _refuses_null(kinds[name])
            }
        if isinstance(member, inspect.VarTupleType | inspect.ListType) and isinstance(value, list):
            return [
                _zero(member.item_type) if inner is None else _zeroed(inner, member.item_type)
                for inner in value
            ]
    return value


def _refuses_null(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.Metadata) and "null" in (kind.extra or ())


def _zero(kind: inspect.Type) -> Any:
    match kind:
        case inspect.StructType():
            return {}
        case inspect.StrType():
            return ""
        case inspect.IntType():
            return 0
    return None


def _schemas(kind: type) -> dict[str, Any]:
    return msgspec.json.schema_components([kind], schema_hook=lambda _: {})[1]


def _field_names(kind: type) -> frozenset[str]:
    """The names of all fields of a struct and of the structs within it."""
    return frozenset(
        name for schema in _schemas(kind).values() for name in schema.get("properties", ())
    )


_MESSAGE = re.compile(r"(?P<text>.*?)(?: - at (?:`key` in )?`\$(?P<path>[^`]*)`)?", re.DOTALL)
_EXPECTED = re.compile(r"Expected `(?P<wanted>[^`]*)`, got `(?P<got>\w+)`")
_FIELD = re.compile(r"Object (?P<case>contains unknown|missing required) field `(?P<name>.*)`")
_WORDS = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "object": "a mapping",
    "array": "a list",
    "str | object": "a string or a mapping",
    "null": "nothing",
}


def converted(raw: object, kind: type[T], where: str = "") -> T:
    """Plain data as a typed struct; ``where`` is the path of the data. Raises InputError with the
    path of the field, a RuleError if ``__post_init__`` refuses the values."""
    cached: Any = kind
    try:
        return msgspec.convert(_zeroed(raw, _kind_of(cached)), kind, strict=True)
    except msgspec.ValidationError as problem:
        raise _explained(problem, kind, where) from None


def salvaged(raw: object, kind: type[T], where: str, report: Report) -> T | None:
    """Like ``converted``, but reports every problem and leaves out the parts that have one; None if
    nothing is left."""
    data, cut = raw, list[str]()
    while True:
        try:
            return converted(_without_cut(data) if cut else data, kind, where)
        except RuleError as broken:
            problems, of_a_rule = broken.problems, True
        except InputError as problem:
            problems, of_a_rule = [problem], False
        if not cut:
            data = copy.deepcopy(raw)
        # All places first: cutting out one moves the others.
        places = [_original(data, error.where.removeprefix(where)) for error in problems]
        for error, place in zip(problems, places, strict=True):
            at = joined(where, place)
            if not concerns(at, cut):
                located = InputError(at, error.problem, error.remedy)
                report(RuleError([located]) if of_a_rule else located)
            cut.append(at)
        removed = [_cut(data, place) for place in places]
        if not any(removed):
            return None


def concerns(place: str, cut: list[str]) -> bool:
    """Whether a problem at a place may follow from one that was reported: one place contains the
    other."""
    return any(place == at or _within(place, at) or _within(at, place) for at in cut)


def _within(place: str, outer: str) -> bool:
    return place.startswith(outer) and place[len(outer) :][:1] in (".", "[", " ", ":")


class _Cut:
    """Replaces an item that was cut out of a list, so that the paths of other items stay right."""

    def __deepcopy__(self, memo: object) -> "_Cut":
        return self


_CUT = _Cut()
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


def _without_cut(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_cut(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_without_cut(inner) for inner in value if inner is not _CUT]
    return value


def _original(data: Any, path: str) -> str:
    """Translates a path in the data without the cut items into a path in the data with them."""
    original = ""
    for match in _STEP.finditer(path):
        step: str | int = int(match[2]) if match[2] else match[1]
        if isinstance(data, list) and isinstance(step, int):
            indexes = [i for i, item in enumerate(data) if item is not _CUT]
            step = indexes[step] if step < len(indexes) else step
            original += f"[{step}]"
        else:
            original += match[0]
        data = _inner(data, step)
    return original


def _inner(data: Any, step: str | int) -> Any:
    if isinstance(data, dict):
        return data.get(step)
    return (
        data[step]
        if isinstance(data, list) and isinstance(step, int) and step < len(data)
        else None
    )


def _cut(data: Any, path: str) -> bool:
    """Cuts out the value at a path, or the nearest one around it; False if there is nothing left to
    cut out."""
    trail: list[tuple[Any, str | int]] = []
    for match in _STEP.finditer(path):
        rest = path[match.start() :].removeprefix(".")
        step = int(match[2]) if match[2] else match[1]
        if isinstance(data, dict) and (rest in data or step in data):
            trail.append((data, rest if rest in data else step))
        elif isinstance(data, list) and isinstance(step, int) and step < len(data):
            trail.append((data, step))
        else:
            break
        data = _inner(*trail[-1])
    for holder, step in reversed(trail):
        if isinstance(holder, dict):
            del holder[step]
            return True
        if holder[step] is not _CUT:
            holder[step] = _CUT
            return True
    return False


def _explained(problem: msgspec.ValidationError, kind: type, where: str) -> InputError:
    """msgspec's message as place, problem and remedy."""
    match = _MESSAGE.fullmatch(str(problem))
    text, path = match.group("text", "path") if match else (str(problem), "")
    place = joined(where, path or "")
    cause = problem.__cause__
    if isinstance(cause, InputError):
        errors = cause.problems if isinstance(cause, RuleError) else [cause]
        return RuleError([InputError(joined(place, e.where), e.problem, e.remedy) for e in errors])
    if field := _FIELD.fullmatch(text):
        name = field["name"]
        place = joined(place, name)
        if field["case"].startswith("missing"):
            return InputError(place, f"{name} is missing", "add it")
        close = difflib.get_close_matches(name, _field_names(kind) - {name}, n=1)
        remedy = f"did you mean {close[0]!r}?" if close else "remove it"
        return InputError(place, f"unknown field {name!r}", remedy)
    if expected := _EXPECTED.fullmatch(text):
        wanted = expected["wanted"].removesuffix(" | null")
        due, got = (_WORDS.get(word, word) for word in (wanted, expected["got"]))
        return InputError(place, f"{got} where {due} is due", f"write {due}")
    choices = _choices(kind, place.rpartition(".")[2])
    remedy = f"use one of {', '.join(choices)}" if choices else "correct this value"
    error = InputError(place, text.replace("`", ""), remedy)
    return RuleError([error]) if isinstance(cause, ValueError) else error


def joined(where: str, path: str) -> str:
    """The path ``path`` within ``where``."""
    path = path.removeprefix(".")
    return f"{where}{'' if path.startswith('[') else '.'}{path}" if where and path else where + path


def _choices(kind: type, field: str) -> list[str]:
    """The values of an enumerated field."""
    schemas = _schemas(kind)
    for schema in schemas.values():
        member = schema.get("properties", {}).get(field, {})
        member = schemas.get(member.get("$ref", "").rpartition("/")[2], member)
        if "enum" in member:
            return [str(choice) for choice in member["enum"]]
    return []
