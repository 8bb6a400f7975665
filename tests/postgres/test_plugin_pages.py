"""The pages of the gallery hold: their configurations load, their tables name all arguments, and
their SQL runs."""

import re
from collections.abc import Iterator

import msgspec
import psycopg
import pytest
import yaml

from eventsched.plugins import IN_TREE
from eventsched.plugins.gallery import GALLERY
from eventsched.runtime.assembly import assemble_loaded
from eventsched.scheduling.config import configuration
from tests.databases import ROOT, Server, migrate
from tests.postgres.histories import odd

PAGES = {path.stem: path.read_text() for path in sorted((ROOT / "docs/plugins").glob("*.md"))}
INDEX = PAGES.pop("README")
OTHER_NAMES = {"MyCustomPlugin", "Priority"}


def blocks(page: str, kind: str) -> list[str]:
    """The code blocks of a kind."""
    return re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL)


@pytest.fixture(scope="module")
def connection(one_server: Server) -> Iterator[psycopg.Connection]:
    """To a database with a history."""
    with one_server.fresh(migrate) as url:
        odd(url)
        options = "-c search_path=eventsched -c default_transaction_read_only=on"
        with psycopg.connect(url, options=options, autocommit=True) as found:
            yield found


def test_each_plugin_has_a_page_an_example_and_a_line() -> None:
    """And no other name has one."""
    names = {plugin.name for plugin in GALLERY} - OTHER_NAMES
    assert PAGES.keys() == names
    assert set(re.findall(r"\[([^]]+)\]\(\1\.md\)", INDEX)) == names
    examples = {path.parent.name for path in (ROOT / "examples").glob("*/config.yaml")}
    assert names <= examples
    assert all(name in INDEX for name in OTHER_NAMES)


@pytest.mark.parametrize("name", PAGES)
def test_the_configuration_loads(name: str) -> None:
    """Without a warning, and runs the plugin."""
    found = [text for text in blocks(PAGES[name], "yaml") if "KubeSchedulerConfiguration" in text]
    assert found
    for text in found:
        loaded = assemble_loaded(configuration.load(text, name), name, IN_TREE)
        assert name in loaded.sources
        assert loaded.warnings == ()


@pytest.mark.parametrize("name", PAGES)
def test_the_table_has_all_arguments(name: str) -> None:
    """Each in a row that begins with its name."""
    rows = re.findall(r"^\| `(\w+)` \|", PAGES[name], re.MULTILINE)
    kind = getattr(IN_TREE[name], "Args", None)
    fields = [] if kind is None else [each.encode_name for each in msgspec.structs.fields(kind)]
    assert rows == fields


@pytest.mark.parametrize("name", PAGES)
def test_the_sql_runs(name: str, connection: psycopg.Connection) -> None:
    """There is some, and the database takes it."""
    found = blocks(PAGES[name], "sql")
    assert found
    for statement in (each for text in found for each in text.split(";") if each.strip()):
        connection.execute(statement.encode())


@pytest.mark.parametrize("path", sorted((ROOT / "examples").rglob("*.yaml")), ids=str)
def test_the_examples_are_yaml(path: object) -> None:
    """Each document."""
    assert list(yaml.safe_load_all((ROOT / str(path)).read_text()))
