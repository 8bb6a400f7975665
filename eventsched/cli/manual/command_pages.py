"""The command line as values: for each command its synopsis, its description and its options, as
its help has them."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class CommandOption:
    """An option or an argument."""

    names: tuple[str, ...]
    """``("-n", "--namespace")``; of an argument its placeholder alone, such as ``POD``."""
    value: str
    """The placeholder of its value; empty if it takes none, or is an argument."""
    text: str
    """The help, in one line."""
    required: bool


@dataclass(frozen=True)
class OptionGroup:
    """Options under one heading, such as "the log"."""

    title: str
    options: tuple[CommandOption, ...]


@dataclass(frozen=True)
class CommandPage:
    """One command, or one below it such as ``eventsched db upgrade``."""

    name: str
    """With all words: ``eventsched db upgrade``."""
    summary: str
    """The line of it in the list of commands; empty for ``eventsched`` itself."""
    description: str
    groups: tuple[OptionGroup, ...]
    """Without those that are empty."""
    below: tuple["CommandPage", ...]

    @property
    def synopsis(self) -> str:
        """``eventsched explain [options] POD``."""
        options = [option for group in self.groups for option in group.options]
        flags = [option for option in options if option.names[0].startswith("-")]
        needed = [
            f"{option.names[-1]} {option.value}".strip() for option in flags if option.required
        ]
        more = ["[options]"] if len(flags) > len(needed) else []
        arguments = [
            option.names[0] if option.required else f"[{option.names[0]}]"
            for option in options
            if option not in flags
        ]
        below = ["COMMAND"] if self.below else []
        return " ".join([self.name, *needed, *more, *arguments, *below])

    def walk(self) -> Iterator["CommandPage"]:
        """This page and all below it, in the order of the help."""
        yield self
        for page in self.below:
            yield from page.walk()


def pages_of(parser: argparse.ArgumentParser, summary: str = "") -> CommandPage:
    """The page of a parser with those of its commands. argparse has no public list of actions,
    groups and summaries."""
    groups: list[OptionGroup] = []
    below: list[CommandPage] = []
    for group in parser._action_groups:
        actions = [each for each in group._group_actions if each.help is not argparse.SUPPRESS]
        commands = [each for each in actions if isinstance(each, argparse._SubParsersAction)]
        for action in commands:
            below.extend(_commands(action))
        options = [_option(parser, each) for each in actions if each not in commands]
        if options:
            groups.append(OptionGroup(group.title or "options", tuple(options)))
    return CommandPage(
        name=parser.prog,
        summary=summary,
        description=_line(parser.description or ""),
        groups=tuple(groups),
        below=tuple(below),
    )


def _commands(
    action: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> Iterator[CommandPage]:
    summaries = {each.dest: each.help or "" for each in action._choices_actions}
    for name, parser in action.choices.items():
        yield pages_of(parser, _line(summaries.get(name, "")))


def _option(parser: argparse.ArgumentParser, action: argparse.Action) -> CommandOption:
    value = _placeholder(action)
    if not action.option_strings:
        optional = action.nargs in ("?", "*")
        return CommandOption((value,), "", _help(parser, action), required=not optional)
    takes = action.nargs != 0
    return CommandOption(
        tuple(action.option_strings),
        value if takes else "",
        _help(parser, action),
        required=action.required,
    )


def _placeholder(action: argparse.Action) -> str:
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    if action.metavar is None and action.choices is not None:
        return "{" + ",".join(str(choice) for choice in action.choices) + "}"
    return action.metavar or (action.dest.upper() if action.option_strings else action.dest)


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """With values filled in, as argparse does it, and without its lines."""
    formatter = parser._get_formatter()
    return _line(formatter._expand_help(action)) if action.help else ""


def _line(text: str) -> str:
    return " ".join(text.split())
