"""Hostile variants of valid documents: values are swapped, removed, moved and spoiled.

A document is plain data. ``Literal`` holds text that is written as it is, for what no plain data
can say: a number of 5,000 digits, half of a surrogate pair, a hundred thousand open brackets.
"""

import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from tests.fuzz.choices import Choices

FOLDER = Path(__file__).parent / "documents"
_MOST_CHANGES = 4
_COPIES = (2, 20)


class Literal:
    """Bytes that are written as they are."""

    def __init__(self, written: object) -> None:
        self.written = written if isinstance(written, bytes) else str(written).encode()

    def __deepcopy__(self, memo: object) -> "Literal":
        return self


def _bomb(levels: int) -> str:
    """YAML of a few hundred bytes that stands for 10 ** ``levels`` values."""
    steps = ["&a0 [x,x,x,x,x,x,x,x,x,x]"]
    steps += [f"&a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, levels)]
    return f"[{','.join(steps)}]"


_PLAIN: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 1.5, 1e300, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**30,
    "", " ", "x", "a\0b", "ü", "²", "٣", "\u2028", "x" * 300, "x" * 70_000, "9" * 5_000, "1e9999",
    "1e" + "9" * 5_000, "-1", "1.5Gi", "0x10", "1h", "*", "../..", "%s", "{}", "\x1b[2J",
    "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-01-01", "true", "null",
    [], {}, [None], [[]], [0], ["x", "x"], {"": None}, {"x": "y"}, {"x": {"x": []}},
)  # fmt: skip
_OF_BOTH = (
    "9" * 5_000, "1e400", "-0", "1E-9999", "[" * 3_000 + "]" * 3_000,
    '{"a":' * 3_000 + "1" + "}" * 3_000, '{"a":1,"a":2}', '{"name":"x","name":null}',
)  # fmt: skip
HOSTILE_JSON: tuple[Any, ...] = (
    *_PLAIN,
    *map(Literal, _OF_BOTH),
    *map(
        Literal, ("NaN", "-Infinity", "[" * 100_000, '"\\ud800"', '"\\udc00\\ud800"', '"\\u0000"')
    ),
    *map(Literal, (b'"\xff"', b'"\xed\xa0\x80"', '"\\\\u0000"', "1.", "01", "'x'", "")),
)
"""Values that most fields of JSON must not have."""
HOSTILE_YAML: tuple[Any, ...] = (
    *_PLAIN,
    *map(Literal, _OF_BOTH),
    *map(Literal, ("[" * 2_000, "!!int x", '!!int ""', "!!bool x", "!!float x", '!!float ""')),
    *map(Literal, ("!!timestamp x", '!!binary "?"', "!!binary AAAA", "!!set {a}", "!!omap [a]")),
    *map(Literal, ("!!pairs [a: b]", "!!python/name:os.system x", "!x y", "&a [*a]", "&a {a: *a}")),
    *map(Literal, ("*a", "0x" + "f" * 5_000, "0b1", "0o7", "1:30", "2001-01-01", ".nan", "-.inf")),
    *map(Literal, ("{<<: {a: b}}", "{<<: x}", "{<<: [{a: b}]}", "{? [a] : b}", "{1: 2}", "~", "=")),
    *map(Literal, ("{null: 2}", "{true: 1}", "{2001-01-01: 1}", "1_000", '"\\ud800"', "'")),
    *map(Literal, (_bomb(3), _bomb(9), b"\xff", "\x85", "\ufeff", "%YAML 9.9", "--- x", "|\n x")),
)
"""Values that most fields of YAML must not have."""


@lru_cache(maxsize=16)
def documents(target: str) -> Sequence[tuple[str, Any]]:
    """The valid documents of a target by name, in order. Inputs refer to their numbers: a new one
    goes to the end."""
    paths = sorted((FOLDER / target).iterdir())
    return [(path.stem, yaml.safe_load(path.read_text("utf-8"))) for path in paths]


def spoiled(document: Any, choices: Choices, hostile: Sequence[Any]) -> Any:
    """The document with some changes."""
    changed = [deepcopy(document)]
    for _ in range(1 + choices.below(_MOST_CHANGES)):
        places = list(_places(changed))
        holder, key = choices.of(places)
        _change(holder, key, places, choices, hostile)
    return changed[0]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Everything in a value that can be replaced, as its holder and key."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(items):
        yield value, key
        if isinstance(inner, dict | list):
            yield from _places(inner)


def _change(holder: Any, key: Any, places: list[Any], choices: Choices, hostile: Any) -> None:
    value = holder[key]
    match choices.below(8):
        case 0 | 1 | 2:
            holder[key] = deepcopy(choices.of(hostile))
        case 3:
            other, at = choices.of(places)
            holder[key] = deepcopy(other[at])
        case 4 if isinstance(holder, dict):
            del holder[key]
        case 5 if isinstance(holder, dict):
            holder[choices.text()] = holder.pop(key)
        case 6 if isinstance(value, list):
            holder[key] = value * choices.of(_COPIES)
        case 7 if isinstance(value, str):
            at = choices.below(len(value) + 1)
            holder[key] = value[:at] + choices.text() + value[at + choices.below(4) :]
        case _:
            holder[key] = choices.text()


def as_json(value: Any) -> bytes:
    """The JSON of plain data with literals."""
    match value:
        case Literal():
            return value.written
        case dict():
            pairs = (
                b"%b:%b" % (as_json(str(name)), as_json(inner)) for name, inner in value.items()
            )
            return b"{%b}" % b",".join(pairs)
        case list():
            return b"[%b]" % b",".join(map(as_json, value))
        case _:
            return json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")


def as_yaml(value: Any) -> bytes:
    """The YAML of plain data with literals. Only the outermost mapping is in block style, so that
    the text is not taken for JSON."""
    if not isinstance(value, dict) or not value:
        return as_json(value)
    return b"".join(
        b"%b: %b\n" % (as_json(str(key)), as_json(inner)) for key, inner in value.items()
    )
