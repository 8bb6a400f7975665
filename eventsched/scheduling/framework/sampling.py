"""Samples that plugins ask for, and what the log stores of them.

A plugin declares an attribute ``samples``, a ``Sampling``. A live process queries the samples at
intervals and passes them to the engine as ``SamplesTaken``. Plugins read ``nodes.sampled(source)``.
"""

from collections.abc import Iterable
from math import isfinite
from typing import Any

import msgspec

from eventsched.domain.errors import InputError
from eventsched.domain.records import SamplesTaken


class Sampling(msgspec.Struct, frozen=True):
    """A query to the Prometheus server at ``address`` every ``interval`` (s). ``query`` is PromQL
    whose results name their node in ``label``. The values are valid for ``max_age`` (s)."""

    source: str
    address: str
    query: str
    label: str
    interval: float
    max_age: float


def wanted(plugins: Iterable[Any]) -> list[Sampling]:
    """The distinct samplings of the plugins, by source. Raises InputError if two of them differ and
    have the same source."""
    by_source: dict[str, Sampling] = {}
    for plugin in plugins:
        sampling = getattr(plugin, "samples", None)
        if sampling is None:
            continue
        if by_source.setdefault(sampling.source, sampling) != sampling:
            raise InputError(
                f"plugin {plugin.name}: source",
                f"two profiles ask different things under the name {sampling.source}",
                "give one of them another source, or both the same arguments",
            )
    return [by_source[source] for source in sorted(by_source)]


def of_nodes(taken: SamplesTaken, nodes: Iterable[str]) -> SamplesTaken:
    """The record for the log, with only finite numbers of nodes in the cluster. If there were
    values and none is left, its ``problem`` says so."""
    known = set(nodes)
    values = {n: value for n, value in taken.values.items() if n in known and isfinite(value)}
    if len(values) == len(taken.values):
        return taken
    problem = taken.problem
    if not values:
        few = ", ".join(sorted(map(str, taken.values))[:3])
        few = few.encode(errors="backslashreplace").decode()
        problem = problem or f"there are no numbers for nodes of the cluster, but for {few}"
    return msgspec.structs.replace(taken, values=values, problem=problem)
