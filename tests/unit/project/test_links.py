"""Relative links in the documentation lead to files, and fragments lead to headings."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import ROOT

PATTERNS = ("*.md", "docs/**/*.md", "examples/**/*.md", "deploy/**/*.md", "tests/**/*.md")
PAGES = sorted({page for pattern in PATTERNS for page in ROOT.glob(pattern)})
LINK = re.compile(r"\[[^\]]*\]\(\s*<?([^)>\s]+)>?(?:\s+\"[^\"]*\")?\s*\)")
"""An inline link, which is all that these pages use."""
FENCE = re.compile(r"^( *)(```|~~~).*?^\1\2\s*$", re.DOTALL | re.MULTILINE)
EXTERNAL = re.compile(r"[a-z][a-z0-9+.-]*:")


CODE = re.compile(r"`[^`\n]*\]\([^`\n]*`")
"""Inline code that looks like a link; code in a link's text does not match."""


def prose(page: Path) -> str:
    """A page's text without code that could be taken for headings or links."""
    return CODE.sub("", FENCE.sub("", page.read_text(encoding="utf-8")))


def links(page: Path) -> Iterator[str]:
    for target in LINK.findall(prose(page)):
        if not EXTERNAL.match(target):
            yield target


def anchors(page: Path) -> set[str]:
    """The fragments of a page's headings, as GitHub makes them."""
    counts: dict[str, int] = {}
    made = set()
    for heading in re.findall(r"^#{1,6} +(.*?)(?: +#+)?$", prose(page), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        number = counts.get(slug, 0)
        counts[slug] = number + 1
        made.add(f"{slug}-{number}" if number else slug)
    return made


def problem(page: Path, target: str) -> str:
    """What is wrong with a link; empty if nothing is."""
    path, _, fragment = target.partition("#")
    led = (page.parent / path).resolve() if path else page
    if not led.exists():
        return f"{target}: no such file"
    if ROOT not in (led, *led.parents):
        return f"{target}: outside of the repository"
    if fragment and led.suffix == ".md" and fragment not in anchors(led):
        return f"{target}: no such heading"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    assert not [wrong for target in links(page) if (wrong := problem(page, target))]


def test_the_index_lists_every_page() -> None:
    """Pages of docs, and of its folders either each page or the folder's own index."""
    docs = ROOT / "docs"
    listed = {(docs / target.partition("#")[0]).resolve() for target in links(docs / "README.md")}
    missing = [
        page.relative_to(ROOT).as_posix()
        for page in docs.rglob("*.md")
        if page != docs / "README.md"
        and not {page, page.parent, page.parent / "README.md"} & listed
    ]
    assert not missing


def test_how_to_guides_are_short() -> None:
    """And a test runs each."""
    tests = "".join(page.read_text() for page in ROOT.glob("tests/*/test_how_to*.py"))
    for page in (ROOT / "docs" / "how-to").glob("*.md"):
        assert len(page.read_text().splitlines()) <= 120, page.name
        assert f'"how-to/{page.name}"' in tests, page.name


@pytest.mark.parametrize("page", ["architecture.md", "glossary.md"])
def test_named_modules_exist(page: str) -> None:
    """Paths of code that these pages name, from the root or from the package."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:[\w.-]+/)+[\w-]+\.(?:py|sql|md|jsonl))`", text))
    assert len(named) > 20
    roots = (ROOT, ROOT / "eventsched")
    assert not [name for name in named if not any((root / name).is_file() for root in roots)]


@pytest.mark.parametrize(
    ("target", "wrong"),
    [
        ("other.md", ""),
        ("other.md#two-words-and-code", ""),
        ("#here", ""),
        ("gone.md", "gone.md: no such file"),
        ("other.md#gone", "other.md#gone: no such heading"),
    ],
)
def test_a_broken_link_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, wrong: str
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    (tmp_path / "other.md").write_text("# Two words, and `code`\n")
    page = tmp_path / "page.md"
    page.write_text(f"# Here\n\n[text]({target}) and `[code](nowhere.md)`\n")
    assert problem(page, next(links(page))) == wrong
