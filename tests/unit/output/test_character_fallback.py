"""Outputs that are not in UTF-8: characters of bars have stand-ins, names are escaped."""

import io
import json
import sys

import pytest
import yaml

from eventsched.cli.answers.answer_forms import document_of_several, print_document, shown_json
from eventsched.output.terminal.bars import bar, curve
from eventsched.output.terminal.character_fallback import fall_back_to_ascii, shows_all

NAMES = {"name": "zoë-世-😀"}


def opened(encoding: str) -> io.TextIOWrapper:
    output = io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True)
    fall_back_to_ascii(output)
    return output


def written(text: str, encoding: str) -> str:
    output = opened(encoding)
    output.write(text)
    return output.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("ascii", "zo\\xeb \\u4e16 \\U0001f600 ... ->"),
        ("latin-1", "zoë \\u4e16 \\U0001f600 ... ->"),
        ("utf-8", "zoë 世 😀 … →"),
    ],
)
def test_what_an_encoding_lacks_is_replaced(encoding: str, shown: str) -> None:
    assert written("zoë 世 😀 … →", encoding) == shown


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_bars_and_curves_keep_their_width(encoding: str) -> None:
    for eighths in range(41):
        made = bar(eighths / 40, 5)
        assert len(written(made, encoding)) == 5
    assert written(bar(0.5, 5), "ascii") == "##=.."
    assert written(curve(range(8)), "ascii") == "_.:-=+*#"
    assert len({written(each, encoding) for each in curve(range(8))}) == 8


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize("form", ["json", "yaml"])
def test_documents_stay_whole(form: str, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    output = opened(encoding)
    monkeypatch.setattr(sys, "stdout", output)
    print_document(NAMES, form)
    print(document_of_several(json.dumps(NAMES, ensure_ascii=False), form))
    if form == "json":
        print(shown_json('{"name": "zoë-世-😀", "number": 1.2345678901234567890}'))
    text = output.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]
    read = yaml.safe_load_all(text) if form == "yaml" else map(json.loads, text.splitlines())
    numbers = [{**NAMES, "number": 1.2345678901234567890}] if form == "json" else []
    assert list(read) == [NAMES, NAMES, *numbers]
    assert form == "yaml" or "1.2345678901234567890" in text
    assert ("世" in text) is (encoding == "utf-8")


def test_what_has_no_encoding_is_left_alone() -> None:
    assert shows_all(io.StringIO())
    fall_back_to_ascii(io.StringIO())
