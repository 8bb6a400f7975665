"""What the chart makes of its values."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from eventsched import __version__
from eventsched.cluster.kube.watch.resources import OPTIONAL
from eventsched.plugins import IN_TREE
from eventsched.scheduling.config.checking import Checked, check

from .chart import CHART, DOCUMENT, chart_of_0_1, made_of, notes, run, templated, values
from .rendering import (
    DEPLOY,
    Object,
    configuration,
    example_secret,
    of_kind,
    the,
    with_components,
)
from .rights import ANNOUNCED, READ, READING, Right, rights

pytestmark = pytest.mark.process


def checked(objects: list[Object]) -> Checked:
    """Its configuration, which has no problem."""
    found = check(configuration(objects), "eventsched.yaml", IN_TREE)
    assert (found.problems, found.warnings) == ((), ())
    return found


def test_plugins_by_values() -> None:
    """As their names, or with weights, and with arguments."""
    objects = templated(
        scheduler={"name": "i-scheduler"},
        plugins={
            "enabled": ["Priority", "ImportanceSort", {"name": "RandomScore", "weight": 3}],
            "disabled": ["PrioritySort"],
        },
        pluginConfig=[{"name": "Priority", "args": {"label": "example.com/rank"}}],
        networkPolicy={"egressPorts": [9090]},
    )
    (profile,) = checked(objects).profiles
    assert profile.name == "i-scheduler"
    assert "Priority" in profile.points["filter"]
    assert profile.points["queueSort"] == ("ImportanceSort",)
    assert profile.weights["RandomScore"] == 3
    assert profile.args["Priority"] == {"label": "example.com/rank"}
    assert [rule.get("resourceNames") for rule in the(objects, "Role")["rules"]] == [
        None, ["i-scheduler"],
    ]  # fmt: skip
    rules = the(objects, "NetworkPolicy")["spec"]["egress"]
    assert [each["port"] for each in rules[-1]["ports"]] == [5432, 9090]


def test_values_of_scheduler_plugins_install_unchanged() -> None:
    """What they say about the scheduler and its plugins holds."""
    objects = templated(**DOCUMENT)
    found = check(configuration(objects), "eventsched.yaml", IN_TREE)
    assert found.problems == ()
    (warning,) = found.warnings
    assert "DefaultPreemption runs at postFilter before CapacityScheduling" in warning
    (profile,) = found.profiles
    assert profile.points["queueSort"] == ("Coscheduling",)
    assert {"CapacityScheduling", "Coscheduling"} < {*profile.points["preFilter"]}
    assert {"NodeResourcesAllocatable", "Priority"} < {*profile.points["score"]}
    assert "NodeResourceTopologyMatch" in profile.points["filter"]
    assert profile.args == {
        "Coscheduling": {"permitWaitingTimeSeconds": 10},
        "NodeResourceTopologyMatch": {"scoringStrategy": {"type": "MostAllocated"}},
    }
    spec = the(objects, "Deployment")["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {"disk": "fast"}
    assert not {"priorityClassName", "affinity", "tolerations"} & {*spec}
    (role,) = of_kind(objects, "ClusterRole")
    assert rights(role["rules"]) == {
        Right(each.group, each.plural, verb) for each in OPTIONAL for verb in ("list", "watch")
    }


def test_an_extender_that_does_not_bind_may_announce_reloads() -> None:
    """In its own namespace only."""
    asked = templated(extender={"enabled": True}, rbac={"role": "extender"})
    assert ANNOUNCED in rights(the(asked, "Role")["rules"])
    assert ANNOUNCED not in rights(the(asked, "ClusterRole")["rules"])
    assert ANNOUNCED not in rights(the(templated(), "Role")["rules"])


@pytest.mark.parametrize("role", ["kube-scheduler", "own", "none"])
def test_a_shadow_only_reads(role: str) -> None:
    """Whatever role a scheduler would have; and there is no Lease."""
    enabled = ["CapacityScheduling", "NodeResourceTopologyMatch"]
    plugins = {"enabled": enabled, "disabled": ["DefaultPreemption"]}
    objects = templated(
        settings={"shadow": {"enabled": True}}, rbac={"role": role}, plugins=plugins
    )
    assert of_kind(objects, "Role") == of_kind(objects, "RoleBinding") == []
    made = {right for each in of_kind(objects, "ClusterRole") for right in rights(each["rules"])}
    optional = {Right(each.group, each.plural, verb) for each in OPTIONAL for verb in READING}
    assert made == (optional if role == "none" else READ | optional)
    bound = [each["roleRef"]["name"] for each in of_kind(objects, "ClusterRoleBinding")]
    assert bound == [each["metadata"]["name"] for each in of_kind(objects, "ClusterRole")]
    assert checked(objects)
    plain = templated(settings={"shadow": {"enabled": False}}, rbac={"role": role})
    assert rights(the(plain, "Role")["rules"]) == rights(the(templated(), "Role")["rules"])


@pytest.mark.parametrize(
    ("plugin", "plural"),
    [
        ("CapacityScheduling", "elasticquotas"),
        ("NodeResourceTopologyMatch", "noderesourcetopologies"),
    ],
)
def test_rights_of_one_plugin(plugin: str, plural: str) -> None:
    """Those for the objects that it reads."""
    (role,) = of_kind(templated(plugins={"enabled": [plugin]}), "ClusterRole")
    assert [rule["resources"] for rule in role["rules"]] == [[plural]]


KINDS = (
    "scheduling.x-k8s.io/v1alpha1/ElasticQuota",
    "topology.node.k8s.io/v1alpha2/NodeResourceTopology",
)


def test_values_that_mean_nothing_are_named(tmp_path: Path) -> None:
    """Each of them; without any there is no warning."""
    text = notes(tmp_path / "document", *KINDS, **DOCUMENT, extra=5)
    told = text.split("WARNING: ")[1:]
    assert [each.strip() for each in told[0].splitlines()[1:] if each] == [
        "controller.image", "controller.name", "controller.replicaCount", "extra",
        "scheduler.command",
    ]  # fmt: skip
    assert [each.splitlines()[0] for each in told[1:]] == [
        "there is no controller. The status of ElasticQuotas and PodGroups is not written, and no",
        "DefaultPreemption runs before CapacityScheduling and evicts pods without regard to "
        "quotas;",
    ]
    assert "WARNING" not in notes(tmp_path / "own", plugins={"enabled": ["Priority"]})


def test_kinds_that_the_cluster_lacks_are_named(tmp_path: Path) -> None:
    """Those that enabled plugins read."""
    plugins = {"enabled": ["NodeResourceTopologyMatch", "Priority"]}
    text = notes(tmp_path / "none", plugins=plugins)
    assert "WARNING: NodeResourceTopologyMatch reads objects of topology.node.k8s.io/" in text
    assert text.count("WARNING") == 1
    assert "WARNING" not in notes(tmp_path / "all", *KINDS, plugins=plugins)


@pytest.mark.parametrize("disabled", ["DefaultPreemption", {"name": "DefaultPreemption"}, "*"])
def test_preemption_is_disabled_in_any_form(tmp_path: Path, disabled: object) -> None:
    """There is no warning then."""
    plugins = {"enabled": ["CapacityScheduling"], "disabled": [disabled]}
    assert "WARNING" not in notes(tmp_path, *KINDS, plugins=plugins)


def documented() -> list[Object]:
    """The values that docs/deploy.md shows, and those of the comments in values.yaml."""
    page = (DEPLOY.parent / "docs" / "deploy.md").read_text().split("### By Helm")[1]
    shown = yaml.safe_load(page.split("```yaml\n")[1].split("```")[0])
    text = (CHART / "values.yaml").read_text()
    lists = [
        re.sub(r"…", "http://prometheus", each) for each in re.findall(r": (\[.+\])\.$", text, re.M)
    ]
    plugins, arguments = map(yaml.safe_load, lists)
    return [{}, shown, {"plugins": {"enabled": plugins}, "pluginConfig": arguments}]


@pytest.mark.parametrize("number", range(3))
def test_documented_values_do(number: int) -> None:
    """Helm's linter and our own have nothing against them."""
    given = documented()[number]
    assert "0 chart(s) failed" in run("lint", str(CHART), "--strict", "--values=-", given=given)
    profile = checked(templated(**given)).profiles[0]
    enabled = given.get("plugins", {}).get("enabled", [])
    for plugin in enabled:
        assert (plugin if isinstance(plugin, str) else plugin["name"]) in profile.points["score"]


