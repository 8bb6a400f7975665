"""Configurations, compared with kube-scheduler's own reading: accepted or refused, and the plugins
of each profile at each point, in order, score with weight.

``configs.jsonl`` has typical configurations, ``configs-more.jsonl`` edge cases: types, nulls,
quirks of YAML, the bounds of every field, orders of multiPoint, every plugin's arguments.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from eventsched.plugins import IN_TREE
from eventsched.scheduling.config.checking import Checked, check
from eventsched.scheduling.config.completion import completed
from eventsched.scheduling.config.differences import differences

FOLDER = Path(__file__).parent


def _lines(name: str) -> dict[str, dict[str, Any]]:
    body = (FOLDER / name).read_bytes()
    text = gzip.decompress(body) if name.endswith(".gz") else body
    return {row["id"]: row for row in map(json.loads, text.splitlines())}


DOCUMENTS = _lines("configs.jsonl") | _lines("configs-more.jsonl")
GOLDENS = _lines("configs-golden.jsonl") | _lines("configs-golden-more.jsonl.gz")

READ_ON_PURPOSE = {"v1beta2", "v1beta3"}
"""Versions that upstream has dropped; here they are read, with a warning."""

KNOWN_HERE = {"coscheduling"}
"""Documents that name a plugin which eventsched has and kube-scheduler has not."""

STRICTER_ON_PURPOSE = {
    # The oracle does not run profile.NewMap, where kube-scheduler refuses these.
    "qs-args-first-only",
    "qs-args-differ-multi",
    # A version that is for Go's own use only.
    "args-type-16",
    # Bytes as a list of numbers, which only Go's JSON knows.
    "ext-25",
}


def _checked(id_: str) -> Checked:
    return check(DOCUMENTS[id_]["config"], id_, IN_TREE)


def _shown(checked: Checked) -> dict[str, dict[str, list[str]]]:
    """The profiles in the golden's form."""
    return {
        profile.name: {
            point: [f"{n}={profile.weights[n]}" if point == "score" else n for n in names]
            for point, names in profile.points.items()
            if names
        }
        for profile in checked.profiles
    }


def test_the_goldens_are_all_here() -> None:
    assert GOLDENS.keys() == DOCUMENTS.keys()
    assert len(_lines("configs-golden.jsonl")) == 83
    assert len(GOLDENS) > 850


@pytest.mark.parametrize("id_", DOCUMENTS)
def test_a_document_is_taken_as_upstream_takes_it(id_: str) -> None:
    checked = _checked(id_)
    golden = GOLDENS[id_]
    if id_ in READ_ON_PURPOSE:
        assert not checked.problems
        assert "is deprecated" in checked.warnings[0]
        assert _shown(checked) == GOLDENS["empty"]["profiles"]
    elif id_ in STRICTER_ON_PURPOSE:
        assert golden["accepted"]
        assert checked.problems
    elif id_ in KNOWN_HERE:
        assert "does not exist" in golden["error"]
        assert not checked.problems
    elif golden["accepted"]:
        assert [str(problem) for problem in checked.problems] == []
        assert _shown(checked) == golden["profiles"]
    else:
        assert checked.problems
        assert all(str(problem).startswith(f"{id_}: ") for problem in checked.problems)


def test_written_out_a_document_means_the_same() -> None:
    taken = [each for each in map(_checked, DOCUMENTS) if not each.problems]
    assert len(taken) > 400
    for old in taken:
        text = yaml.safe_dump(completed(old.configuration, old.profiles))
        new = check(text, "written out", IN_TREE)
        assert not new.problems
        pair = ((each.configuration, each.profiles) for each in (old, new))
        assert list(differences(*pair)) == []
