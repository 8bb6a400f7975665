"""Which plugins run by a configuration, in which order, and with which weights and arguments."""

from typing import Any, Literal

import msgspec
import pytest

from eventsched.domain.errors import InputError
from eventsched.scheduling.config.arguments import typed_args
from eventsched.scheduling.config.catalogue import DEFAULT_PLUGINS
from eventsched.scheduling.config.configuration import load
from eventsched.scheduling.config.resolution import resolve, resolve_all
from eventsched.scheduling.config.sections import PluginEntry, Plugins, PluginSet, ProfileConfig
from tests.unit.scheduling.config.stub_plugins import (
    HEAD,
    REGISTRY,
    AnyArgs,
    profile,
    refusal,
    stub,
)

# --- which plugins run --------------------------------------------------------------------------


def test_defaults_that_do_not_exist_here_are_left_out_and_named() -> None:
    registry = {name: REGISTRY[name] for name in ("PrioritySort", "NodeName", "DefaultBinder")}
    resolved = profile("multiPoint: {disabled: [{name: ImageLocality}]}", registry)
    assert "NodePorts" in resolved.points["filter"]
    assert {p: n for p, n in resolved.running.items() if n} == {
        "queueSort": ("PrioritySort",), "filter": ("NodeName",), "bind": ("DefaultBinder",),
    }  # fmt: skip
    default_names = [plugin.name for plugin in DEFAULT_PLUGINS]
    assert list(resolved.missing) == [
        name for name in default_names if name not in registry and name != "ImageLocality"
    ]


def test_enabling_again_keeps_the_place_in_multi_point_but_not_the_weight() -> None:
    resolved = profile("multiPoint: {enabled: [{name: TaintToleration}]}")
    assert resolved.points["score"][0] == "TaintToleration"
    assert resolved.weights["TaintToleration"] == 1


def test_a_points_own_overrides_come_first_and_its_other_plugins_last() -> None:
    registry = REGISTRY | {"Mine": stub("Mine", "score"), "Late": stub("Late", "score")}
    resolved = profile(
        "multiPoint: {enabled: [{name: Mine, weight: 4}]},"
        "score: {enabled: [{name: Late, weight: 6}, {name: ImageLocality, weight: 5}]}",
        registry,
    )
    assert resolved.points["score"][0] == "ImageLocality"
    assert resolved.points["score"][-2:] == ("Mine", "Late")
    assert [resolved.weights[name] for name in ("ImageLocality", "Mine", "Late")] == [5, 4, 6]


def test_a_point_without_defaults_keeps_its_own() -> None:
    resolved = profile("filter: {disabled: [{name: '*'}], enabled: [{name: NodeName}]}")
    assert resolved.points["filter"] == ("NodeName",)
    assert "NodeAffinity" in resolved.points["preFilter"]


def test_a_per_node_plugin_serves_filter_and_score() -> None:
    mine = stub("Mine", filter_node=lambda *_: None, score_node=lambda *_: 1)
    resolved = profile("multiPoint: {enabled: [{name: Mine}]}", REGISTRY | {"Mine": mine})
    assert resolved.points["filter"][-1] == resolved.points["score"][-1] == "Mine"


@pytest.mark.parametrize(
    ("plugins", "where", "problem", "remedy"),
    [
        ("filter: {enabled: [{name: NodeNam}]}", "filter.enabled[0].name",
         "unknown plugin 'NodeNam'", "did you mean 'NodeName'"),
        ("multiPoint: {enabled: [{name: Xyz}]}", "multiPoint.enabled[0].name",
         "unknown plugin 'Xyz'", "--plugin FILE"),
        ("filter: {enabled: [{name: GangScheduling}]}", "filter.enabled[0].name",
         "plugin GangScheduling does not serve filter", "enable it at preEnqueue, permit"),
        ("filter: {enabled: [{weight: 1}]}", "filter.enabled[0]", "has no name", "name a plugin"),
        ("permit: {enabled: [{name: ImageLocality}]}", "permit.enabled[0].name",
         "plugin ImageLocality does not serve permit", "enable it at score"),
        ("placementScore: {enabled: [{name: ImageLocality}]}", "placementScore.enabled[0].name",
         "does not serve placementScore", "enable it at score"),
        ("filter: {enabled: [{name: NodeName}, {name: NodeName}]}", "filter.enabled[1].name",
         "registered twice at filter", "once"),
        ("multiPoint: {enabled: [{name: NodeName}, {name: NodeName}]}",
         "multiPoint.enabled[0].name", "registered twice at filter", "once"),
        ("score: {enabled: [{name: ImageLocality, weight: -1}]}", "score.enabled[0].weight",
         "weight -1 is below zero", "use 1 or more"),
        ("queueSort: {disabled: [{name: '*'}]}", "queueSort", "found none", "PrioritySort"),
        ("bind: {disabled: [{name: DefaultBinder}]}", "bind", "no bind", "DefaultBinder"),
    ],
)  # fmt: skip
def test_plugins_that_cannot_run_are_refused(
    plugins: str, where: str, problem: str, remedy: str
) -> None:
    error = refusal(f"profiles:\n- plugins: {{{plugins}}}\n")
    assert error.where == f"sched.yaml: profiles[0].plugins.{where}"
    assert problem in error.problem
    assert remedy in error.remedy


