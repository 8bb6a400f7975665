"""Plain words in documents, comments, docstrings and messages.

A table of wordings that readers stumbled over, each with the plain form. Code is not read: in
Markdown no fences and no inline code, in Python only comments and strings with a space.
"""

import ast
import io
import re
import tokenize
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.databases import ROOT

START = r"(?:^|\n|(?<=[.:;|] ))"
"""Where a sentence begins; texts have single spaces, and a line break before a paragraph."""

PLAIN = {
    r"\bmend(?:s|ed|ing)?\b": "fix",
    r"\banew\b": "again",
    r"\bwho(?:m|so)?ever\b": "the replica that, the user who",
    START
    + r"(?-i:Who) (?:is|has|does|can|may|reads|writes|leads|wants)\b[^?]*?\.": "a replica that",
    r"\btold\b": "logged, reported, given, distinguished",
    r"\btells?\b": "says, shows, explains, distinguishes",
    r"\b(?:makes?|made) way\b": "is dropped",
    r"\b(?:no ?|some|every|any)body\b|\b(?:no|some|every|any) ?one\b(?! of\b| \w+s\b)": (
        "the user, the replica, the client"
    ),
    r"\b(?:is|are|was|were|been|being|stays?) away\b(?! from)": "unreachable, down",
    r"\b(?:leaves?|left|leaving) (?:\w+ )?away\b": "omit",
    START + r"(?-i:Where) (?:the|an?|no|there|it|they|this|that|nothing|none|neither|one)\b"
    r"[^.:;?|\n]*?, (?!and\b|or\b|why\b|when\b|how\b|in\b|as\b)": "If",
    r"\bwhere (?:there (?:is|are|was|were)|nothing|none|no|neither)\b": "if there is none",
    r"\bwhere (?:it|they|that|this) (?:is|are|has|have|ends?|does|do|cannot)\b"
    r"(?! ?[.,;:?]| from| to| for\b|,? or\b|$)": "if it is",
    r"\bstop(?:s|ped)? to\b": "no longer",
    r"\b(?:is|are|waits?|stands?|holds?|leads?|runs?) (?:(?!been|in)[^\s.,;:()]+ ){0,5}"
    r"since (?:then|yesterday|\{\}|\d\d\D)": "has been … since",
    r"(?<!there )(?<!There )\b(?:is|are|was|were) no (?!longer\b|\w+er\b|more\b|less\b)[\w{`]": (
        "is not a"
    ),
    r"\b(?:all|every\w*|any\w*|none|nothing)(?: [^\s.,;]+)? but\b": "all except, only",
    r"\bbut for\b": "except for",
    r"\bbec[ao]mes?(?:ing)? of\b": "happens to",
    r"(?<!there are )\bno more(?= ?[.,;:)|]|$| at once)": "no longer",
    r"\bnot any more\b": "no longer",
    r"\bfor ever\b": "forever, permanently",
    r"\b(?:made|makes?|making)(?: \w+)? again\b": "repeated, recreated",
    r"\btak(?:e|es|en|ing) back\b|\btook back\b": "undo, roll back",
    r"\b(?:hitherto|whence|thence|thereof|thereby|therein|wherein|lest|nought|ere|whilst|albeit"
    r"|likewise)\b": "an everyday word",
    r"\b(?:says?|said|knows?|known|knew|know)(?: nothing)? of\b": "says about, knows about",
    r"\bin vain\b": "without effect",
    r"\bso (?:many|long)\b(?! (?:as|that|ago)\b)": "the number's name",
    r"\bstands? (?:in(?! for)|at|there|here|under|behind|beside|before|once|as)\b": "is",
    r"\b(?:an?|one) (?:row|file|line|column|section) an? (?!second)\w": "one row per",
}
"""Pattern → what to write instead."""

