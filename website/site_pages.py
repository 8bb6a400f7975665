"""Which file of the repository is which page of the site, and links between them.

Pages of docs/ keep their paths. The README and its neighbours are below ``project/``. Any other
file that a page links to, such as a module or a test's README, is shown below ``source/``, so the
site has no link that leaves it except to other hosts."""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

DOCS = "docs"
PROJECT = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
_FENCE = r"^(?P<indent> *)(?P<fence>```|~~~).*?^(?P=indent)(?P=fence)[ \t]*$"
_CODE = r"(?<!`)`[^`\n]+`(?!`)(?!\])"
_LINK = r"(?P<text>\]\()\s*(?P<target>[^)>\s]+)(?P<rest>(?:\s+\"[^\"]*\")?\s*\))"
_IMAGE = r"(?P<tag><(?:img|source)\b[^>]*?\bsrc(?:set)?=\")(?P<source>[^\"]+)"
_TOKENS = re.compile(f"{_FENCE}|{_LINK}|{_IMAGE}|{_CODE}", re.DOTALL | re.MULTILINE)
IMAGES = (".png", ".svg", ".jpg")
_EXTERNAL = re.compile(r"[a-z][a-z0-9+.-]*:|#")
_ITEM = re.compile(r"^( *)([-*]|\d+\.) ")


def page_of(path: str) -> str:
    """The path on the site of a file or folder of the repository, by its path in there."""
    if path.startswith(f"{DOCS}/"):
        return path.removeprefix(f"{DOCS}/")
    if path in PROJECT:
        return f"project/{path}"
    if path.endswith(IMAGES):
        return f"source/{path}"
    return f"source/{path}" if path.endswith(".md") else f"source/{path.rstrip('/')}.md"


def targets(text: str, path: str) -> Iterator[str]:
    """The files and folders of the repository that the page at ``path`` links to."""
    for found in _TOKENS.finditer(text):
        target = found["target"] or found["source"]
        if target and not _EXTERNAL.match(target):
            yield _led(path, target.partition("#")[0])


def rewritten(text: str, path: str) -> str:
    """The page with links to pages of the site."""
    here = posixpath.dirname(page_of(path))

    def link(found: re.Match[str]) -> str:
        target = found["target"] or found["source"]
        if not target or _EXTERNAL.match(target):
            return found[0]
        file, hash_, fragment = target.partition("#")
        led = posixpath.relpath(page_of(_led(path, file)), here or ".")
        before, after = found["text"] or found["tag"], found["rest"] or ""
        return f"{before}{led}{hash_}{fragment}{after}"

    return _TOKENS.sub(link, text)


def _led(path: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def further_pages(root: Path) -> dict[str, str]:
    """Path in the repository → Markdown, of the pages that are not in docs/: those of the project,
    and all that is linked to. Links in them are not rewritten yet. An image has no text."""
    found: dict[str, str] = {}
    paths = [*PROJECT, *(page.relative_to(root).as_posix() for page in (root / DOCS).rglob("*.md"))]
    while paths:
        path = paths.pop()
        if path in found:
            continue
        in_docs = path.startswith(f"{DOCS}/")
        text = (root / path).read_text("utf-8") if path.endswith(".md") else shown(root, path)
        found[path] = text
        if not in_docs or path.endswith(".md"):
            paths += [each for each in targets(text, path) if _is_further(root, each)]
    return {path: text for path, text in found.items() if not path.startswith(f"{DOCS}/")}


def _is_further(root: Path, path: str) -> bool:
    return (root / path).exists() and not path.startswith(f"{DOCS}/") and path != DOCS


def shown(root: Path, path: str) -> str:
    """A page that shows a file, or lists the files of a folder; none for an image."""
    place = root / path
    if path.endswith(IMAGES):
        return ""
    if place.is_dir():
        files = sorted(each.name for each in place.iterdir() if each.is_file())
        return f"# {path}\n\n" + "".join(f"- `{name}`\n" for name in files)
    language = place.suffix.lstrip(".") or "text"
    return f"# {path}\n\n````{language}\n{place.read_text('utf-8').rstrip()}\n````\n"


def navigation(index: str) -> dict[str, list[str]]:
    """Heading → pages, by the tables of docs/README.md: tutorials, how-to guides and so on. A page
    that is listed twice stands at the first place."""
    kinds: dict[str, list[str]] = {}
    seen: set[str] = set()
    for section in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        heading, _, body = section.partition("\n")
        pages = [page_of(path) for path in targets(body, f"{DOCS}/README.md")]
        kinds[heading.partition(":")[0]] = [
            page for page in dict.fromkeys(pages) if page not in seen
        ]
        seen.update(pages)
    return kinds


def for_python_markdown(text: str) -> str:
    """The page for Python-Markdown, which wants an empty line before a list, and four spaces
    before what belongs to an item; GitHub wants neither."""
    lines: list[str] = []
    fence, shift, in_list = "", "", False
    for line in text.splitlines():
        if fence or line.lstrip().startswith(("```", "~~~")):
            if not fence:
                mark = line.strip()
                fence = mark[: len(mark) - len(mark.lstrip("`~"))]
                shift = " " * (len(_indented(line)) - len(line)) if in_list else ""
            elif line.strip() == fence:
                fence = ""
            lines.append(f"{shift}{line}" if line else "")
            continue
        item = _ITEM.match(line)
        after_text = bool(lines) and bool(lines[-1].strip())
        if item and (in_list or not item[1]):
            if not in_list and after_text:
                lines.append("")
            in_list = True
        elif line.strip() and not line.startswith(" ") and not after_text:
            in_list = False
        lines.append(_indented(line) if in_list else line)
    return "\n".join(lines) + "\n"


def _indented(line: str) -> str:
    """A line of a list: each level of two or three spaces becomes one of four."""
    text = line.lstrip(" ")
    return "    " * round((len(line) - len(text)) / 2.5) + text
