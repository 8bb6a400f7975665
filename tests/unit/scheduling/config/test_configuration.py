"""KubeSchedulerConfiguration: what is refused and where, and which plugins a profile ends up with.

What kube-scheduler itself says about many documents is in tests/conformance/test_configs.py.
"""

import msgspec
import pytest

from eventsched.domain.errors import InputError
from eventsched.domain.units import duration_text, nanoseconds
from eventsched.scheduling.config.configuration import default, load, problems, refuse_extenders
from tests.unit.scheduling.config.stub_plugins import HEAD, refusal


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
