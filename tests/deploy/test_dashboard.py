"""The dashboard: its queries are valid, and use metrics and labels that the product has."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from .chart import CHART, templated
from .promtool import promtool
from .rendering import DEPLOY, Object, of_kind, with_components

DASHBOARD: Object = json.loads((DEPLOY / "components/dashboard/dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
WORDS = {"job", "instance", "le"}
"""Labels that Prometheus adds, and that of buckets."""


def queries() -> Iterator[str]:
    """Of panels, annotations and variables."""
    for panel in PANELS:
        yield from (target["expr"] for target in panel["targets"])
    yield from (annotation["expr"] for annotation in DASHBOARD["annotations"]["list"])


def documented() -> dict[str, set[str]]:
    """Metric → labels, by docs/metrics.md, which tests compare with the product."""
    page = (DEPLOY.parent / "docs" / "metrics.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| \w+ \|([^|]*)\|", page, re.MULTILINE)
    return {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows}


def test_every_metric_exists_with_its_labels() -> None:
    metrics = documented()
    used = set()
    for query in queries():
        selectors = re.findall(r"\b((?:eventsched|scheduler|leader|process)_\w+)\{([^}]*)\}", query)
        assert selectors, query
        labels = set(re.findall(r"(\w+)\s*(?:=|!=)~?\"", query))
        labels |= {
            label.strip()
            for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", query)
            for label in group.split(",")
        }
        names = {re.sub(r"_(bucket|sum|count)$", "", name) for name, _ in selectors}
        assert names <= metrics.keys(), query
        assert labels - WORDS <= set().union(*(metrics[name] for name in names)), query
        used |= names
    assert {
        "scheduler_schedule_attempts_total", "scheduler_pod_scheduling_sli_duration_seconds",
        "scheduler_pending_pods", "eventsched_log_commit_duration_seconds",
        "leader_election_master_status", "eventsched_log_lag_records",
    } < used  # fmt: skip


def test_every_query_is_for_the_chosen_jobs() -> None:
    for query in queries():
        assert query.count("{") == query.count('{job=~"$job"'), query


@pytest.mark.process
def test_every_query_is_valid(tmp_path: Path) -> None:
    """By promtool, with the variables filled in."""
    rules = [
        {"record": f"panel:{number}", "expr": query.replace("$__rate_interval", "5m")}
        for number, query in enumerate(queries())
    ]
    (tmp_path / "rules.yaml").write_text(
        yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]})
    )
    promtool("check", "rules", "rules.yaml", folder=tmp_path)


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells
    identities = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(identities)) == len(identities)


@pytest.mark.process
def test_the_component_and_the_chart_have_the_same_dashboard(tmp_path: Path) -> None:
    """In a ConfigMap that Grafana's sidecar finds."""
    assert json.loads((CHART / "files" / "dashboard.json").read_text()) == DASHBOARD
    ours = templated(monitoring={"dashboard": True})
    theirs = with_components("replicas", ["dashboard"], tmp_path)
    for objects in (ours, theirs):
        (found,) = [
            each
            for each in of_kind(objects, "ConfigMap")
            if "dashboard" in each["metadata"]["name"]
        ]
        assert found["metadata"]["name"] == "eventsched-dashboard"
        assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert json.loads(found["data"]["eventsched.json"]) == DASHBOARD
    assert len(of_kind(templated(), "ConfigMap")) == 1