def test_the_linter_takes_the_document() -> None:
    """Though some of it means nothing."""
    assert "0 chart(s) failed" in run("lint", str(CHART), "--strict", "--values=-", given=DOCUMENT)


def test_values_of_0_1_render_as_before(tmp_path: Path) -> None:
    """Those that are new since have an effect of their own only if the user sets them."""
    chart = chart_of_0_1(tmp_path)
    assert made_of(chart, "eventsched", {}) == templated()
    spec = the(templated(scheduler={"priorityClassName": ""}), "Deployment")["spec"]
    assert "priorityClassName" not in spec["template"]["spec"]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"scheduler": {"replicaCount": "2"}}, "/scheduler/replicaCount"),
        ({"scheduler": {"name": "My_Scheduler"}}, "/scheduler/name"),
        ({"scheduler": {"leaderElect": "yes"}}, "/scheduler/leaderElect"),
        ({"plugins": {"enabled": "Priority"}}, "/plugins/enabled"),
        ({"plugins": {"enabled": [{"weight": 10}]}}, "/plugins/enabled/0"),
        ({"pluginConfig": [{"args": {}}]}, "/pluginConfig/0"),
        ({"database": {"port": 70000}}, "/database/port"),
        ({"monitoring": {"databaseBytes": 0}}, "/monitoring/databaseBytes"),
        ({"monitoring": {"databaseBytes": "1Ti"}}, "/monitoring/databaseBytes"),
        ({"networkPolicy": {"egressPorts": ["http"]}}, "/networkPolicy/egressPorts/0"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_values_are_refused(given: dict[str, Any], field: str) -> None:
    """Before anything is installed; the message names the field."""
    with pytest.raises(AssertionError, match=f"at '{field}'"):
        templated(**given)


def test_monitoring_is_what_the_components_have(tmp_path: Path) -> None:
    """By values; nothing of it otherwise."""
    kinds = ("ServiceMonitor", "PrometheusRule")
    made = templated(monitoring={"serviceMonitor": True, "prometheusRule": True})
    added = with_components("replicas", ["service-monitor", "prometheus-rule"], tmp_path)
    ours, theirs = the(made, "PrometheusRule")["spec"], the(added, "PrometheusRule")["spec"]
    assert ours == theirs
    ours, theirs = the(made, "ServiceMonitor")["spec"], the(added, "ServiceMonitor")["spec"]
    assert ours["endpoints"] == theirs["endpoints"]
    service = the(made, "Service")["metadata"]["labels"]
    assert ours["selector"]["matchLabels"].items() <= service.items()
    assert not [each for each in templated() if each["kind"] in kinds]


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ({}, 107374182400),
        ({"databaseBytes": None}, 107374182400),
        ({"databaseBytes": 2**40}, 2**40),
    ],
)
def test_the_size_from_which_on_the_database_is_large(given: dict[str, Any], limit: int) -> None:
    """Both alerts have the value, as digits; nothing else of the rules depends on it."""
    made = the(templated(monitoring={"prometheusRule": True, **given}), "PrometheusRule")["spec"]
    rules = {rule.get("alert"): rule for group in made["groups"] for rule in group["rules"]}
    large = rules["EventschedDatabaseLarge"]["expr"]
    filling = rules["EventschedDatabaseFillingUp"]["expr"]
    assert large.endswith(f" > {limit}")
    assert filling.count(f" > {limit} and") == filling.count(f" <= {limit}") == 1
    plain = (CHART / "files" / "alerts.yaml").read_text()
    assert plain.count("107374182400") == 4, "three limits and a comment"
    assert yaml.safe_load(plain.replace("107374182400", str(limit))) == made


