"""What may follow on a command line, read from its parser: commands, options, choices, or a kind of
name.

argparse has no public way to ask this. Only what the parser of the plugin uses is covered: options
with one value or none, one word per argument.
"""

import argparse
from collections.abc import Sequence
from typing import NamedTuple

from eventsched.cli.object_names.shell_functions import KIND_BY_PLACEHOLDER

FILES = "files"
_KIND_BY_OPTION = {
    "--context": "contexts",
    "--service": "services",
    "--service-account": "serviceaccounts",
    "--stream": "streams",
}


class WordCompletion(NamedTuple):
    """What may be at the cursor."""

    word: str
    """The begun word, or what follows ``=`` in it."""
    before: str
    """What comes before ``word`` in the same argument, such as ``--node=``."""
    offered: tuple[tuple[str, str], ...]
    """Words with what they mean; those that do not begin with ``word`` are left out."""
    kind: str
    """The kind of name that is expected, such as ``pods``, or FILES; empty if there is none."""
    options: argparse.Namespace
    """The options that are given, with the parser's defaults for others."""


def completion_of(parser: argparse.ArgumentParser, words: Sequence[str]) -> WordCompletion:
    """What may take the place of the last of the words."""
    options = argparse.Namespace()
    arguments = _arguments(parser)
    pending: argparse.Action | None = None
    _set_defaults(parser, options)
    for word in words[:-1]:
        if pending is not None:
            setattr(options, pending.dest, word)
            pending = None
            continue
        name, is_assigned, value = word.partition("=")
        option = parser._option_string_actions.get(name) if word.startswith("-") else None
        if option is not None and is_assigned:
            setattr(options, option.dest, value)
        elif option is not None:
            pending = option if option.nargs != 0 else None
        elif not word.startswith("-") and arguments:
            argument = arguments.pop(0)
            if isinstance(argument, argparse._SubParsersAction) and word in argument.choices:
                parser = argument.choices[word]
                arguments = _arguments(parser)
                _set_defaults(parser, options)
            setattr(options, argument.dest, word)
    return _at_the_cursor(parser, words[-1], pending, arguments, options)


def _at_the_cursor(
    parser: argparse.ArgumentParser,
    word: str,
    pending: argparse.Action | None,
    arguments: Sequence[argparse.Action],
    options: argparse.Namespace,
) -> WordCompletion:
    before = ""
    if pending is None and word.startswith("-"):
        name, is_assigned, value = word.partition("=")
        if not is_assigned:
            return WordCompletion(word, "", _begun(_option_words(parser), word), "", options)
        pending = parser._option_string_actions.get(name)
        before, word = f"{name}=", value
    elif pending is None and arguments:
        pending = arguments[0]
    if pending is None:
        return WordCompletion(word, before, (), "", options)
    return WordCompletion(word, before, _begun(_values(pending), word), _kind(pending), options)


def _arguments(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if not action.option_strings]


def _set_defaults(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    for action in parser._actions:
        if action.default is not argparse.SUPPRESS:
            setattr(options, action.dest, action.default)


def _begun(words: Sequence[tuple[str, str]], word: str) -> tuple[tuple[str, str], ...]:
    return tuple(each for each in words if each[0].startswith(word))


def _option_words(parser: argparse.ArgumentParser) -> list[tuple[str, str]]:
    formatter = parser._get_formatter()
    return [
        (name, " ".join(formatter._expand_help(action).split()) if action.help else "")
        for action in parser._actions
        if action.help is not argparse.SUPPRESS
        for name in action.option_strings
    ]


def _values(action: argparse.Action) -> list[tuple[str, str]]:
    if isinstance(action, argparse._SubParsersAction):
        return [(each.dest, each.help or "") for each in action._choices_actions]
    return [(str(choice), "") for choice in action.choices or ()]


def _kind(action: argparse.Action) -> str:
    by_option = next(
        (_KIND_BY_OPTION[name] for name in action.option_strings if name in _KIND_BY_OPTION), ""
    )
    placeholder = action.metavar if isinstance(action.metavar, str) else ""
    return by_option or (
        FILES if placeholder == "FILE" else KIND_BY_PLACEHOLDER.get(placeholder, "")
    )
