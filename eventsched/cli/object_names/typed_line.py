"""What is typed so far in a shell: the word at the cursor, and the options before it."""

import os
import re
import shlex
from argparse import Namespace
from pathlib import Path
from typing import NamedTuple

_OPTIONS = {
    "--data-dir": "data_dir",
    "--database": "database",
    "--stream": "stream",
    "-n": "namespace",
    "--namespace": "namespace",
    "--file": "file",
    "--from-archive": "file",
}
_CONTROL = re.compile(r"[;&|()]+")
"""What ends one command of a line and begins the next."""
_VARIABLE = re.compile(r"[A-Za-z_]\w*=")
_CLOSINGS = ("", '"', "'", "\\")


class TypedLine(NamedTuple):
    """A command line up to the cursor."""

    word: str
    """The begun word, without quotes; empty after a space. Of ``--pod=we`` it is ``we``."""
    options: Namespace
    """Where the log is, as ``database_of`` takes it; and ``stream``, ``namespace`` and ``file``,
    which is set for a log that is in no database. An option that is missing is None."""


def read_line(line: str) -> TypedLine:
    """Reads the last command of a line. Raises ValueError if a shell could not read it."""
    words = _command(_words(line))
    values: dict[str, str] = {}
    option = None
    for word in words[:-1]:
        if option is not None:
            values[option] = word
            option = None
        elif word in _OPTIONS:
            option = _OPTIONS[word]
        else:
            name, is_assigned, value = word.partition("=")
            if is_assigned and name in _OPTIONS:
                values[_OPTIONS[name]] = value
    found = {name: _expanded(values.get(name)) for name in _OPTIONS.values()}
    folder = found["data_dir"]
    options = Namespace(**found | {"data_dir": None if folder is None else Path(folder)})
    word = words[-1]
    return TypedLine(word.partition("=")[2] if word.startswith("--") else word, options)


def _words(line: str) -> list[str]:
    """The words as a shell splits them, and the begun one last."""
    lexer_words: list[str] | None = None
    for closing in _CLOSINGS:
        try:
            lexer = shlex.shlex(line + closing, posix=True, punctuation_chars=";&|()")
            lexer.commenters = ""
            lexer.whitespace_split = True
            lexer_words = list(lexer)
            break
        except ValueError:
            continue
    if lexer_words is None:
        raise ValueError("quotes")
    is_begun = bool(line) and (not line[-1].isspace() or line[-2:-1] == "\\")
    return lexer_words if is_begun else [*lexer_words, ""]


def _command(words: list[str]) -> list[str]:
    """The words after the command's name, of the last command."""
    begin = 1 + max((n for n, word in enumerate(words) if _CONTROL.fullmatch(word)), default=-1)
    words = words[begin:]
    while words and _VARIABLE.match(words[0]):
        words = words[1:]
    return words[1:] or [""]


def _expanded(text: str | None) -> str | None:
    """With ``~`` and exported variables filled in, as the shell will do."""
    return None if text is None else os.path.expanduser(os.path.expandvars(text))
