"""The Grafana dashboards of deploy/components/dashboard, and their queries."""

import json
from collections.abc import Iterator

from .rendering import DEPLOY, Object

FOLDER = DEPLOY / "components" / "dashboard"
KEYS = {
    "overview": "eventsched.json",
    "decisions": "eventsched-decisions.json",
    "log": "eventsched-log.json",
}
"""Board → its key in the ConfigMap."""
BOARDS: dict[str, Object] = {
    name: json.loads((FOLDER / f"{name}.json").read_text()) for name in KEYS
}
BY_PROMETHEUS = ("overview", "log")


def panels(board: str) -> Iterator[Object]:
    """Those that show something."""
    return (panel for panel in BOARDS[board]["panels"] if panel["type"] != "row")


def promql(board: str) -> Iterator[tuple[str, str]]:
    """Title → query, of panels and annotations."""
    for panel in panels(board):
        yield from ((panel["title"], target["expr"]) for target in panel["targets"])
    for annotation in BOARDS[board]["annotations"]["list"]:
        yield annotation["name"], annotation["expr"]


def with_values(query: str) -> str:
    """A query in PromQL with the variables filled in, for all jobs."""
    return query.replace("$__rate_interval", "5m").replace("$job", ".+")
