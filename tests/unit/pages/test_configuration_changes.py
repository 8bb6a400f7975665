"""The form of usual changes: what it makes of a configuration is what ``config check`` runs."""

import pytest
import yaml

from eventsched.pages.configuration_changes import PLAIN, changed_form
from eventsched.process.settings import check_text
from eventsched.runtime.assembly import registry
from eventsched.scheduling.config.checking import running_points
from tests.unit.runtime.what_if.histories import MOST_ALLOCATED

PLUGINS = registry([])
TWO = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: a
  plugins:
    multiPoint: {enabled: [{name: NodeResourcesFit, weight: 7}]}
    score: {disabled: [{name: ImageLocality}], enabled: [{name: NodeAffinity, weight: 9}]}
- schedulerName: b
"""


def points(text: str) -> list[dict[str, list[str]]]:
    """What runs with a sound configuration, by profile."""
    checked = check_text(text, "config.yaml", PLUGINS)
    assert checked.problems == ()
    return [running_points(profile) for profile in checked.profiles]


def changed(text: str, **fields: str) -> str:
    return changed_form({"configuration": text, **fields}, "")["configuration"]


@pytest.mark.parametrize("text", ["", PLAIN, MOST_ALLOCATED, TWO])
@pytest.mark.parametrize("plugin", ["NodeResourcesFit", "ImageLocality", "NodeAffinity"])
def test_a_weight_of_a_plugin(text: str, plugin: str) -> None:
    before = points(text or PLAIN)
    for profile, old in zip(points(changed(text, plugin=plugin, weight="5")), before, strict=True):
        others = {each for each in old["score"] if not each.startswith(f"{plugin}=")}
        assert set(profile["score"]) == {*others, f"{plugin}=5"}
        assert profile["filter"] == old["filter"]


@pytest.mark.parametrize("text", ["", PLAIN, MOST_ALLOCATED, TWO])
@pytest.mark.parametrize("plugin", ["NodeResourcesFit", "ImageLocality", "NodeAffinity"])
def test_a_plugin_off(text: str, plugin: str) -> None:
    weighted = changed(text, plugin=plugin, weight="5")
    before = points(text or PLAIN)
    for made in (text, weighted):
        for profile, old in zip(
            points(changed(made, plugin=plugin, off="yes")), before, strict=True
        ):
            names = {each.partition("=")[0] for names in profile.values() for each in names}
            assert plugin not in names
            assert set(old["filter"]) - {plugin} == set(profile["filter"])


def test_on_again() -> None:
    off = changed(MOST_ALLOCATED, plugin="ImageLocality", off="yes")
    [profile] = points(changed(off, plugin="ImageLocality", weight="3"))
    assert "ImageLocality=3" in profile["score"]


def test_what_is_wrong_is_left_to_the_check() -> None:
    assert check_text(changed("", plugin="Mine", weight="2"), "", PLUGINS).problems
    assert check_text(changed("", plugin="NodeAffinity", weight="much"), "", PLUGINS).problems
    aliases = "a: &a [1]\nb: *a\n"
    for text in ("[", "- 1", aliases, "a: " + "[" * 3000, "a: 0x" + "f" * 5000):
        assert changed(text, plugin="NodeAffinity", weight="2") == text
    assert check_text(changed("", plugin="NodeAffinity", weight="9" * 5000), "", PLUGINS).problems


@pytest.mark.parametrize("value", ["", "3"])
@pytest.mark.parametrize("fields", [{"weight": "2"}, {"off": "yes"}])
def test_what_is_no_list_is_replaced_by_one(value: str, fields: dict[str, str]) -> None:
    """An empty value, as a list is before its first item is typed, or a wrong one."""
    point = f"{{enabled: {value}, disabled: {value}}}"
    text = f"{PLAIN}  plugins: {{multiPoint: {point}, score: {point}}}\n"
    [profile] = yaml.safe_load(changed(text, plugin="ImageLocality", **fields))["profiles"]
    plugins = profile["plugins"]
    if "off" in fields:
        assert plugins["multiPoint"]["disabled"] == [{"name": "ImageLocality"}]
    else:
        assert plugins["score"]["enabled"] == [{"name": "ImageLocality", "weight": 2}]


def test_the_configuration_in_force_is_changed_if_the_field_is_empty() -> None:
    form = changed_form({"configuration": " ", "plugin": "NodeAffinity", "weight": "4"}, TWO)
    assert [("NodeAffinity=4" in each["score"]) for each in points(form["configuration"])] == [
        True, True,
    ]  # fmt: skip
    kept = changed_form({"configuration": "", "plugin": "NodeAffinity"}, TWO)
    assert kept == {"configuration": "", "nodes": ""}


@pytest.mark.parametrize(
    ("fields", "nodes"),
    [
        ({"like": "n1"}, "+1xn1"),
        ({"like": "n1", "more": "20", "without": "n2, n3"}, "+20xn1|-n2|-n3"),
        ({"nodes": "+2xn4", "without": "n2"}, "+2xn4|-n2"),
        ({"more": "3"}, ""),
    ],
)
def test_nodes(fields: dict[str, str], nodes: str) -> None:
    assert changed_form(fields, "") == {"nodes": nodes}
