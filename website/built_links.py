"""Checks a built site: links lead to files and fragments that it has, and pages load nothing from
another host."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[tuple[str, str]] = []
        self.fragments: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.fragments.update(filter(None, (values.get("id"), values.get("name"))))
        target = values.get(_LOADED.get(tag, "href"))
        if target and values.get("rel") not in {"canonical", "preconnect"}:
            self.links.append((tag, target))


def problems(site: Path) -> list[str]:
    """One line for each broken link, and for each thing that comes from another host."""
    pages = {
        path: _Page(path.read_text("utf-8"))
        for path in sorted(site.rglob("*.html"))
        if path.name != "404.html"  # its links are absolute
    }
    return [
        f"{path.relative_to(site)}: {target}: {wrong}"
        for path, page in pages.items()
        for tag, target in page.links
        if (wrong := _problem(site, pages, path, tag, target))
    ]


def _problem(site: Path, pages: dict[Path, _Page], path: Path, tag: str, target: str) -> str:
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return "loaded from another host" if tag in _LOADED and parts.scheme != "data" else ""
    led = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if led.is_dir():
        led /= "index.html"
    if not led.is_file() or site.resolve() not in led.parents:
        return "no such file"
    fragment = unquote(parts.fragment)
    if fragment and led in pages and fragment not in pages[led].fragments:
        return "no such heading"
    return ""
