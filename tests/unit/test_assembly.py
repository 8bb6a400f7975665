"""How plugins are found and profiles made."""

import json
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from eventsched.domain.errors import InputError
from eventsched.plugins import IN_TREE
from eventsched.runtime import assembly
from eventsched.scheduling import configuration, resolution

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


class _EntryPoint:
    """What importlib.metadata gives for an installed package."""

    name, value = "Mine", "somewhere:Mine"

    def __init__(self, plugin: object) -> None:
        self._plugin = plugin

    def load(self) -> object:
        if isinstance(self._plugin, Exception):
            raise self._plugin
        return self._plugin


def test_plugins_are_found_through_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = type("Mine", (), {"name": "Mine", "score_node": lambda self, pod, node: 1})
    monkeypatch.setattr(assembly, "entry_points", lambda group: [_EntryPoint(mine)])
    assert assembly.registry()["Mine"] is mine
    broken = _EntryPoint(RuntimeError("no such library"))
    monkeypatch.setattr(assembly, "entry_points", lambda group: [broken])
    with pytest.raises(InputError, match=r"entry point Mine = somewhere:Mine: does not import"):
        assembly.registry()


def test_our_own_entry_points_are_the_in_tree_plugins() -> None:
    ours = [
        each for each in entry_points(group=assembly.ENTRY_POINTS) if "eventsched" in each.value
    ]
    assert all(each.load() is IN_TREE[each.name] for each in ours)


READ_ON_PURPOSE = {"v1beta2", "v1beta3"}
WRONG_ARGUMENTS_OF_PLUGINS_TO_COME = {
    "args-unknown-field",
    "args-hard-101",
    "args-spread-system-with-list",
    "args-spread-selector",
    "args-preemption-101",
    "args-volumebinding-neg",
}


def test_with_the_real_plugins_configurations_are_taken_as_upstream_takes_them() -> None:
    folder = Path(__file__).parent.parent / "conformance"
    lines = (folder / "configs-golden.jsonl").read_text().splitlines()
    golden = {each["id"]: each["accepted"] for each in map(json.loads, lines)}
    differ = set()
    for line in (folder / "configs.jsonl").read_text().splitlines():
        document = json.loads(line)
        try:
            loaded = configuration.load(document["config"], document["id"])
            resolution.resolve_all(loaded, IN_TREE, document["id"])
        except InputError:
            accepted = False
        else:
            accepted = True
        if accepted != golden[document["id"]]:
            differ.add(document["id"])
    assert len(golden) == 83
    assert differ == READ_ON_PURPOSE | WRONG_ARGUMENTS_OF_PLUGINS_TO_COME


def test_arguments_that_nobody_checks_are_warned_about(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{pluginConfig: [{name: InterPodAffinity, args: {x: 1}}]}]\n"
    )
    [warning] = assembly.assemble(config).warnings
    assert warning.startswith("pluginConfig of InterPodAffinity is not checked")
