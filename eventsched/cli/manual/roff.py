"""Man pages: a command as roff with the macros of man(7), which man, groff and mandoc read."""

from collections.abc import Iterator, Mapping, Sequence

from eventsched.cli.manual.command_pages import CommandPage, OptionGroup

SECTION = 1


def file_name(page: CommandPage) -> str:
    """``eventsched-explain.1``: ``man eventsched-explain`` finds it."""
    return f"{_dashed(page)}.{SECTION}"


def man_page(
    page: CommandPage, version: str, exit_codes: Mapping[int, str], also: Sequence[str]
) -> str:
    """The page of a command, with the commands below it. ``exit_codes`` has a meaning for each
    code; ``also`` are names of pages to see."""
    title = _dashed(page)
    shown = _with_synopsis(page)
    lines = [
        f'.TH "{title.upper()}" "{SECTION}" "" "eventsched {version}" "eventsched"',
        ".SH NAME",
        f"{_text(title)} \\- {_text(page.summary or page.description.rstrip('.'))}",
        ".SH SYNOPSIS",
        "\n.br\n".join(f"\\fB{_text(each.synopsis)}\\fR" for each in shown),
        ".SH DESCRIPTION",
        _text(page.description or page.summary),
        *_options(page.groups, ".SH"),
    ]
    if page.below:
        lines.append(".SH COMMANDS")
    for each in page.below if shown == [page] else shown:
        lines += [".SS", _text(each.name)]
        if each in shown:
            lines += [_text(each.description or each.summary), *_options(each.groups, ".P")]
        else:  # it has a page of its own
            lines.append(_text(each.summary))
    lines.append(".SH EXIT STATUS")
    for code, meaning in exit_codes.items():
        lines += [".TP", f"\\fB{code}\\fR", _text(meaning)]
    lines += [".SH SEE ALSO", ", ".join(f"\\fB{_text(name)}\\fR({SECTION})" for name in also)]
    return "\n".join(lines) + "\n"


def _with_synopsis(page: CommandPage) -> Sequence[CommandPage]:
    """What the page describes: a command, or those below it, as ``eventsched db upgrade``."""
    of_its_own = " " in page.name and page.below
    return [each for each in page.walk() if not each.below] if of_its_own else [page]


def _options(groups: Sequence[OptionGroup], heading: str) -> Iterator[str]:
    for group in groups:
        if heading == ".SH":
            yield f".SH {_text(group.title.upper())}"
        else:
            yield ".P"
            yield f"\\fI{_text(group.title)}\\fR"
        for option in group.options:
            names = ", ".join(f"\\fB{_text(name)}\\fR" for name in option.names)
            yield ".TP"
            yield f"{names} \\fI{_text(option.value)}\\fR" if option.value else names
            yield _text(option.text) or "."


def _dashed(page: CommandPage) -> str:
    return page.name.replace(" ", "-")


def _text(text: str) -> str:
    """Text as roff: nothing in it is a request or an escape, and a hyphen can be copied."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
