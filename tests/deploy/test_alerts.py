"""The alerts: each fires if it should and not otherwise, by promtool, and has its runbook."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from .chart import CHART
from .promtool import promtool
from .rendering import DEPLOY, the, with_components

RULE = yaml.safe_load((DEPLOY / "components/prometheus-rule/prometheus-rule.yaml").read_text())
ALERTS = [rule for group in RULE["spec"]["groups"] for rule in group["rules"] if "alert" in rule]
CASES: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("alerts.yaml").read_text())
RUNBOOKS = (DEPLOY.parent / "docs" / "runbooks.md").read_text()
BUILD_INFO = 'eventsched_build_info{job="eventsched",instance="a",version="0.1.0"}'


def promtool_test(case: dict[str, Any]) -> dict[str, Any]:
    """A case as promtool reads it."""
    series = dict(case["series"])
    if case["alert"] != "EventschedDown" or not series:
        series[BUILD_INFO] = "1x400"
    alerts = {rule["labels"]["severity"]: rule for rule in ALERTS if rule["alert"] == case["alert"]}
    expected = [
        {
            "exp_labels": labels,
            "exp_annotations": rendered(alerts[labels["severity"]]["annotations"], labels),
        }
        for labels in case["fires"]
    ]
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [
            {"eval_time": case["at"], "alertname": case["alert"], "exp_alerts": expected}
        ],
    }


def rendered(annotations: dict[str, str], labels: dict[str, str]) -> dict[str, str]:
    """The annotations of an alert with these labels."""
    return {
        name: re.sub(r"{{ \$labels\.(\w+) }}", lambda match: labels[match[1]], text)
        for name, text in annotations.items()
    }


@pytest.mark.process
def test_alerts_fire(tmp_path: Path) -> None:
    """Every case of alerts.yaml."""
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(RULE["spec"]))
    tests = [promtool_test(case) for case in CASES]
    content = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(content))
    promtool("check", "rules", "rules.yaml", folder=tmp_path)
    promtool("test", "rules", "tests.yaml", folder=tmp_path)


def test_every_alert_has_a_case_that_fires_and_one_that_does_not() -> None:
    names = {rule["alert"] for rule in ALERTS}
    assert {case["alert"] for case in CASES if case["fires"]} == names
    assert {case["alert"] for case in CASES if not case["fires"]} == names


@pytest.mark.parametrize("name", sorted({rule["alert"] for rule in ALERTS}))
def test_every_alert_has_a_runbook(name: str) -> None:
    """Its section says what it means, how to confirm it, what to do and when to escalate."""
    (rule, *_) = [rule for rule in ALERTS if rule["alert"] == name]
    assert rule["annotations"]["runbook"] == f"docs/runbooks.md#{name.lower()}"
    section = RUNBOOKS.split(f"\n## {name}\n", 1)[1].split("\n## ", 1)[0]
    parts = re.findall(r"^\*\*(\w+)\.\*\*", section, re.MULTILINE)
    assert parts == ["Meaning", "Confirm", "Fix", "Escalate"]


def test_every_metric_of_the_rules_is_documented() -> None:
    """docs/metrics.md names it."""
    page = (DEPLOY.parent / "docs" / "metrics.md").read_text()
    used = set(re.findall(r"\b(?:eventsched|scheduler|leader)_\w+", str(RULE["spec"])))
    recorded = {name for name in used if f"eventsched:{name.removeprefix('eventsched_')}" in name}
    for name in used - recorded:
        assert f"`{re.sub('_(bucket|count)$', '', name)}`" in page, name


def test_the_component_and_the_chart_have_the_same_rules(tmp_path: Path) -> None:
    """And the component can be added to an overlay."""
    assert yaml.safe_load((CHART / "files" / "alerts.yaml").read_text()) == RULE["spec"]
    objects = with_components("replicas", ["prometheus-rule"], tmp_path)
    assert the(objects, "PrometheusRule")["metadata"]["namespace"] == "eventsched"
