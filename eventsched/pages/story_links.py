"""Links in the lines of a story: to the pods that it names, to the positions of the log, and to the
pages that answer what a command would."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from markupsafe import Markup, escape

from eventsched.pages.api_call import segment

_POSITION = r"(?<=\(position )\d+(?=\))"
_COMMAND = r"`(?P<command>eventsched [^`]+)`"
_WHY_NOT = re.compile(
    r"eventsched explain (?P<namespace>[^/]+)/(?P<name>.+) --why-not (?P<node>.+)"
)
_ANY_NODE = "NODE"
"""What a command has in the place of a name that the reader is to choose."""
_COPY = Markup(
    '<button type="button" class="copy" data-copy="{0}" aria-label="Copy: {0}">Copy</button>'
)


def linked(
    text: str,
    pods: Iterable[str],
    link: Callable[..., str],
    asked: Mapping[str, Any] | None = None,
) -> Markup:
    """A text with links. ``pods`` are the names (``namespace/name``) that it may have; ``link``
    makes the address of a page. A position leads to what was so right after its record. A command
    leads to the page that answers it, if there is one, with ``asked`` as further parameters, and
    can be copied."""
    names = sorted(pods, key=len, reverse=True)
    words = [rf"(?<![\w./-]){re.escape(name)}(?![\w/-])" for name in names]
    parts = []
    place = 0
    for found in re.finditer("|".join([_COMMAND, *words, _POSITION]), text):
        parts += [escape(text[place : found.start()]), _link(found, link, asked or {})]
        place = found.end()
    return Markup("").join([*parts, escape(text[place:])])


def _link(found: re.Match[str], link: Callable[..., str], asked: Mapping[str, Any]) -> Markup:
    word = found[0]
    if (command := found["command"]) is not None:
        return _command(command, link, asked)
    if word.isdecimal():
        return _to(link("/", at=int(word) + 1), word)
    namespace, _, name = word.partition("/")
    return _to(link(f"/pods/{segment(namespace)}/{segment(name)}"), word)


def _command(command: str, link: Callable[..., str], asked: Mapping[str, Any]) -> Markup:
    code = Markup("<code>{}</code>").format(command)
    if found := _WHY_NOT.fullmatch(command):
        path = f"/pods/{segment(found['namespace'])}/{segment(found['name'])}"
        node = None if found["node"] == _ANY_NODE else found["node"]
        code = _to(link(path, **asked, **{"why-not": node}) + "#why-not", code)
    return Markup("{}{}").format(code, _COPY.format(command))


def _to(href: str, text: str | Markup) -> Markup:
    return Markup('<a href="{}">{}</a>').format(href, text)