_STORED = "records hold this text"
ALLOWED = {
    ("eventsched/cluster/extenders/client.py", "the answer is no JSON but"): _STORED,
    ("eventsched/process/prometheus_samples.py", "the answer is no JSON"): _STORED,
    ("eventsched/runtime/effects/eviction_tracker.py", "nobody needs the room any more"): _STORED,
    ("eventsched/scheduling/framework/plugin_columns.py", "what is no array"): _STORED,
    ("eventsched/scheduling/framework/sampling.py", "of the cluster, but for"): _STORED,
    ("eventsched/scheduling/framework/wait_results.py", "is no change to ask"): _STORED,
    ("eventsched/scheduling/rules/selection.py", "the key is no label key"): _STORED,
    ("eventsched/scheduling/rules/selection.py", "is no label value"): _STORED,
    ("eventsched/eventlog/schema/log_comments.py", "one row an attempt"): "a comment in the schema",
    ("eventsched/eventlog/schema/log_comments.py", "One row a stream"): "a comment in the schema",
    ("migrations/versions/m0006_reading.py", "somebody else has made"): "migrations never change",
    ("eventsched/eventlog/embedded/programs.py", "nor 'nobody'"): "an account's name",
}
"""(File, words) → why they stay."""

SCANNED = (
    "*.md", "docs/**/*.md", "deploy/**/*.md", "examples/**/*.md",
    "deploy/**/*.yaml", "deploy/**/*.tpl", "deploy/**/*.txt", "examples/**/*.yaml",
    "eventsched/**/*.py", "benchmarks/**/*.py", "migrations/**/*.py", "examples/**/*.py",
    "tests/**/*.md", "tests/**/*.py",
)  # fmt: skip
FENCE = re.compile(r"^( *)(```|~~~).*?^\1\2\s*$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"``[^`]*``|`[^`\n]*`|(?<=\])\([^)\s]*\)")
SPACE = re.compile(r"\s+")
NEW_PARAGRAPH = re.compile(r"[-*|] |\||#+ |\d+\. ")
ANY = re.compile("|".join(f"(?:{pattern})" for pattern in PLAIN), re.IGNORECASE)
FORMS = [(re.compile(pattern, re.IGNORECASE), form) for pattern, form in PLAIN.items()]
NEAR = 40
"""Characters before and after a wording in which ALLOWED is looked for."""


@dataclass(frozen=True)
class Text:
    """Prose of a file, and the line where it begins."""

    words: str
    line: int


class Stumble(NamedTuple):
    """A wording of the table in a text. ``near`` is the wording with the text around it."""

    line: int
    wording: str
    near: str
    plain: str


def _blank(match: re.Match[str]) -> str:
    """Code as a word that no pattern has, with its line breaks."""
    return "`" + "\n" * match.group().count("\n")


def _markdown(text: str) -> Iterator[Text]:
    yield Text(CODE.sub(_blank, FENCE.sub(_blank, text)), 1)


def _blocks(comments: list[tuple[int, str]]) -> Iterator[Text]:
    """Comments by line number, joined if they are on successive lines."""
    block: list[str] = []
    for place, (line, comment) in enumerate(comments):
        block.append(comment.lstrip("# "))
        if place + 1 == len(comments) or comments[place + 1][0] != line + 1:
            yield Text(CODE.sub(_blank, "\n".join(block)), line + 1 - len(block))
            block = []


def _comments(text: str) -> Iterator[Text]:
    """Blocks of comments. Tokenizes only if the text behind a ``#`` has a wording of the table."""
    lines = enumerate(text.splitlines(), 1)
    perhaps = [(number, line.partition("#")[2]) for number, line in lines if "#" in line]
    if not any(ANY.search(_flat(block.words)[0]) for block in _blocks(perhaps)):
        return
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [token for token in tokens if token.type == tokenize.COMMENT]
    yield from _blocks([(token.start[0], token.string) for token in comments])


def _docstrings(text: str) -> Iterator[Text]:
    """Strings that are statements: docstrings of modules, classes, functions and attributes."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            words = node.value.value
            if isinstance(words, str):
                yield Text(CODE.sub(_blank, words), node.lineno)


def _strings(text: str) -> Iterator[Text]:
    """Docstrings and messages; in f-strings ``{}`` for each value."""
    parts: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.JoinedStr):
            parts.update(id(part) for part in ast.walk(node) if isinstance(part, ast.Constant))
            words = "".join(
                str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words = "" if id(node) in parts else node.value
        else:
            continue
        if " " in words:
            yield Text(CODE.sub(_blank, words), node.lineno)


def texts(path: Path, *, is_test: bool = False) -> Iterator[Text]:
    """The prose of a file; of a test without its strings, which may quote what others wrote."""
    text = path.read_text(encoding="utf-8")
    match path.suffix:
        case ".py":
            yield from _comments(text)
            yield from _docstrings(text) if is_test else _strings(text)
        case ".md":
            yield from _markdown(text)
        case _:
            yield Text(re.sub(r"^ *# ?", "", text, flags=re.MULTILINE), 1)


def _flat(text: str) -> tuple[str, list[int]]:
    """The text with single spaces, and where its lines begin in it."""
    pieces: list[str] = []
    lines = [0]
    end = length = 0
    for space in SPACE.finditer(text):
        breaks = space.group().count("\n")
        starts = breaks > 1 or (breaks and NEW_PARAGRAPH.match(text, space.end()))
        pieces += [text[end : space.start()], "\n" if starts else " "]
        length += space.start() - end + 1
        lines += [length] * breaks
        end = space.end()
    return "".join([*pieces, text[end:]]), lines


def stumbles(text: Text) -> Iterator[Stumble]:
    """The wordings of a text that the table has."""
    words, lines = _flat(text.words)
    for match in ANY.finditer(words):
        start, end = match.span()
        plain = next(form for pattern, form in FORMS if pattern.match(words, start))
        line = text.line + bisect_right(lines, start) - 1
        near = words[max(start - NEAR, 0) : end + NEAR]
        yield Stumble(line, match.group().strip(), near, plain)


def test_words_are_plain() -> None:
    found: list[str] = []
    needed: set[tuple[str, str]] = set()
    for path in sorted({path for pattern in SCANNED for path in ROOT.glob(pattern)}):
        place = path.relative_to(ROOT).as_posix()
        reasons = {key for key in ALLOWED if key[0] == place}
        for text in texts(path, is_test=place.startswith("tests/")):
            for stumble in stumbles(text):
                allowed = {key for key in reasons if key[1] in stumble.near}
                needed |= allowed
                if not allowed:
                    found.append(
                        f"{place}:{stumble.line}: {stumble.wording!r}, write: {stumble.plain}"
                    )
    assert not found, "\n".join(found)
    assert needed == set(ALLOWED), "an exception that nothing needs"


BAD = (
    "a restart would not mend it",
    "the log is read anew",
    "whoever leads writes it",
    "Starts. Who has not read the log does not lead.",
    "the client is told so",
    "explain tells why",
    "the oldest makes way",
    "nobody waits for it",
    "the database was away for a minute",
    "leave it away",
    "Where the file is missing, the default holds",
    "None where there is none",
    "empty where it is not known",
    "it stops to lead",
    "default/web is on n1 since {}",
    "'x' is no port",
    "all but the last",
    "the same, but for its name",
    "what becomes of it",
    "it counts no more.",
    "not any more",
    "kept for ever",
    "the call is made again",
    "the step is taken back",
    "likewise",
    "Nobody knows",
    "what the log says of it",
    "evicted in vain",
    "waits for so many seconds",
    "the reason stands in the log",
    "one row a batch",
)
GOOD = (
    "whether it is on n1; it has been on n1 since {}",
    "pods rounded away from zero",
    "there is no port; it is no longer there",
    "Where a pod runs. Where the log is: a URL",
    "why a pod is where it is, or nowhere",
    "no more than five; one of them",
    "everything stays, but nothing moves",
    "a replica stands by; 0 stands for 1",
    "as many as there are; so long as it runs",
    "Who wrote when",
    "`nobody` and ``anew`` are code",
)


@pytest.mark.parametrize("words", BAD)
def test_a_wording_that_readers_stumble_over_is_found(words: str) -> None:
    assert [stumble.line for stumble in stumbles(Text(f"First.\n{words}", 3))] == [4]


def test_each_pattern_has_an_example() -> None:
    examples = [f"First.\n{words}" for words in BAD]
    unused = [pattern.pattern for pattern, _ in FORMS if not any(map(pattern.search, examples))]
    assert not unused


@pytest.mark.parametrize("words", GOOD)
def test_plain_words_are_left_alone(words: str) -> None:
    assert not list(stumbles(next(_markdown(words))))


def test_code_is_not_read(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""A docstring\n\nthat is told."""\n'
        "told = nobody = anew('nobody')\n"
        "# a comment\n# of whoever\n"
        "f'{told} is no {anew}'\n"
    )
    found = [stumble.line for text in texts(module) for stumble in stumbles(text)]
    assert sorted(found) == [3, 6, 7]
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n```console\n$ nobody\n```\n\nText of\nsomebody, `anew`.\n")
    assert [stumble.line for text in texts(page) for stumble in stumbles(text)] == [8]
