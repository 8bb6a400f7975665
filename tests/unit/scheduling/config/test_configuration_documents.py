"""Configurations as people have published them load as they are (tests/documents)."""

from pathlib import Path
from typing import Any

import pytest

from eventsched.plugins import IN_TREE
from eventsched.plugins.gallery.network_traffic import NetworkTrafficArgs
from eventsched.scheduling.config.checking import Checked, check
from tests.databases import ROOT

FOLDER = ROOT / "tests" / "documents"
OLDER = "is deprecated and read as kubescheduler.config.k8s.io/v1"


def checked(path: Path) -> Checked:
    """One that has no problem."""
    found = check(path.read_text(), path.name, IN_TREE)
    assert found.problems == ()
    assert all(profile.unavailable == () for profile in found.profiles)
    return found


USUAL = check(
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n", "", IN_TREE
).profiles[0]


def added(name: str) -> dict[str, dict[str, list[str]]]:
    """Profile → point → the plugins that run there beside the usual ones (all, where those do not
    run), except for points with none."""
    found: dict[str, dict[str, list[str]]] = {}
    for profile in checked(FOLDER / f"{name}.yaml").profiles:
        points = {
            point: [each for each in names if each not in USUAL.running[point]]
            for point, names in profile.running.items()
        }
        found[profile.name] = {point: names for point, names in points.items() if names}
    return found


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "sticky",
            {
                "my-scheduler": {
                    "preFilter": ["FirstScheduledNode"], "postBind": ["FirstScheduledNode"],
                },
            },
        ),
        (
            "importance",
            {
                "my-scheduler": {
                    "queueSort": ["ImportanceSort"], "score": ["FixedNode", "RandomScore"],
                },
            },
        ),
        ("node-group", {"custom-scheduler": {"filter": ["MyCustomPlugin"]}}),
        ("priority", {"i-scheduler": {"filter": ["Priority"], "score": ["Priority"]}}),
        (
            "framework",
            {
                "my-custom-scheduler": {
                    "score": ["tonodename-scoring-plugin"],
                    "reserve": ["multipoint-communicating-plugin"],
                    "preBind": ["multipoint-communicating-plugin"],
                },
            },
        ),
        ("extender", {"my-scheduler": {}}),
        ("network-traffic-v1beta1", {"custom-scheduler": {"score": ["NetworkTraffic"]}}),
        (
            "network-traffic-v1beta2",
            {
                "default-scheduler": {},
                "no-scoring-scheduler": {},
                "network-scheduler": {"score": ["NetworkTraffic"]},
            },
        ),
    ],
)  # fmt: skip
def test_their_plugins_run_where_they_say(name: str, expected: Any) -> None:
    """Under the names that they have there."""
    assert added(name) == expected


def test_all_of_them_are_looked_at() -> None:
    """And older versions are named, as is what went away since; nothing else."""
    warned = {path.stem: checked(path).warnings for path in sorted(FOLDER.glob("*.yaml"))}
    shown = {name: [OLDER in each or each for each in told] for name, told in warned.items()}
    gone = "profiles[2].plugins.score.disabled[0].name: there is no plugin 'NodePreferAvoidPods'"
    assert shown == {
        "extender": [],
        "framework": [],
        "importance": [True],
        "network-traffic-v1beta1": [True],
        "network-traffic-v1beta2": [True, f"{gone} to disable"],
        "node-group": [True],
        "priority": [],
        "sticky": [True],
    }


def test_scores_without_the_usual_ones() -> None:
    """Where they disable all others."""
    (traffic,) = checked(FOLDER / "network-traffic-v1beta1.yaml").profiles
    (named,) = checked(FOLDER / "framework.yaml").profiles
    _, none, weighted = checked(FOLDER / "network-traffic-v1beta2.yaml").profiles
    assert traffic.weights == {"NetworkTraffic": 1}
    assert named.weights == {"tonodename-scoring-plugin": 1}
    assert (none.weights, none.running["preScore"]) == ({}, ())
    assert weighted.weights == {
        **{name: w for name, w in USUAL.weights.items() if name != "ImageLocality"},
        "NetworkTraffic": 10,
    }


def test_their_arguments() -> None:
    """Prometheus' address under both of its names."""
    (older,) = checked(FOLDER / "network-traffic-v1beta1.yaml").profiles
    newer = checked(FOLDER / "network-traffic-v1beta2.yaml").profiles[2]
    for profile in (older, newer):
        args = profile.typed["NetworkTraffic"]
        assert isinstance(args, NetworkTrafficArgs)
        assert (args.address, args.device_name, args.time_range) == (
            "http://10.0.0.4:9090", "ens192", 60,
        )  # fmt: skip
    fit: Any = newer.typed["NodeResourcesFit"]
    assert fit.scoring_strategy.type == "MostAllocated"


def test_their_extender() -> None:
    """With every field that they show."""
    (extender,) = checked(FOLDER / "extender.yaml").configuration.extenders
    assert (extender.url_prefix, extender.weight) == ("http://localhost:8888", 5)
    assert (extender.filter_verb, extender.prioritize_verb) == ("filter", "prioritize")
    assert (extender.bind_verb, extender.preempt_verb) == ("bind", "preempt")
    assert (extender.node_cache_capable, extender.ignorable) == (True, True)
    assert [each.name for each in extender.managed_resources] == ["example.com/foo"]
