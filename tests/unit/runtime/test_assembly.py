"""How plugins are found and profiles made."""

from importlib.metadata import entry_points
from pathlib import Path

import pytest

from eventsched.domain.errors import InputError
from eventsched.plugins import IN_TREE
from eventsched.plugins.gallery import GALLERY
from eventsched.runtime import assembly
from eventsched.scheduling.config import configuration

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
        (
            "x = 1\nimport nothing_of_that_name\n",
            "does not import: line 2: ModuleNotFoundError: No module named 'nothing_of_that_name'",
        ),
        ("class A(:\n", r"does not import: SyntaxError: invalid syntax \(\w+.py, line 1\)"),
        ("raise ValueError('a\\nb')\n", "does not import: line 1: ValueError: a b; fix the file"),
        ("import sys\nsys.exit(3)\n", "does not import: line 2: SystemExit: 3; fix the file"),
        ("x = 1\n", "holds no plugin"),
        (
            "class A:\n    name = 'A'\n    def fliter_node(self, pod, node): ...\n",
            "holds no plugin",
        ),
        (GOOD.replace("'Mine'", "'NodeName'"), "exists already"),
    ],
)
def test_a_file_without_a_usable_plugin_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        assembly.registry([written(tmp_path, text)])


def test_a_missing_plugin_file(tmp_path: Path) -> None:
    """Or is something else."""
    for path, said in ((tmp_path / "a.py", "is not there"), (tmp_path, "is not a Python file")):
        with pytest.raises(InputError, match=f"{path}: {said}; name a .py file"):
            assembly.registry([path])


def test_a_plugin_whose_constructor_fails_is_refused(tmp_path: Path) -> None:
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
    assert set(first.sources) == set(IN_TREE) - {plugin.name for plugin in GALLERY}


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
    monkeypatch.setattr(assembly, "_installed", lambda: (_EntryPoint(mine),))
    assert assembly.registry()["Mine"] is mine
    broken = _EntryPoint(RuntimeError("no such library"))
    monkeypatch.setattr(assembly, "_installed", lambda: (broken,))
    with pytest.raises(InputError, match=r"entry point Mine = somewhere:Mine: does not import"):
        assembly.registry()


def test_our_own_entry_points_are_the_in_tree_plugins() -> None:
    ours = [
        each for each in entry_points(group=assembly.ENTRY_POINTS) if "eventsched" in each.value
    ]
    assert all(each.load() is IN_TREE[each.name] for each in ours)


HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def assemble_loaded(tmp_path: Path, text: str, known: dict[str, type]) -> assembly.Assembly:
    """What a configuration amounts to with these plugins."""
    loaded = configuration.load(HEAD + text, "config.yaml")
    return assembly.assemble_loaded(loaded, "config.yaml", known)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("{name: Nobody, args: {x: 1}}", "pluginConfig of Nobody has no effect: there is no such"),
        ("{name: NodeName, args: {x: 1}}", "NodeName has no effect: the plugin takes no arguments"),
        ("{name: ImageLocality}", None),
        ("{name: NodeName, args: {}}", None),
    ],
)
def test_arguments_without_effect_are_warned_about(
    tmp_path: Path, config: str, words: str | None
) -> None:
    text = f"profiles: [{{pluginConfig: [{config}]}}]\n"
    warnings = assemble_loaded(tmp_path, text, IN_TREE).warnings
    assert not warnings if words is None else words in warnings[0]


def test_arguments_of_a_missing_plugin_are_still_checked(tmp_path: Path) -> None:
    known = {name: plugin for name, plugin in IN_TREE.items() if name != "InterPodAffinity"}
    good = (
        "profiles: [{pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 5}}]}]"
    )
    [warning] = assemble_loaded(tmp_path, good, known).warnings
    assert warning.endswith("has no effect: this version does not have the plugin")
    with pytest.raises(InputError, match=r"args\.hardPodAffinityWeight: 101 is out of range"):
        assemble_loaded(tmp_path, good.replace("5", "101"), known)


def test_a_default_that_is_missing_is_left_out_but_cannot_be_enabled_by_name(
    tmp_path: Path,
) -> None:
    known = {name: plugin for name, plugin in IN_TREE.items() if name != "ImageLocality"}
    profile = assemble_loaded(tmp_path, "", known).profiles["default-scheduler"]
    assert "ImageLocality" not in {plugin.name for plugin in profile.points["score"]}
    text = "profiles: [{plugins: {score: {enabled: [{name: ImageLocality}]}}}]"
    with pytest.raises(InputError, match=r"enabled\[0\]\.name: plugin ImageLocality is not avail"):
        assemble_loaded(tmp_path, text, known)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("percentageOfNodesToScore: 30\n", 30),
        ("percentageOfNodesToScore: 30\nprofiles: [{percentageOfNodesToScore: 0}]\n", 0),
        ("percentageOfNodesToScore: 30\nprofiles: [{percentageOfNodesToScore: 70}]\n", 70),
    ],
)
def test_a_profiles_percentage_of_nodes_overrides_the_global_one(
    tmp_path: Path, text: str, expected: int
) -> None:
    profiles = assemble_loaded(tmp_path, text, IN_TREE).profiles
    assert profiles["default-scheduler"].percentage == expected


def test_missing_nodes_that_plugins_name(tmp_path: Path) -> None:
    """Each once, whichever profiles have them."""
    named = "score: {enabled: [{name: FixedNode}, {name: tonodename-scoring-plugin}]}"
    args = "pluginConfig: [{name: FixedNode, args: {nodeName: %s}}]"
    profile = f"{{schedulerName: %s, plugins: {{{named}}}, {args}}}"
    several = ", ".join(profile % each for each in (("a", "n1"), ("b", "n2"), ("c", "n2")))
    found = assemble_loaded(tmp_path, f"profiles: [{several}]", IN_TREE)
    assert found.unknown_nodes({"n1"}) == [
        ("tonodename-scoring-plugin", "piworknode001"),
        ("FixedNode", "n2"),
    ]
    assert found.unknown_nodes({"n1", "n2", "piworknode001"}) == []
