"""KubeSchedulerConfiguration: what is refused and where, and which plugins a profile ends up with.

What kube-scheduler itself says about many documents is in tests/conformance/test_configs.py.
"""

from typing import Any, Literal

import msgspec
import pytest

from eventsched.domain.errors import InputError
from eventsched.domain.units import duration_text, nanoseconds
from eventsched.scheduling.config.arguments import typed_args
from eventsched.scheduling.config.catalogue import DEFAULT_PLUGINS, UPSTREAM_POINTS
from eventsched.scheduling.config.configuration import default, load, problems, refuse_extenders
from eventsched.scheduling.config.resolution import ResolvedProfile, resolve, resolve_all
from eventsched.scheduling.config.sections import PluginEntry, Plugins, PluginSet, ProfileConfig
from eventsched.scheduling.framework import POINTS

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


class AnyArgs(msgspec.Struct):
    """Takes whatever it is given: the plugins' own rules are tested with the plugins."""


def stub(name: str, *points: str, **attributes: Any) -> type:
    methods = {POINTS[point][0]: lambda self: None for point in points}
    return type(name, (), {"name": name, "Args": AnyArgs, **methods, **attributes})


def upstream_registry() -> dict[str, type]:
    """A stub for each default plugin, with upstream's points."""
    return {
        each.name: stub(each.name, *(p for p in UPSTREAM_POINTS[each.name] if p in POINTS))
        for each in DEFAULT_PLUGINS
    }


REGISTRY = upstream_registry()


def refusal(text: str, registry: dict[str, type] = REGISTRY) -> InputError:
    with pytest.raises(InputError) as caught:
        resolve_all(load(HEAD + text, "sched.yaml"), registry, "sched.yaml")
    return caught.value


def profile(plugins: str, registry: dict[str, type] = REGISTRY) -> ResolvedProfile:
    text = f"{HEAD}profiles:\n- plugins: {{{plugins}}}\n"
    [resolved] = resolve_all(load(text, "sched.yaml"), registry, "sched.yaml")
    return resolved


# --- reading ------------------------------------------------------------------------------------


def test_an_empty_configuration_has_upstreams_defaults() -> None:
    configuration = load(HEAD, "sched.yaml")
    assert configuration == default()
    assert configuration.parallelism == 16
    assert configuration.percentage_of_nodes_to_score == 0
    assert configuration.pod_initial_backoff_seconds == 1
    assert configuration.pod_max_backoff_seconds == 10
    assert configuration.enable_profiling
    assert configuration.enable_contention_profiling
    assert configuration.leader_election.leader_elect
    assert configuration.leader_election.lease_duration == "15s"
    assert configuration.leader_election.resource_name == "kube-scheduler"
    assert configuration.client_connection.qps == 50
    assert configuration.client_connection.burst == 100
    assert [p.scheduler_name for p in configuration.profiles] == ["default-scheduler"]
    assert configuration.warnings == ()


def test_zero_values_and_nulls_mean_the_default() -> None:
    text = """
parallelism: null
profiles: null
leaderElection: {leaseDuration: 0s, renewDeadline: "0", resourceName: '', resourceLock: ''}
clientConnection: {qps: 0, burst: 0, contentType: ''}
"""
    assert load(HEAD + text, "sched.yaml") == default()


def test_contention_profiling_follows_profiling() -> None:
    configuration = load(HEAD + "enableProfiling: false\n", "sched.yaml")
    assert configuration.enable_contention_profiling is False


def test_json_is_read_also_when_tabs_indent_it() -> None:
    text = (
        '{\n\t"apiVersion": "kubescheduler.config.k8s.io/v1",\n'
        '\t"kind": "KubeSchedulerConfiguration",\n\t"parallelism": 3\n}'
    )
    assert load(text, "sched.json").parallelism == 3


def test_aliases_are_followed() -> None:
    text = (
        "profiles: [{schedulerName: a, plugins: &p {filter: {disabled: [{name: NodeName}]}}},"
        " {schedulerName: b, plugins: *p}]"
    )
    first, second = load(HEAD + text, "sched.yaml").profiles
    assert first.plugins == second.plugins


def test_what_begins_with_a_brace_is_json_and_nothing_else() -> None:
    text = "{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration}"
    with pytest.raises(InputError, match=r"line 1: not JSON: .*; what begins with \{ is read as"):
        load(text, "sched.json")


