"""Pages made of the code: the commands, by their parser, and what plugin authors import, by its
docstrings (mkdocstrings fills these in)."""

from collections.abc import Iterator

from eventsched.cli.main import every_command
from eventsched.cli.manual.command_pages import CommandOption, CommandPage, pages_of
from eventsched.kubectl_plugin.plugin_commands import parser as kubectl_plugin

API = {
    "framework": ("The framework: what plugins are given and may answer", (
        "eventsched.scheduling.framework.plugin",
        "eventsched.scheduling.framework.extension_points",
        "eventsched.scheduling.framework.cycle_context",
        "eventsched.scheduling.framework.cluster_events",
        "eventsched.scheduling.framework.wait_results",
    )),
    "nodes": ("Columns of nodes", ("eventsched.domain.nodes.node_views",)),
    "objects": ("Pods and nodes", (
        "eventsched.domain.objects.pod", "eventsched.domain.objects.node",
    )),
    "testing": ("Tools for tests of plugins", (
        "eventsched.testing", "eventsched.testing.answers", "eventsched.testing.engines",
        "eventsched.testing.objects", "eventsched.testing.placements",
    )),
}  # fmt: skip
"""Page → its title and the modules on it."""


def api_pages() -> dict[str, str]:
    """Path on the site → Markdown, with a directive of mkdocstrings for each module."""
    return {
        f"api/{name}.md": f"# {title}\n\n" + "".join(f"::: {module}\n\n" for module in modules)
        for name, (title, modules) in API.items()
    }


def command_pages() -> dict[str, str]:
    """Path on the site → Markdown: a list of commands, and a page for each; one for all commands of
    ``kubectl eventsched``."""
    top = pages_of(every_command())
    plugin = pages_of(
        kubectl_plugin(), "ask a running scheduler, with the rights of kubectl's user"
    )
    pages = {_file(page): page for page in top.below} | {"kubectl-eventsched.md": plugin}
    rows = [f"| [{page.name}]({file}) | {_cell(page.summary)} |\n" for file, page in pages.items()]
    listed = "# Commands\n\n| command | what it does |\n| --- | --- |\n" + "".join(rows)
    return {"commands/README.md": listed} | {
        f"commands/{file}": "".join(_written(page, 1)) for file, page in pages.items()
    }


def _written(page: CommandPage, level: int) -> Iterator[str]:
    yield f"{'#' * level} {page.name}\n\n{_text(page.description or page.summary)}\n\n"
    yield f"```text\n{page.synopsis}\n```\n\n"
    for group in page.groups:
        yield f"**{_text(group.title)}**\n\n| name | meaning |\n| --- | --- |\n"
        yield "".join(f"| {_names(option)} | {_cell(option.text)} |\n" for option in group.options)
        yield "\n"
    for below in page.below:
        yield from _written(below, level + 1)


def _names(option: CommandOption) -> str:
    names = ", ".join(f"`{name}`" for name in option.names)
    value = option.value.replace("|", "/").replace(",", ", ")  # so that lines can end there
    return f"{names} `{value}`" if value else names


def _file(page: CommandPage) -> str:
    return f"{page.name.split()[-1]}.md"


def _text(text: str) -> str:
    """Plain text as Markdown."""
    for mark in "\\`*_<>[]":
        text = text.replace(mark, {"<": "&lt;", ">": "&gt;"}.get(mark, f"\\{mark}"))
    return text


def _cell(text: str) -> str:
    return _text(text).replace("|", "\\|")
