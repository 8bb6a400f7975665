"""The forms that ``-o`` takes: alike for every command, and the same document as JSON and YAML."""

import argparse
import json
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import pytest
import yaml

from eventsched.cli.answers.answer_forms import (
    add_output_option,
    document_of_several,
    print_document,
)
from eventsched.cli.main import every_command
from eventsched.kubectl_plugin.plugin_commands import parser

ALL = ("wide", "json", "yaml")
FORMS = {
    **dict.fromkeys((
        "db archive", "db grant", "db prune", "db restore", "db stop", "db union", "db upgrade",
        "db url", "keys generate", "keys show", "log export", "sticky forget",
    ), ("text", *ALL)),
    "config check": ("table", *ALL), "config diff": ("text", *ALL),
    "config show": ("yaml", "wide", "json"), "db doctor": ("table", *ALL),
    "db stats": ("table", *ALL), "diff": ("text", *ALL), "explain": ("table", *ALL),
    "log list": ("table", *ALL), "log streams": ("table", *ALL), "log tail": ("table", *ALL),
    "plugin check": ("table", *ALL), "queue": ("text", *ALL), "replay": ("table", *ALL),
    "shadow report": ("text", *ALL), "simulate": ("table", *ALL), "sql": ("table", *ALL, "csv"),
    "state": ("text", *ALL, "manifests"), "sticky list": ("table", *ALL), "top": ("text", *ALL),
    "try": ("text", *ALL), "verify": ("table", *ALL),
}  # fmt: skip
"""Not of evaluate and log checkpoint, whose ``-o`` is a file; nor of what goes on until it is
ended, or prints a script, a page or a test."""
OF_KUBECTL = {
    "explain": ("text", *ALL), "log": ("text", *ALL), "queue": ("text", *ALL),
    "try": ("text", *ALL), "why-not": ("text", *ALL),
}  # fmt: skip


def forms(parser: argparse.ArgumentParser, *words: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The commands with ``-o``, and its choices."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, below in action.choices.items():
                yield from forms(below, *words, word)
        elif action.dest == "output" and action.choices is not None:
            yield " ".join(words), tuple(action.choices)


def test_every_command_takes_the_same_forms() -> None:
    assert dict(forms(every_command())) == FORMS
    assert dict(forms(parser())) == OF_KUBECTL


def parsed(*words: str, **options: Any) -> str:
    made = argparse.ArgumentParser()
    add_output_option(made, **options)
    return str(made.parse_args(words).output)


@pytest.mark.parametrize("word", ["table", "text"])
@pytest.mark.parametrize("form", ["table", "text"])
def test_a_table_and_text_are_one(word: str, form: str) -> None:
    assert parsed("-o", word, form=form) == parsed(form=form) == form


@pytest.mark.parametrize(
    ("options", "form"),
    [
        ({"wide": True}, "wide"),
        ({}, "table"),
        ({"form": "text"}, "text"),
        ({"form": "yaml"}, "yaml"),
    ],
)
def test_wide_is_all_that_a_command_has(options: dict[str, Any], form: str) -> None:
    assert parsed("-o", "wide", **options) == form


@pytest.mark.parametrize(
    ("word", "options"),
    [("xml", {"wide": True}), ("table", {"form": "yaml"}), ("csv", {}), ("Wide", {})],
)
def test_a_form_that_a_command_has_not(
    word: str, options: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed("-o", word, **options)
    assert ended.value.code == 2
    assert f"argument -o: invalid choice: '{word}'" in capsys.readouterr().err


class Colour(StrEnum):
    RED = "red"


HOSTILE = {"z": ("a", Colour.RED), "a": ["- x: y", "no", "1e3", "\x1b[31m", "zoë", None, 0.1, True]}
PLAIN = {"z": ["a", "red"], "a": ["- x: y", "no", "1e3", "\x1b[31m", "zoë", None, 0.1, True]}


def test_a_document_is_the_same_as_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    print_document(HOSTILE, "json")
    text = capsys.readouterr().out
    assert (text.count("\n"), json.loads(text)) == (1, PLAIN)
    print_document(HOSTILE, "yaml")
    text = capsys.readouterr().out
    assert ("\x1b" in text, list(yaml.safe_load(text)), yaml.safe_load(text)) == (
        False, ["z", "a"], PLAIN,
    )  # fmt: skip


def test_several_documents() -> None:
    assert document_of_several('{"a": 1}', "json") == '{"a": 1}'
    texts = [document_of_several(f'{{"a": {number}}}', "yaml") for number in (1, 2)]
    assert texts == ["---\na: 1", "---\na: 2"]
    assert list(yaml.safe_load_all("\n".join(texts))) == [{"a": 1}, {"a": 2}]
