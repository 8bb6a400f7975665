"""Links in the lines of a story: to the pods that it names, and to the positions of the log."""

import re
from collections.abc import Callable, Iterable

from markupsafe import Markup, escape

from eventsched.pages.api_call import segment

_POSITION = r"(?<=\(position )\d+(?=\))"


def linked(text: str, pods: Iterable[str], link: Callable[..., str]) -> Markup:
    """A text with links. ``pods`` are the names (``namespace/name``) that it may have; ``link``
    makes the address of a page. A position leads to what was so right after its record."""
    names = sorted(pods, key=len, reverse=True)
    words = [rf"(?<![\w./-]){re.escape(name)}(?![\w/-])" for name in names]
    parts = []
    place = 0
    for found in re.finditer("|".join([*words, _POSITION]), text):
        word = found[0]
        if word.isdecimal():
            href = link("/", at=int(word) + 1)
        else:
            namespace, _, name = word.partition("/")
            href = link(f"/pods/{segment(namespace)}/{segment(name)}")
        parts += [
            escape(text[place : found.start()]),
            Markup('<a href="{}">{}</a>').format(href, word),
        ]
        place = found.end()
    return Markup("").join([*parts, escape(text[place:])])