def test_what_upstream_has_and_the_registry_does_not_is_kept_and_named() -> None:
    registry = {name: cls for name, cls in REGISTRY.items() if name != "InterPodAffinity"}
    resolved = profile("score: {enabled: [{name: InterPodAffinity, weight: 4}]}", registry)
    assert resolved.points["score"][0] == "InterPodAffinity"
    assert resolved.running["score"][0] == "TaintToleration"
    [problem] = resolved.unavailable
    assert problem.where == "sched.yaml: profiles[0].plugins.score.enabled[0].name"


def test_a_weight_below_zero_is_refused_only_where_upstreams_sum_overflows() -> None:
    last = "multiPoint: {enabled: [{name: ImageLocality, weight: -1}]}"
    assert profile(last).weights["ImageLocality"] == -1
    error = refusal(
        "profiles: [{plugins: {score: {enabled: [{name: ImageLocality, weight: -1}]}}}]"
    )
    assert error.problem == "weight -1 is below zero"


def test_the_total_score_must_fit_in_64_bits() -> None:
    heavy = PluginSet(enabled=(PluginEntry("ImageLocality", 2**60),))
    with pytest.raises(InputError, match="overflow"):
        resolve(ProfileConfig(plugins=Plugins(score=heavy)), REGISTRY, "sched.yaml")


def test_the_queue_is_sorted_alike_also_through_multi_point() -> None:
    other = "multiPoint: {disabled: [{name: PrioritySort}], enabled: [{name: Mine}]}"
    error = refusal(
        f"profiles:\n- {{schedulerName: a}}\n- {{schedulerName: b, plugins: {{{other}}}}}\n",
        REGISTRY | {"Mine": stub("Mine", "queueSort")},
    )
    assert error.where == "sched.yaml: profiles[1].plugins.queueSort"


# --- arguments ----------------------------------------------------------------------------------


class Resource(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    weight: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.weight <= 100:
            raise InputError("weight", f"{self.weight} is not in 1..100", "use 1 to 100")


class FitArgs(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    strategy_type: Literal["Least", "Most"] = "Least"
    resources: list[Resource] = []

    def __post_init__(self) -> None:
        if len(self.resources) > 2:
            raise ValueError("too many resources")


FIT = stub("Fit", "score", Args=FitArgs)


def test_arguments_become_the_plugins_own_struct() -> None:
    raw = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "FitArgs",
           "strategyType": "Most", "resources": [{"name": "cpu", "weight": None}]}  # fmt: skip
    expected = FitArgs(strategy_type="Most", resources=[Resource("cpu")])
    assert typed_args(FIT, raw, "here") == expected
    assert typed_args(FIT, None, "here") == FitArgs()
    assert typed_args(stub("Bare", Args=None), None, "here") is None


@pytest.mark.parametrize(
    ("raw", "where", "problem", "remedy"),
    [
        ({"strategyTyp": 1}, "here.strategyTyp", "unknown field", "'strategyType'"),
        ({"strategyType": "Best"}, "here.strategyType", "Invalid enum value 'Best'", "Least, Most"),
        ({"resources": [{"name": "cpu", "weight": "1"}]}, "here.resources[0].weight",
         "a string where an integer is due", "write an integer"),
        ({"resources": [{"name": "cpu", "weight": 0}]}, "here.resources[0].weight",
         "0 is not in 1..100", "use 1 to 100"),
        ({"resources": [{"name": n} for n in "abc"]}, "here", "too many resources", "correct"),
        ({"kind": "OtherArgs"}, "here.kind", "'OtherArgs' is not FitArgs", "remove"),
        ({"apiVersion": "v2"}, "here.apiVersion", "'v2' is not supported", "remove"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_at_their_place(
    raw: dict[str, Any], where: str, problem: str, remedy: str
) -> None:
    with pytest.raises(InputError) as caught:
        typed_args(FIT, raw, "here")
    assert caught.value.where == where
    assert problem in caught.value.problem
    assert remedy in caught.value.remedy


def test_arguments_are_checked_also_for_a_plugin_that_does_not_run() -> None:
    registry = REGISTRY | {"Fit": FIT, "Bare": stub("Bare", "score", Args=None)}
    error = refusal("profiles:\n- pluginConfig: [{name: Fit, args: {x: 1}}]\n", registry)
    assert error.where == "sched.yaml: profiles[0].pluginConfig[0].args.x"
    error = refusal("profiles:\n- pluginConfig: [{name: Bare, args: {x: 1}}]\n", registry)
    assert error.problem == "plugin Bare takes no arguments"


def test_arguments_of_running_plugins_are_typed_and_those_of_unknown_ones_kept_raw() -> None:
    text = """
profiles:
- plugins: {multiPoint: {enabled: [{name: Fit}]}}
  pluginConfig:
  - {name: Fit, args: {strategyType: Most}}
  - {name: NoSuchPlugin, args: {x: 1}}
"""
    registry = REGISTRY | {"Fit": FIT, "Idle": FIT}
    [resolved] = resolve_all(load(HEAD + text, "sched.yaml"), registry, "sched.yaml")
    assert resolved.args == {"Fit": {"strategyType": "Most"}, "NoSuchPlugin": {"x": 1}}
    assert resolved.typed["Fit"] == FitArgs(strategy_type="Most")
    assert resolved.typed["NodeName"] == AnyArgs()
    assert "Idle" not in resolved.typed
