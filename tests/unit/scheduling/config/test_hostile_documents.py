"""Configurations with values that YAML and JSON allow, and no configuration may have."""

import json

import pytest

from eventsched.domain.errors import InputError
from eventsched.process import settings
from eventsched.scheduling.config.configuration import API_VERSION, KIND, load

HEAD = f"apiVersion: {API_VERSION}\nkind: {KIND}\n"


def as_json(field: str, value: str) -> str:
    return json.dumps({"apiVersion": API_VERSION, "kind": KIND, field: 0})[:-2] + value + "}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (as_json("parallelism", "9" * 5_000), "a number has too many digits"),
        (f"{HEAD}parallelism: 0x{'f' * 5_000}\n", "not YAML"),
        (as_json("profiles", '[{"schedulerName":"\\ud800"}]'), "half of a surrogate pair"),
        (f'{HEAD}profiles: [{{schedulerName: "\\ud800"}}]\n', "half of a surrogate pair"),
        (f"{HEAD}extenders: [{{httpTimeout: '{'9' * 300_000}'}}]\n", "is not a duration"),
    ],
    ids=["number", "hex", "surrogate in JSON", "surrogate in YAML", "duration"],
)
def test_it_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        load(text, "config.yaml")
    assert caught.value.where.startswith("config.yaml")


def test_aliases_may_not_stand_for_billions_of_values() -> None:
    levels = ["&a0 [x,x,x,x,x,x,x,x,x,x]"]
    levels += [f"&a{level} [{','.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 9)]
    with pytest.raises(InputError, match="stands for more than 1000000 values"):
        load(f"{HEAD}profiles: [{', '.join(levels)}]\n", "config.yaml")


def test_settings_that_are_nested_too_deeply() -> None:
    with pytest.raises(InputError, match="nested too deeply"):
        settings.load("a: " + "[" * 1_000, "config.yaml")
