"""Writes a case as a pytest file that imports only ``eventsched.testing``."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import yaml

from eventsched.runtime.queries.placed_pod import PlacedPod

_FILE = '''"""{title}

Run it by `pytest FILE`. It needs the packages eventsched and pytest; `python FILE` runs no test.
"""

from pathlib import Path

from eventsched.testing import placement

CLUSTER = r"""
{cluster}"""

CONFIGURATION = r"""
{configuration}"""

PLUGIN_FILES: list[Path] = {plugins}


def test_the_decision() -> None:
    found = placement(CLUSTER, "{pod}", CONFIGURATION.strip(), PLUGIN_FILES)
    assert found.nodes == {nodes}
    assert found.refusals == {refusals}
'''


class TestedDecision(NamedTuple):
    """A case: the objects of the cluster with the pod among them, and the verdict about it."""

    title: str
    objects: Sequence[Mapping[str, Any]]
    configuration: str
    pod: str
    expected: PlacedPod
    plugin_files: Sequence[str] = ()


def written(case: TestedDecision) -> str:
    """The file's text."""
    plugins = ", ".join(f"Path({name!r})" for name in case.plugin_files)
    documents = yaml.safe_dump_all(case.objects, sort_keys=False, default_flow_style=None, width=96)
    return _FILE.format(
        title=case.title,
        cluster=documents,
        configuration=case.configuration,
        pod=case.pod,
        plugins=f"[{plugins}]",
        nodes=_set(sorted(map(repr, case.expected.nodes))),
        refusals=_set(sorted(map(repr, case.expected.refusals))),
    )


def _set(items: Sequence[str]) -> str:
    if not items:
        return "frozenset()"
    if len(items) == 1:
        return f"{{{items[0]}}}"
    lines = "".join(f"        {item},\n" for item in items)
    return f"{{\n{lines}    }}"
