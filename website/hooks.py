"""What MkDocs calls while it builds (mkdocs.yml): more pages, the navigation, and links."""

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from website import generated_pages, site_pages

ROOT = Path(__file__).resolve().parents[1]
_STYLE_SHEET = "assets/words.css"
_STYLES = """\
.md-typeset td:first-child code { overflow-wrap: normal; word-break: normal; }
"""
"""Names of options and commands stay whole in the first column of a table."""
_repository_paths: dict[str, str] = {}
"""Page of the site → file of the repository, of pages whose links are rewritten."""


def on_config(config: Any) -> Any:
    """The navigation by kind, as docs/README.md lists the pages."""
    kinds: dict[str, list[Any]] = {
        kind: [_with_folder(page) for page in pages]
        for kind, pages in site_pages.navigation(_text("docs/README.md")).items()
    }
    kinds["Reference"] += [
        {"Commands": [*generated_pages.command_pages()]},
        {"Plugin API": [*generated_pages.api_pages()]},
    ]
    kinds["Project"] = [site_pages.page_of(path) for path in site_pages.PROJECT[1:]]
    config["extra_css"].append(_STYLE_SHEET)
    config["nav"] = [{"Home": "README.md"}, *({kind: pages} for kind, pages in kinds.items())]
    return config


def _with_folder(page: str) -> Any:
    """A page, and after the index of a folder the pages of that folder."""
    folder = (ROOT / "docs" / page).parent
    if not page.endswith("/README.md") or page.startswith("project/"):
        return page
    heading = _text(f"docs/{page}").partition("\n")[0].lstrip("# ")
    others = sorted(each.name for each in folder.glob("*.md") if each.name != "README.md")
    return {heading: [page, *(f"{folder.name}/{name}" for name in others)]}


def _text(path: str) -> str:
    return (ROOT / path).read_text("utf-8")


def on_files(files: Files, config: Any) -> Files:
    """All pages that are not in docs/."""
    pages = {**generated_pages.command_pages(), **generated_pages.api_pages()}
    for path, text in site_pages.further_pages(ROOT).items():
        if path.endswith(site_pages.IMAGES):
            image = str(ROOT / path)
            files.append(File.generated(config, site_pages.page_of(path), abs_src_path=image))
            continue
        pages[site_pages.page_of(path)] = text
        _repository_paths[site_pages.page_of(path)] = path
    files.append(File.generated(config, _STYLE_SHEET, content=_STYLES))
    for page, text in pages.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links to files of the repository become links to their pages."""
    uri = page.file.src_uri
    path = _repository_paths.get(uri)
    if path is None and (ROOT / "docs" / uri).is_file():
        path = f"docs/{uri}"
    if path is not None:
        markdown = site_pages.rewritten(markdown, path)
    return site_pages.for_python_markdown(markdown)
