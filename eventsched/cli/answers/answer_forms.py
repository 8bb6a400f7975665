"""The forms of an answer, which ``-o`` chooses alike for every command.

``table`` and ``text`` are what people read, and mean the same; ``wide`` is the same with all the
columns that there are; ``json`` and ``yaml`` are the same document for programs.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterable
from typing import Any

from eventsched.output.terminal.character_fallback import shows_all

JSON, YAML, WIDE = "json", "yaml", "wide"
_READ = ("table", "text")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def add_output_option(
    parser: argparse.ArgumentParser,
    form: str = "table",
    *,
    wide: bool = False,
    more: Iterable[str] = (),
    help_text: str | None = None,
    pages: bool = True,
) -> None:
    """Adds ``-o``, and ``--no-pager`` if the answer ``pages``. ``form`` is the one that is printed
    otherwise, and ``more`` are forms of the command alone; other words end with exit code 2.
    Every command takes ``wide``: it gets the word if it has more columns (``wide``), else ``form``,
    which has all already."""
    forms = (form, WIDE, *(each for each in (JSON, YAML) if each != form))

    def form_of(word: str) -> str:
        has_all = (word in _READ and form in _READ) or (word == WIDE and not wide)
        return form if has_all else word

    parser.add_argument(
        "-o", dest="output", type=form_of, choices=(*forms, *more), default=form,
        help=help_text or f"the form of the answer (default: {form})",
    )  # fmt: skip
    if pages:
        add_pager_option(parser)


def add_pager_option(parser: argparse.ArgumentParser) -> None:
    """Adds ``--no-pager``. The answers of commands without it never have a pager."""
    parser.add_argument(
        "--no-pager", action="store_true",
        help="print a long answer as it is, also on a terminal ($EVENTSCHED_PAGER, $PAGER)",
    )  # fmt: skip


def has_pager(options: argparse.Namespace) -> bool:
    """Whether the answer may have a pager: not one that follows a log."""
    follows = getattr(options, "follow", False)
    return not (getattr(options, "no_pager", True) or follows)


def ends_unread(options: argparse.Namespace) -> bool:
    """Whether the command ends if the reader leaves the pager: it prints while it reads a log that
    may be long, and has no other exit code than 0."""
    return bool(getattr(options, "ends_unread", False))


def is_document(output: str | None) -> bool:
    """Whether a form is one for programs."""
    return output in (JSON, YAML)


def print_document(document: Any, output: str, indent: int | None = None) -> None:
    """Prints plain data as one document, JSON in one line unless it is indented."""
    if output == JSON:
        print(json.dumps(document, ensure_ascii=not shows_all(sys.stdout), indent=indent))
    else:
        # YAML has no tuples and no enumerations, JSON makes them plain.
        sys.stdout.write(yaml_text(json.loads(json.dumps(document))))


def print_answer(document: Any, text: str, output: str) -> None:
    """Prints an answer that is short in every form."""
    if is_document(output):
        print_document(document, output)
    else:
        print(text)


def document_of_several(text: str, output: str) -> str:
    """One of several JSON documents in a form, without the end of its last line: a line of JSON,
    or a document of YAML, which begins with ``---``."""
    if output == YAML:
        return f"---\n{yaml_text(json.loads(text))}".rstrip("\n")
    return shown_json(text)


def shown_json(text: str) -> str:
    """JSON as standard output takes it: what its encoding may lack is escaped."""
    if shows_all(sys.stdout):
        return text
    return _NOT_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], text)


def yaml_text(document: Any) -> str:
    """Plain data as YAML, in the order that it has."""
    import yaml  # only this form needs it

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    written: str = yaml.dump(
        document, Dumper=dumper, sort_keys=False, allow_unicode=shows_all(sys.stdout)
    )
    return written