def test_a_component_sets_that_size_as_the_chart_does(tmp_path: Path) -> None:
    """From a ConfigMap, which only Kustomize reads."""
    limits = yaml.safe_load((DEPLOY / "components/database-limit/limits.example.yaml").read_text())
    components = ["prometheus-rule", "database-limit"]
    added = with_components("replicas", components, tmp_path, [limits])
    assert limits["metadata"]["name"] not in [each["metadata"]["name"] for each in added]
    size = int(limits["data"]["databaseBytes"])
    made = templated(monitoring={"prometheusRule": True, "databaseBytes": size})
    assert the(added, "PrometheusRule")["spec"] == the(made, "PrometheusRule")["spec"]


def test_names_of_digits_stay_text() -> None:
    """As the API server wants them."""
    spec = the(templated(database={"secret": "123"}), "Deployment")["spec"]["template"]["spec"]
    assert spec["volumes"][0]["secret"]["secretName"] == "123"
    (migration,) = spec["initContainers"]
    assert migration["env"][0]["valueFrom"]["secretKeyRef"]["name"] == "123"


def test_only_what_cannot_be_reloaded_replaces_the_pods() -> None:
    """The Lease, the stream, the client; of an extender also its port."""

    def checksum(**given: Any) -> str:
        pods = the(templated(**given), "Deployment")["spec"]["template"]
        found: str = pods["metadata"]["annotations"]["checksum/restart"]
        return found

    assert checksum() == checksum(scheduler={"replicaCount": 2})
    assert checksum() == checksum(plugins={"enabled": ["Priority"]})
    assert checksum() != checksum(scheduler={"name": "other"})
    assert checksum() != checksum(scheduler={"leaderElect": False})
    assert checksum() == checksum(settings={"batch": {"records": 7}})
    assert checksum() != checksum(settings={"client": {"concurrency": 7}})
    asked = {"extender": {"enabled": True}}
    assert checksum(**asked) == checksum(**asked, plugins={"enabled": ["Priority"]})
    assert checksum(**asked) == checksum(**asked, settings={"extender": {"profile": "other"}})
    assert checksum(**asked) != checksum(**asked, settings={"extender": {"port": 9999}})


