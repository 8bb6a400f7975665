"""What the files around the code say about the project: its version, its Pythons, the parts of
CI."""

import re
import tomllib
from typing import Any

import yaml

from eventsched import __version__
from tests.databases import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOW: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
JOBS: dict[str, Any] = WORKFLOW["jobs"]


def test_there_is_one_version() -> None:
    chart = yaml.safe_load((ROOT / "deploy/helm/Chart.yaml").read_text())
    assert {PROJECT["version"], chart["version"], chart["appVersion"]} == {__version__}


def test_continuous_integration_runs_every_part_of_the_gate() -> None:
    usage = re.search(
        r"^#\s+\.ci/run ((?:\[\w+\] ?)+)", (ROOT / ".ci/run").read_text(), re.MULTILINE
    )
    assert usage is not None
    parts = set(re.findall(r"\w+", usage[1]))
    steps = [step.get("run", "") for job in JOBS.values() for step in job["steps"]]
    run = [step.split()[1:] for step in steps if step.startswith(".ci/run")]
    assert {part for each in run for part in each} == parts
    assert all(len(job["steps"]) and "timeout-minutes" in job for job in JOBS.values())


def test_each_night_properties_are_tried_on_more_cases() -> None:
    """By a target of the Makefile that the gate, which has to be quick, does not run."""
    workflow = yaml.safe_load((ROOT / ".github/workflows/nightly.yml").read_text())
    assert [each["cron"] for each in workflow[True]["schedule"]]  # YAML 1.1 reads "on" so
    steps = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    assert "make test-examples" in steps
    assert "test-examples" not in (ROOT / ".ci/run").read_text()
    recipe = re.search(
        r"^test-examples:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    assert recipe is not None
    assert "EVENTSCHED_EXAMPLES=$(EXAMPLES)" in recipe[1]
    users = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(r"environ\.get\(.EVENTSCHED_EXAMPLES", path.read_text())
    }
    assert users == set(re.findall(r"tests/\S+\.py", recipe[1]))


def test_the_pythons_that_are_tested_are_those_that_are_named() -> None:
    tested = JOBS["test"]["strategy"]["matrix"]["python"]
    begin = "Programming Language :: Python :: 3."
    named = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if each.startswith(begin)]
    assert tested == named
    assert PROJECT["requires-python"] == f">={tested[0]}"


def test_forms_for_issues_ask_for_something() -> None:
    for path in sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml")):
        form = yaml.safe_load(path.read_text())
        assert {"name", "description", "body"} <= form.keys()
        fields = [field for field in form["body"] if field["type"] != "markdown"]
        assert len({field["id"] for field in fields}) == len(fields)
        assert any(field.get("validations", {}).get("required") for field in fields)