def test_a_date_stays_text() -> None:
    text = "profiles:\n- pluginConfig: [{name: Mine, args: {since: 2026-01-01}}]\n"
    [read] = load(HEAD + text, "sched.yaml").profiles
    assert read.plugin_config[0].args == {"since": "2026-01-01"}


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2", "v1beta3"])
def test_older_versions_are_read_with_a_warning(version: str) -> None:
    configuration = load(HEAD.replace("/v1\n", f"/{version}\n"), "sched.yaml")
    assert configuration.profiles == default().profiles
    [warning] = configuration.warnings
    assert f"{version} is deprecated" in warning
    assert ("its default weights were others" in warning) is (version != "v1beta3")


@pytest.mark.parametrize(
    ("text", "where", "problem"),
    [
        ("parallelism: four\n", "parallelism", "a string where an integer is due"),
        ("parallelism: 2147483648\n", "parallelism", "Expected int <= 2147483647"),
        ("parallelism: 0\n", "parallelism", "0 is out of range"),
        ("parallelism: 4\nparallelism: 5\n", "parallelism", "written twice, in lines 3 and 4"),
        ("profilez: []\n", "profilez", "unknown field 'profilez'"),
        ("profilez: null\n", "profilez", "unknown field 'profilez'"),
        ("profiles: 0\n", "profiles", "an integer where a list is due"),
        ("profiles: {}\n", "profiles", "a mapping where a list is due"),
        (
            "profiles:\n- plugins:\n    score:\n      enabled:\n      - name: A\n"
            "      - {name: B, weight: heavy}\n",
            "profiles[0].plugins.score.enabled[1].weight",
            "a string where an integer is due",
        ),
        (
            "profiles:\n- plugins: {score: {enabled: [{weight: 2}]}}\n",
            "profiles[0].plugins.score.enabled[0]",
            "the entry has no name",
        ),
        (
            "profiles:\n- plugins: {score: {enabled: [{name: A, name: B}]}}\n",
            "profiles[0].plugins.score.enabled[0].name",
            "written twice, in lines 4 and 4",
        ),
        ("profiles: [\n", "line 4", "not YAML"),
        ("extenders: &e [*e]\n", "extenders[0]", "contains itself"),
        ("parallelism: !!int x\n", "", "does not fit its tag"),
        ("? [a]\n: b\n", "line 3", "unhashable key"),
        ("leaderElection: {leaseDuration: 15}\n", "leaderElection.leaseDuration", "an integer"),
        ("leaderElection: {retryPeriod: soon}\n", "leaderElection.retryPeriod", "not a duration"),
        ("leaderElection: {retryPeriod: -2s}\n", "leaderElection.retryPeriod", "out of range"),
        (
            "leaderElection: {leaseDuration: 10s}\n",
            "leaderElection.leaseDuration",
            "10s is not above renewDeadline (10s)",
        ),
        ("leaderElection: {resourceLock: leases2}\n", "leaderElection.resourceLock", "lock"),
        ("clientConnection: {burst: -1}\n", "clientConnection.burst", "-1 is out of range"),
        ("clientConnection: {qps: .inf}\n", "clientConnection.qps", "inf is out of range"),
        ("percentageOfNodesToScore: 101\n", "percentageOfNodesToScore", "101 is out of range"),
        (
            "profiles:\n- percentageOfNodesToScore: -1\n",
            "profiles[0].percentageOfNodesToScore",
            "-1 is out of range",
        ),
        ("podInitialBackoffSeconds: 0\n", "podInitialBackoffSeconds", "0 is out of range"),
        ("podMaxBackoffSeconds: 0\n", "podMaxBackoffSeconds", "0 is out of range"),
        ("profiles: [{}, {schedulerName: b}]\n", "profiles[0].schedulerName", "no name"),
        ("profiles: [{schedulerName: ''}]\n", "profiles[0].schedulerName", "no name"),
        (
            "profiles: [{schedulerName: a}, {schedulerName: a}]\n",
            "profiles[1].schedulerName",
            "'a' is also the name of profiles[0]",
        ),
        (
            "profiles:\n- pluginConfig: [{name: A}, {name: A}]\n",
            "profiles[0].pluginConfig[1].name",
            "A is configured twice",
        ),
        (
            "profiles:\n- plugins: {filter: {enabled: [{name: EBSLimits}]}}\n",
            "profiles[0].plugins.filter.enabled[0].name",
            "was removed",
        ),
        (
            "profiles:\n- plugins: {queueSort: {enabled: [{name: A}, {name: B}]}}\n",
            "profiles[0].plugins.queueSort.enabled",
            "2 queueSort plugins",
        ),
        (
            "profiles:\n- {schedulerName: a}\n"
            "- {schedulerName: b, plugins: {queueSort: {enabled: [{name: A}]}}}\n",
            "profiles[1].plugins.queueSort",
            "differs from profiles[0]",
        ),
        (
            "extenders: [{urlPrefix: x, tlsConfig: {caData: '!'}}]\n",
            "extenders[0].tlsConfig.caData",
            "base64",
        ),
        ("extenders: [{httpTimeout: 5}]\n", "extenders[0].httpTimeout", "an integer where"),
        ("extenders: [{httpTimeout: 5 s}]\n", "extenders[0].httpTimeout", "not a duration"),
        (
            "extenders: [{managedResources: [{name: cpu}]}]\n",
            "extenders[0].managedResources[0].name",
            "'cpu' is not the name of an extended resource",
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_at_its_place(text: str, where: str, problem: str) -> None:
    error = refusal(text)
    assert error.where == f"sched.yaml: {where}".removesuffix(": ")
    assert problem in error.problem
    assert error.remedy


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "sched.yaml"),
        ("- a\n", "sched.yaml"),
        ("kind: KubeSchedulerConfiguration\n", "sched.yaml: apiVersion"),
        ("apiVersion: kubescheduler.config.k8s.io/v1\n", "sched.yaml: kind"),
        (HEAD.replace("/v1\n", "/v2\n"), "sched.yaml: apiVersion"),
        ("apiVersion: [v1]\nkind: KubeSchedulerConfiguration\n", "sched.yaml: apiVersion"),
        ('{"kind": "a", "kind": "b"}', "sched.yaml: kind"),
        ("[" * 100_000, "sched.yaml"),
        ('{"a":' * 100_000, "sched.yaml"),
        ("{", "sched.yaml: line 1"),
    ],
)
def test_what_is_no_configuration_is_refused(text: str, where: str) -> None:
    with pytest.raises(InputError) as caught:
        load(text, "sched.yaml")
    assert caught.value.where == where