def test_two_releases_stand_side_by_side() -> None:
    """Nothing has the same name, and selectors mean one of them."""
    one, two = templated("one"), templated("two")
    names = [{(e["kind"], e["metadata"]["name"]) for e in objects} for objects in (one, two)]
    assert not names[0] & names[1]
    for objects, name in ((one, "one"), (two, "two")):
        labels = the(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == name
        for kind in ("Deployment", "PodDisruptionBudget"):
            assert the(objects, kind)["spec"]["selector"] == {"matchLabels": labels}
        assert the(objects, "Service")["spec"]["selector"] == labels
        subjects = [each["subjects"][0]["name"] for each in of_kind(objects, "ClusterRoleBinding")]
        assert subjects == [name, name]


def test_its_files_fit_without_helm() -> None:
    """The version, the image, the Secret; and templates use values that are there."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    given = values()
    assert given["scheduler"]["image"] == f"eventsched:{__version__}"
    assert given["database"]["secret"] == example_secret()["metadata"]["name"]
    used = {
        tuple(path.split("."))
        for template in (CHART / "templates").rglob("*.*")
        for path in re.findall(r"\.Values\.([\w.]+)", template.read_text())
    }
    for path in used:
        here = given
        for part in path:
            assert part in here, f"{'.'.join(path)} is no value"
            here = here[part]
