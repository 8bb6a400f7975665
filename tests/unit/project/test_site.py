"""The documentation site (website/): which pages it has, their links, and the check of what MkDocs
has built. ``make site`` builds it."""

from pathlib import Path

import pytest

from eventsched.cli.main import COMMANDS
from tests.databases import ROOT
from website import build
from website.built_links import problems
from website.generated_pages import API, api_pages, command_pages
from website.site_pages import (
    for_python_markdown,
    further_pages,
    navigation,
    page_of,
    rewritten,
    targets,
)


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("docs/run.md", "run.md"),
        ("docs/how-to/README.md", "how-to/README.md"),
        ("README.md", "project/README.md"),
        ("tests/kubelet/README.md", "source/tests/kubelet/README.md"),
        ("eventsched/entry.py", "source/eventsched/entry.py.md"),
        ("eventsched/domain", "source/eventsched/domain.md"),
        ("examples/picture.png", "source/examples/picture.png"),
    ],
)
def test_every_file_has_one_place(path: str, page: str) -> None:
    assert page_of(path) == page


def test_links_lead_to_pages_of_the_site() -> None:
    """Those of other hosts, headings of the page, code and fences stay."""
    text = (
        "[a](run.md#x) [b](../README.md) [c](../eventsched/entry.py) [d](https://example.com) "
        '[e](#here) `[f](g.md)` [`h`](how-to/i.md "title")\n```\n[j](k.md)\n```\n'
    )
    assert rewritten(text, "docs/sql.md") == (
        "[a](run.md#x) [b](project/README.md) [c](source/eventsched/entry.py.md) "
        '[d](https://example.com) [e](#here) `[f](g.md)` [`h`](how-to/i.md "title")\n'
        "```\n[j](k.md)\n```\n"
    )
    assert rewritten("[a](docs/run.md)", "README.md") == "[a](../run.md)"
    image = '<img width="600" src="{}"> ![b]({})'
    assert rewritten(image.format("docs/a.png", "docs/b.svg"), "README.md") == (
        image.format("../a.png", "../b.svg")
    )
    assert list(targets(text, "docs/sql.md")) == [
        "docs/run.md", "README.md", "eventsched/entry.py", "docs/how-to/i.md",
    ]  # fmt: skip


def test_pages_outside_of_docs_are_those_that_are_linked_to() -> None:
    pages = further_pages(ROOT)
    assert {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"} <= pages.keys()
    assert pages["eventsched/scheduling/framework/plugin.py"].startswith(
        "# eventsched/scheduling/framework/plugin.py\n\n````py\n"
    )
    assert "- `pod.py`" in pages["eventsched/domain/objects"]
    for path, text in pages.items():
        linked = {path for path in targets(text, path) if not path.startswith("docs")}
        assert linked <= pages.keys(), path


def test_the_navigation_is_that_of_the_index() -> None:
    kinds = navigation((ROOT / "docs/README.md").read_text())
    assert list(kinds) == ["Tutorials", "How-to guides", "Reference", "Explanation"]
    assert {"project/README.md", "tutorial.md"} <= set(kinds["Tutorials"])
    assert {"sql.md", "how-to/ask-the-past.md"} <= set(kinds["How-to guides"])
    assert {"log-format.md", "plugins/README.md"} <= set(kinds["Reference"])
    assert {"architecture.md", "adr/README.md"} <= set(kinds["Explanation"])
    pages = [page for kind in kinds.values() for page in kind]
    assert len(pages) == len(set(pages))


@pytest.mark.parametrize(
    ("github", "python"),
    [
        ("text:\n- a\n- b\n", "text:\n\n- a\n- b\n"),
        ("- a\n  more\n  - b\n    of b\n", "- a\n    more\n    - b\n        of b\n"),
        ("1. a\n   more\n\n   more\n\nend\n", "1. a\n    more\n\n    more\n\nend\n"),
        ("text\n\n    code\n", "text\n\n    code\n"),
        ("- a\n\ntext\n\n    code\n", "- a\n\ntext\n\n    code\n"),
        ("```\na\n- b\n  c\n```\n", "```\na\n- b\n  c\n```\n"),
        ("- a\n\n  ```\n  b:\n    c\n  ```\n", "- a\n\n    ```\n    b:\n      c\n    ```\n"),
    ],
)
def test_lists_are_written_as_python_markdown_reads_them(github: str, python: str) -> None:
    assert for_python_markdown(github) == python


def test_every_command_and_every_module_of_the_api_is_there() -> None:
    pages = command_pages()
    assert pages.keys() == {
        f"commands/{name}.md" for name in ("README", *COMMANDS, "kubectl-eventsched")
    }
    assert "| `--why-not` `NODE` | a change of the pod or" in pages["commands/explain.md"]
    assert "## eventsched db upgrade\n" in pages["commands/db.md"]
    assert "| `-o` `{table, wide, json, yaml}` |" in pages["commands/explain.md"]
    plugin = pages["commands/kubectl-eventsched.md"]
    for name in ("explain", "why-not", "queue", "try", "log"):
        assert f"## kubectl eventsched {name}\n" in plugin
    assert [page.count("::: ") for page in api_pages().values()] == [
        len(modules) for _, modules in API.values()
    ]
    for _, modules in API.values():
        for module in modules:
            place = ROOT / module.replace(".", "/")
            assert place.with_suffix(".py").is_file() or (place / "__init__.py").is_file(), module


def test_broken_links_and_other_hosts_are_found(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "index.html").write_text(
        '<h1 id="there">x</h1><script src="../x.js"></script>'
    )
    (tmp_path / "x.js").write_text("")
    (tmp_path / "index.html").write_text(
        '<a href="a/">1</a><a href="a/index.html#there">2</a><a href="https://example.com">3</a>'
        '<a href="gone.html">4</a><a href="a/index.html#gone">5</a><a href="../up.html">6</a>'
        '<script src="https://example.com/y.js"></script><img src="data:image/png;base64,AA==">'
        '<link rel="stylesheet" href="//fonts.example.com/z.css">'
    )
    assert problems(tmp_path) == [
        "index.html: gone.html: no such file",
        "index.html: a/index.html#gone: no such heading",
        "index.html: ../up.html: no such file",
        "index.html: https://example.com/y.js: loaded from another host",
        "index.html: //fonts.example.com/z.css: loaded from another host",
    ]


def test_the_versions_that_are_there_are_listed_newest_first(tmp_path: Path) -> None:
    for version in ("0.9.0", "0.10.0"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "index.html").write_text("")
    (tmp_path / "unfinished").mkdir()
    build.list_versions(tmp_path)
    assert (tmp_path / "versions.json").read_text() == (
        '[{"version": "0.10.0", "title": "0.10.0", "aliases": []}, '
        '{"version": "0.9.0", "title": "0.9.0", "aliases": []}]'
    )
    assert "url=0.10.0/index.html" in (tmp_path / "index.html").read_text()
