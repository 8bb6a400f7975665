"""Links in the lines of a story: to the pods that it names, to the positions of the log, and to the
pages that answer what a command would."""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup, escape

from eventsched.pages.api_call import segment

_POSITION = r"(?<=\(position )\d+(?=\))"
_COMMAND = r"(?P<step>`eventsched [^`]+`)"
_UNLIKE_WORDS = re.compile(r"(?=.*[^\W0-9]).*[0-9.-]")
_OFFERED = re.compile(r"(did you mean )(.+)(\?)")
_ITS_POD = re.compile(r"(its pod is )(\S+/\S+)(, whose page has its decisions)")
_ANY_NODE = "NODE"
"""What a command has in the place of a name that the reader is to choose."""
_COPY = Markup(
    '<button type="button" class="copy" data-copy="{0}" aria-label="Copy: {0}">Copy</button>'
)


def linked(
    text: str, pods: Iterable[str], link: Callable[..., str], nodes: Iterable[str] = ()
) -> Markup:
    """A text with links. ``pods`` are the names (``namespace/name``) that it may have, ``nodes``
    those of nodes: one that could be any word or number stays text. ``link``
    makes the address of a page. A position leads to what was so right after its record. Commands
    stay text: a reason may quote what the author of a pod wrote."""
    return _linked(text, [*pods, *_unlike_words(nodes)], link, [], {})


def linked_step(
    text: str,
    pods: Iterable[str],
    link: Callable[..., str],
    asked: Mapping[str, Any] | None = None,
    nodes: Iterable[str] = (),
) -> Markup:
    """A next step with the links of ``linked``. A command that a next step gives leads to the page
    that answers it, if there is one, with ``asked`` as further parameters, and can be copied. It
    asks about the attempt of ``asked``, too."""
    return _linked(text, [*pods, *_unlike_words(nodes)], link, [_COMMAND], asked or {})


def nodes_of(story: Mapping[str, Any] | None) -> list[str]:
    """The nodes that the next step of a pod may name: those that its last attempt names for a
    refusal, and the one that a preemption makes room on. ``story`` is the answer of ``explain``."""
    if not story:
        return []
    refusals = [each for last in story.get("attempts", [])[-1:] for each in last["refusals"]]
    nodes = [node for each in refusals for node in each["examples"]]
    preemption = story.get("preemption")
    return [*nodes, preemption["node"]] if preemption else nodes


def offered(
    remedy: str, screen: str, path: Mapping[str, str], link: Callable[..., str]
) -> str | Markup:
    """The remedy of a page that there is not. Names that it offers lead to their pages: of nodes on
    the ``screen`` of a node, of pods on the others. ``path`` are the parts of the page's own."""
    found = _OFFERED.fullmatch(remedy) or _ITS_POD.fullmatch(remedy)
    if found is None or not (screen == "node" or found.re is _ITS_POD or screen == "pod"):
        return remedy
    before, names, after = found.groups()
    links = []
    for name in names.split(" or "):
        namespace, slash, short = name.rpartition("/")
        namespace = namespace if slash else path.get("namespace", "")
        pod = f"/pods/{segment(namespace)}/{segment(short)}"
        to = link(f"/nodes/{segment(name)}" if screen == "node" else pod)
        links.append(_to(to, name))
    return Markup("{}{}{}").format(before, Markup(" or ").join(links), after)


def _unlike_words(nodes: Iterable[str]) -> list[str]:
    return [name for name in nodes if "/" not in name and _UNLIKE_WORDS.match(name)]


def _linked(
    text: str,
    names: Iterable[str],
    link: Callable[..., str],
    further: Sequence[str],
    asked: Mapping[str, Any],
) -> Markup:
    longest_first = sorted(set(names), key=len, reverse=True)
    words = [rf"(?<![\w./-]){re.escape(name)}(?![\w/-])" for name in longest_first]
    parts = []
    place = 0
    for found in re.finditer("|".join([*further, *words, _POSITION]), text):
        parts += [escape(text[place : found.start()]), _link(found, link, asked)]
        place = found.end()
    return Markup("").join([*parts, escape(text[place:])])


def _link(found: re.Match[str], link: Callable[..., str], asked: Mapping[str, Any]) -> Markup:
    word = found[0]
    if found.lastgroup == "step":
        return _command(word, link, asked)
    if word.isdecimal():
        return _to(link("/", at=int(word) + 1), word)
    namespace, slash, name = word.partition("/")
    path = f"/pods/{segment(namespace)}/{segment(name)}" if slash else f"/nodes/{segment(word)}"
    return _to(link(path), word)


def _command(quoted: str, link: Callable[..., str], asked: Mapping[str, Any]) -> Markup:
    command = quoted.strip("`")
    code = Markup("<code>{}</code>").format(command)
    match _words(command):
        case ["eventsched", "sticky", "forget"]:
            pass
        case ["eventsched", "explain", pod, "--why-not", node] if not node.startswith("-"):
            namespace, _, name = pod.partition("/")
            if not name or namespace.startswith("-"):
                return escape(quoted)
            path = f"/pods/{segment(namespace)}/{segment(name)}"
            value = None if node == _ANY_NODE else node
            if asked.get("attempt") is not None:  # the command asks about the last one by default
                command = f"{command} --attempt {asked['attempt']}"
            code = Markup("<code>{}</code>").format(command)
            code = _to(link(path, **asked, **{"why-not": value}) + "#why-not", code)
        case _:
            return escape(quoted)
    return Markup("{}{}").format(code, _COPY.format(command))


def _words(command: str) -> list[str]:
    """The words of a command that a shell takes as these words alone; else none. A control
    character would reach the terminal even in quotes."""
    try:
        words = shlex.split(command)
    except ValueError:
        return []
    return words if command.isprintable() and shlex.join(words) == command else []


def _to(href: str, text: str | Markup) -> Markup:
    return Markup('<a href="{}">{}</a>').format(href, text)
