"""How plugins are found and profiles made."""

from pathlib import Path

import pytest

from eventsched.domain.errors import InputError
from eventsched.plugins import IN_TREE
from eventsched.runtime import assembly

GOOD = "class Mine:\n    name = 'Mine'\n    def score_node(self, pod, node):\n        return 1\n"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(text)
    return path


def test_the_registry_has_the_in_tree_plugins_and_those_of_files(tmp_path: Path) -> None:
    known = assembly.registry([written(tmp_path, GOOD)])
    assert set(known) == {*IN_TREE, "Mine"}


def test_a_file_may_import_a_plugin_without_registering_it_again(tmp_path: Path) -> None:
    imports = "from eventsched.plugins.node_name import NodeName\n"
    assert "Mine" in assembly.registry([written(tmp_path, imports + GOOD)])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import nothing_of_that_name\n", "does not import"),
        ("x = 1\n", "holds no plugin"),
        (
            "class A:\n    name = 'A'\n    def fliter_node(self, pod, node): ...\n",
            "holds no plugin",
        ),
        (GOOD.replace("'Mine'", "'NodeName'"), "exists already"),
    ],
)
def test_a_file_that_is_no_plugin_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        assembly.registry([written(tmp_path, text)])


def test_a_plugin_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    plugin = written(tmp_path, GOOD + "    def __init__(self, needed): ...\n")
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {score: {enabled: [{name: Mine}]}}}]\n"
    )
    with pytest.raises(InputError, match=r"plugin Mine: cannot be made"):
        assembly.assemble(config, [plugin])


def test_the_digest_is_that_of_the_configuration_and_sources_cover_each_plugin() -> None:
    first, second = assembly.assemble(), assembly.assemble()
    assert first.digest == second.digest
    assert set(first.sources) == set(IN_TREE) - {"FirstScheduledNode"}
