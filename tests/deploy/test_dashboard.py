"""The dashboards: their queries are valid, and use metrics and labels that the product has. The
queries in SQL are run by tests/postgres/test_dashboard_queries.py."""

import json
import re
from functools import reduce
from pathlib import Path

import pytest
import yaml

from .boards import BOARDS, BY_PROMETHEUS, KEYS, panels, promql, with_values
from .chart import CHART, templated
from .promtool import promtool
from .rendering import DEPLOY, of_kind, with_components

WORDS = {"job", "instance", "le"}
"""Labels that Prometheus adds, and that of buckets."""


def documented() -> dict[str, set[str]]:
    """Metric → labels, by docs/metrics.md, which tests compare with the product."""
    page = (DEPLOY.parent / "docs" / "metrics.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| \w+ \|([^|]*)\|", page, re.MULTILINE)
    return {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows}


@pytest.mark.parametrize(
    ("board", "shown"),
    [
        (
            "overview",
            {
                "scheduler_schedule_attempts_total",
                "scheduler_pod_scheduling_sli_duration_seconds",
                "scheduler_pending_pods",
                "leader_election_master_status",
                "eventsched_log_lag_records",
            },
        ),
        (
            "log",
            {
                "eventsched_log_commit_duration_seconds",
                "eventsched_log_head_records",
                "eventsched_log_epoch",
                "eventsched_checkpoints_total",
                "eventsched_log_partition_records_ahead",
                "eventsched_database_size_bytes",
            },
        ),
    ],
)
def test_every_metric_exists_with_its_labels(board: str, shown: set[str]) -> None:
    metrics = documented()
    used = set()
    for _, query in promql(board):
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
    assert shown < used


@pytest.mark.parametrize("board", BY_PROMETHEUS)
def test_every_query_is_for_the_chosen_jobs(board: str) -> None:
    for _, query in promql(board):
        assert query.count("{") == query.count('{job=~"$job"'), query


@pytest.mark.process
@pytest.mark.parametrize("board", BY_PROMETHEUS)
def test_every_query_is_valid(board: str, tmp_path: Path) -> None:
    """By promtool, with the variables filled in."""
    rules = [
        {"record": f"panel:{number}", "expr": with_values(query)}
        for number, (_, query) in enumerate(promql(board))
    ]
    (tmp_path / "rules.yaml").write_text(
        yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]})
    )
    promtool("check", "rules", "rules.yaml", folder=tmp_path)


REQUIRED = {
    "stat": {
        "options": {
            "colorMode", "graphMode", "justifyMode", "orientation", "percentChangeColorMode",
            "reduceOptions", "showPercentChange", "textMode", "wideLayout",
        },
    },
    "table": {"options": {"frameIndex", "showHeader"}, "fieldConfig.defaults.custom": {"inspect"}},
    "timeseries": {
        "options": {"legend", "tooltip"},
        "options.legend": {"calcs", "displayMode", "placement", "showLegend"},
        "options.tooltip": {"mode", "sort"},
    },
}  # fmt: skip
"""Type of a panel → the fields at a path that Grafana's types require: what UnmarshalJSONStrict of
github.com/grafana/grafana-foundation-sdk/go v0.0.22 accepts."""
LINK = {"asDropdown", "icon", "includeVars", "keepTime", "tags", "targetBlank", "title", "tooltip",
        "type", "url"}  # fmt: skip


@pytest.mark.parametrize("board", BOARDS)
def test_every_panel_has_the_fields_that_its_type_requires(board: str) -> None:
    assert BOARDS[board]["schemaVersion"] == 39
    for panel in panels(board):
        for path, fields in REQUIRED[panel["type"]].items():
            place = reduce(lambda within, name: within[name], path.split("."), panel)
            assert fields <= place.keys(), (panel["title"], path)
        assert {"x", "y", "w", "h"} == panel["gridPos"].keys()
        assert [target["refId"] for target in panel["targets"]] == sorted(
            {target["refId"] for target in panel["targets"]}
        )
    links = [*BOARDS[board]["links"], *(each for p in panels(board) for each in p.get("links", ()))]
    assert links
    assert all(each.keys() >= LINK for each in links)
    for variable in BOARDS[board]["templating"]["list"]:
        assert variable["type"] in ("datasource", "query", "textbox")
        assert {"text", "value"} <= variable["current"].keys() or variable["type"] == "textbox"


@pytest.mark.parametrize("board", BOARDS)
def test_panels_do_not_overlap(board: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARDS[board]["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells
    identities = [panel["id"] for panel in BOARDS[board]["panels"]]
    assert len(set(identities)) == len(identities)


@pytest.mark.parametrize("board", BOARDS)
def test_every_panel_says_what_it_shows(board: str) -> None:
    """In a description, with a unit, from a data source that a variable of the board chooses."""
    variables = {each["name"] for each in BOARDS[board]["templating"]["list"]}
    for panel in panels(board):
        title = panel["title"]
        assert panel.get("description"), title
        assert panel["fieldConfig"]["defaults"].get("unit"), title
        sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert {source["uid"].strip("${}") for source in sources} <= variables, title


def test_the_boards_link_to_each_other() -> None:
    uids = {board["uid"] for board in BOARDS.values()}
    assert len(uids) == len({board["title"] for board in BOARDS.values()}) == 3
    for board in BOARDS.values():
        (link,) = board["links"]
        assert link["type"] == "dashboards"
        assert all(set(link["tags"]) <= set(other["tags"]) for other in BOARDS.values())
    linked = set(re.findall(r'"/d/([\w-]+)', json.dumps(list(BOARDS.values()))))
    assert linked
    assert linked <= uids


@pytest.mark.process
def test_the_component_and_the_chart_have_the_same_dashboards(tmp_path: Path) -> None:
    """In a ConfigMap that Grafana's sidecar finds."""
    folder = CHART / "files" / "dashboards"
    assert {each.stem: json.loads(each.read_text()) for each in folder.iterdir()} == BOARDS
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
        assert {key: json.loads(text) for key, text in found["data"].items()} == {
            KEYS[name]: board for name, board in BOARDS.items()
        }
    assert len(of_kind(templated(), "ConfigMap")) == 1