def test_a_misspelt_field_is_guessed() -> None:
    assert refusal("paralellism: 4\n").remedy == "did you mean 'parallelism'?"


def test_all_problems_can_be_collected() -> None:
    bad = msgspec.structs.replace(default(), parallelism=0, pod_initial_backoff_seconds=0)
    assert [p.where for p in problems(bad)] == ["parallelism", "podInitialBackoffSeconds"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", 0), ("15s", 15e9), ("1m30.5s", 90.5e9), ("-2ms", -2e6), ("+.5h", 1800e9), ("3µs", 3e3)],
)
def test_durations_are_in_gos_notation(text: str, expected: float) -> None:
    assert nanoseconds(text) == expected


@pytest.mark.parametrize(
    ("text", "written"),
    [("90s", "1m30s"), ("10m", "10m0s"), ("1h", "1h0m0s"), ("0", "0s"), ("1500ms", "1.5s"),
     ("0.25s", "250ms"), ("-1.5us", "-1.5µs"), ("36h0.5s", "36h0m0.5s"), ("7ns", "7ns")],
)  # fmt: skip
def test_durations_are_written_as_go_writes_them(text: str, written: str) -> None:
    assert duration_text(nanoseconds(text)) == written
    assert nanoseconds(written) == nanoseconds(text)


@pytest.mark.parametrize("text", ["", "5", "s", "1 s", "1d", ".s", "٣s", "9999999h"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        nanoseconds(text)


def test_whoever_can_ask_nobody_refuses_extenders() -> None:
    configuration = load(HEAD + "extenders: [{urlPrefix: http://x}]\n", "sched.yaml")
    with pytest.raises(InputError, match="http://x would have to be asked") as caught:
        refuse_extenders(configuration, "sched.yaml")
    assert caught.value.where == "sched.yaml: extenders"


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
