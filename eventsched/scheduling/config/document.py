"""Strict reading: the text of a configuration, YAML or JSON, to plain data.

Text that begins with ``{`` is JSON. All other text is YAML 1.1 as Go reads it (upstream:
apimachinery serializer/json, sigs.k8s.io/yaml, go.yaml.in/yaml/v2 resolve.go): ``y`` is true,
``1:30`` is text, and ``4.0`` is the integer 4, because upstream converts the data to JSON.
"""

import base64
import binascii
import json
import re
from typing import Any

import yaml

from eventsched.domain.errors import InputError
from eventsched.domain.objects.texts import is_unicode
from eventsched.scheduling.config.decoding import Report, joined, refuse

_TAG = "tag:yaml.org,2002:"
_WORDS: dict[str, Any] = {
    **dict.fromkeys(
        ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True
    ),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE"), False),
    **dict.fromkeys(("off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **{text: float(text[1:]) for text in (".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF")},
    **{text: float(text[2:]) for text in ("+.inf", "+.Inf", "+.INF")},
    **{text: -float(text[2:]) for text in ("-.inf", "-.Inf", "-.INF")},
}
_KINDS = {bool: "bool", int: "int", float: "float", type(None): "null"}
_INTEGER = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|[1-9][0-9]*|0)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_MOST_VALUES = 1_000_000
"""Values of a document. Upstream's reader refuses excessive aliases, too."""
_LONGEST_INTEGER = 1_000
"""Digits that an integer may have. Python writes out none of more than 4,300."""
_EXACT = 1e21
"""From here on, Go's JSON writes whole floats with an exponent: they are not integers."""
_HALF, _WHOLE = "holds half of a surrogate pair", "write the character itself, or both halves"


class _UnfitError(Exception):
    """A scalar that does not fit its explicit tag."""


def _value(text: str) -> Any:
    """The value of a plain scalar."""
    if text in _WORDS:
        return _WORDS[text]
    digits = text.replace("_", "")
    if text[:1] not in "+-.0123456789" or (digits != text and text.startswith(".")):
        return text
    if _INTEGER.fullmatch(digits):
        return _integer(digits)
    if not _FLOAT.fullmatch(digits) or abs(number := float(digits)) == float("inf"):
        return text
    return int(number) if number.is_integer() and abs(number) < _EXACT else number


def _integer(digits: str) -> int:
    if len(digits) > _LONGEST_INTEGER:
        raise ValueError("too many digits")
    unsigned = digits.lstrip("+-").lower()
    octal = len(unsigned) > 1 and unsigned[0] == "0" and unsigned[1].isdigit()
    number = int(unsigned, 8) if octal else int(unsigned, 0)
    return -number if digits[0] == "-" else number


class _StrictLoader(yaml.SafeLoader):
    """YAML as Go's decoder reads it."""

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> Any:
        if kind is not yaml.ScalarNode or not implicit[0]:
            return super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        if value == "<<":
            return f"{_TAG}merge"
        return _TAG + _KINDS.get(type(_value(value)), "str")

    def scalar(self, node: yaml.ScalarNode) -> Any:
        value = _value(node.value)
        kind = _KINDS.get(type(value), "str")
        if _TAG + kind != node.tag and (kind, node.tag) != ("int", f"{_TAG}float"):
            raise _UnfitError
        return value

    def text(self, node: yaml.ScalarNode) -> str:
        text: str = self.construct_yaml_str(node)
        if not is_unicode(text):
            raise InputError(f"line {node.start_mark.line + 1}", _HALF, _WHOLE)
        return text

    def binary(self, node: yaml.ScalarNode) -> str:
        try:
            return base64.b64decode(node.value).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise _UnfitError from None


for _kind in _KINDS.values():
    _StrictLoader.add_constructor(_TAG + _kind, _StrictLoader.scalar)
_StrictLoader.add_constructor(f"{_TAG}str", _StrictLoader.text)
_StrictLoader.add_constructor(f"{_TAG}binary", _StrictLoader.binary)


def mapping(text: str, report: Report = refuse) -> dict[Any, Any]:
    """The first document as plain data, as upstream reads it. Raises InputError if the text is
    neither YAML nor JSON, or not a mapping; its ``where`` is the line or the field. ``report`` gets
    each repeated key."""
    return _as_mapping(_read(text, report, 0))


def second_mapping(text: str, report: Report = refuse) -> dict[Any, Any] | None:
    """The second YAML document as plain data, under the rules of ``mapping``; None if there is none
    or if it is empty. Raises InputError for a third document too."""
    raw = _read(text, report, 1)
    if raw is not None and _read(text, report, 2) is not None:
        raise InputError("", "holds more than two documents", "leave the two that are meant")
    return None if raw is None else _as_mapping(raw)


def first_text(text: str) -> str:
    """The text of the first document only. The second one may contain a database password, which
    must not get into a log, message or digest. Text that is not YAML is returned whole."""
    if text.lstrip().startswith("{"):
        return text
    try:
        starts = [
            event.start_mark.index
            for event in yaml.parse(text, Loader=_StrictLoader)
            if isinstance(event, yaml.DocumentStartEvent) and event.start_mark is not None
        ]
    except yaml.YAMLError:
        return text
    return text if len(starts) < 2 else text[: starts[1]]


def _as_mapping(raw: Any) -> dict[Any, Any]:
    if not isinstance(raw, dict):
        raise InputError("", "not a mapping of fields", "write fields and their values")
    return raw


def _read(text: str, report: Report, number: int) -> Any:
    """The document with a number, from 0 on; None if there is none."""
    try:
        if text.lstrip().startswith("{"):
            return None if number else _json(text, report)
        return _yaml(text, report, number)
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark
        line = f"line {mark.line + 1}" if mark else ""
        raise InputError(line, f"not YAML: {problem.problem}", "correct the syntax") from None
    except yaml.YAMLError as problem:
        raise InputError("", f"not YAML: {problem}", "correct the syntax") from None
    except RecursionError:
        raise InputError("", "nested too deeply", "write it with fewer levels") from None


def _json(text: str, report: Report) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                report(InputError(key, "written twice", "keep one of them"))
            seen.add(key)
        return dict(pairs)

    def constant(name: str) -> Any:
        raise InputError("", f"{name} is not JSON", "write a number")

    try:
        value = json.loads(text, object_pairs_hook=unique, parse_constant=constant)
        if not is_unicode(json.dumps(value, ensure_ascii=False)):
            raise InputError("", _HALF, _WHOLE)
        return value
    except json.JSONDecodeError as problem:
        raise InputError(
            f"line {problem.lineno}",
            f"not JSON: {problem.msg}",
            "correct the syntax; what begins with { is read as JSON",
        ) from None
    except InputError:
        raise
    except ValueError:  # by int()
        message = "not JSON: a number has too many digits"
        raise InputError("", message, "write a shorter number") from None


def _yaml(text: str, report: Report, number: int) -> Any:
    loader = _StrictLoader(text)
    try:
        for _ in range(number):
            if loader.check_node():
                loader.get_node()
        if not loader.check_node():
            return None
        node = loader.get_node()
        _report_repeated_keys(node, "", {}, report)
        if _size(node, {}) > _MOST_VALUES:
            problem = f"stands for more than {_MOST_VALUES} values, by its aliases"
            raise InputError("", problem, "write it with fewer aliases")
        return loader.construct_document(node)
    except InputError:
        raise
    except (_UnfitError, ValueError, TypeError, AttributeError, LookupError):
        # PyYAML raises these if a value does not fit its explicit tag, as in "!!int x".
        raise yaml.YAMLError("a value does not fit its tag") from None
    finally:
        loader.dispose()


def _size(node: yaml.Node | None, known: dict[int, int]) -> int:
    """The number of values of a node without cycles, each alias counted as what it stands for."""
    size = known.get(id(node))
    if size is None:
        size = 1
        if isinstance(node, yaml.SequenceNode):
            size += sum(_size(item, known) for item in node.value)
        elif isinstance(node, yaml.MappingNode):
            size += sum(_size(item, known) for pair in node.value for item in pair)
        known[id(node)] = size
    return size


def _report_repeated_keys(
    node: yaml.Node | None, where: str, open_: dict[int, bool], report: Report
) -> None:
    if id(node) in open_:  # an alias, checked where it was defined
        if open_[id(node)]:
            raise InputError(where, "contains itself", "write it out")
        return
    open_[id(node)] = True
    if isinstance(node, yaml.SequenceNode):
        for i, item in enumerate(node.value):
            _report_repeated_keys(item, f"{where}[{i}]", open_, report)
    elif isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, value in node.value:
            path = joined(where, str(key.value))
            line = key.start_mark.line + 1
            if path in lines:
                report(
                    InputError(
                        path, f"written twice, in lines {lines[path]} and {line}", "keep one"
                    )
                )
            lines[path] = line
            _report_repeated_keys(value, path, open_, report)
    open_[id(node)] = False
