"""What ``explain --why-not -o json`` prints is what docs/why-not.schema.json says."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import jsonschema
import msgspec
import pytest

from eventsched.domain.objects import HostPort, Taint
from eventsched.domain.records import PodUnreserved
from eventsched.history.why_not.changes import AnyChange
from eventsched.history.why_not.hypothesis import Landing
from eventsched.history.why_not.search import Remedy
from eventsched.history.why_not.shortfall import ScoreDifference, Shortfall
from eventsched.history.why_not.why_not_answer import WhyNot
from eventsched.output.why_not_output import why_not_json, why_not_text

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "why-not.schema.json").read_text())
VALUES: dict[Any, Any] = {
    int: 1, int | None: 1, str: "required_affinity",
    HostPort: HostPort(port=80), Taint: Taint(key="k"),
}  # fmt: skip
LANDING = Landing(False, ("NodeResourcesFit",), ("Insufficient cpu",))


def problems(remedies: tuple[Remedy, ...], shortfall: Shortfall | None = None) -> list[str]:
    found = WhyNot("default/p", 1, 7, "n1", remedies, 3, 0.1, unasked=False, shortfall=shortfall)
    document = json.loads(json.dumps(why_not_json(found, "main")))
    validator = jsonschema.Draft202012Validator(SCHEMA)
    return [error.message for error in validator.iter_errors(document)]


@pytest.mark.parametrize("kind", get_args(AnyChange))
def test_a_change_is_what_the_schema_says(kind: type[AnyChange]) -> None:
    change = kind(*(VALUES[field.type] for field in msgspec.structs.fields(kind)))
    assert problems((Remedy(LANDING, (change,)),)) == []


def test_the_schema_has_no_other_kinds() -> None:
    kinds = {each["$ref"].rpartition("/")[2] for each in SCHEMA["$defs"]["change"]["oneOf"]}
    assert kinds == {kind.__name__ for kind in get_args(AnyChange)}


SHORTFALL = Shortfall(8, "n2", (ScoreDifference("Fit", 1, 10), ScoreDifference("Image", 3, 2)))


def test_a_node_that_is_short_of_points() -> None:
    behind = (Remedy(Landing(lands=False, behind=8)),)
    assert problems(behind, SHORTFALL) == []
    found = WhyNot("default/p", 1, 7, "n1", behind, 3, 0.1, unasked=False, shortfall=SHORTFALL)
    assert why_not_text(found).splitlines()[0] == (
        "default/p and n1 at attempt 1: feasible, 8 points short of n2: Fit -9, Image +1"
    )
    found = replace(found, shortfall=Shortfall(0, "n2", ()))
    assert "feasible, as good as n2, and the draw decides\n" in why_not_text(found)


def test_a_node_that_takes_the_pod_and_one_that_never_does() -> None:
    assert problems((Remedy(Landing(lands=True)),)) == []
    assert problems((Remedy(LANDING, stuck=LANDING),)) == []
    ended = PodUnreserved(uid="p", node="n1", plugin="Coscheduling", message="late")
    whole = WhyNot(
        "default/p", 1, 7, "n1", (Remedy(Landing(lands=True)),), 3, 0.1, unasked=False,
        given_up=ended, group="default/group/train",
    )  # fmt: skip
    document = why_not_json(whole, "main")
    assert jsonschema.Draft202012Validator(SCHEMA).is_valid(json.loads(json.dumps(document)))
    assert document["givenUp"] == (
        "the node takes it, but Coscheduling gave it up: late; see `eventsched explain "
        "default/group/train`"
    )
    broken = WhyNot("default/p", 1, 7, "n1", (Remedy(LANDING),), 3, 0.1, unasked=False)
    document = why_not_json(replace(broken, attempt="one"), "main")  # type: ignore[arg-type]
    assert not jsonschema.Draft202012Validator(SCHEMA).is_valid(document)
