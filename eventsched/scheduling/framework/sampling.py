"""Samples that plugins want: what they say of it, and what of an answer the log gets to see.

A plugin has an attribute ``samples``, a ``Sampling``; whoever runs a live scheduler asks for them
now and then, and tells the engine as ``SamplesTaken``. Plugins read ``nodes.sampled(source)``.
"""

from collections.abc import Iterable
from math import isfinite
from typing import Any

import msgspec

from eventsched.domain.errors import InputError
from eventsched.domain.records import SamplesTaken


class Sampling(msgspec.Struct, frozen=True):
    """What to ask a Prometheus server at ``address`` every ``interval`` (s): ``query`` is PromQL
    of which each result names its node in ``label``. The values hold for ``max_age`` (s)."""

    source: str
    address: str
    query: str
    label: str
    interval: float
    max_age: float


def wanted(plugins: Iterable[Any]) -> list[Sampling]:
    """What the plugins want, each once, by source. Raises InputError where two want different
    things under one name."""
    found: dict[str, Sampling] = {}
    for plugin in plugins:
        sampling = getattr(plugin, "samples", None)
        if sampling is None:
            continue
        if found.setdefault(sampling.source, sampling) != sampling:
            raise InputError(
                f"plugin {plugin.name}: source",
                f"two profiles ask different things under the name {sampling.source}",
                "give one of them another source, or both the same arguments",
            )
    return [found[source] for source in sorted(found)]


def of_nodes(taken: SamplesTaken, nodes: Iterable[str]) -> SamplesTaken:
    """The record that the log gets: numbers only, and of nodes in the cluster only. Where that
    leaves nothing of something, its problem says so."""
    known = set(nodes)
    kept = {n: value for n, value in taken.values.items() if n in known and isfinite(value)}
    if len(kept) == len(taken.values):
        return taken
    problem = taken.problem
    if not kept:
        few = ", ".join(sorted(map(str, taken.values))[:3])
        few = few.encode(errors="backslashreplace").decode()
        problem = problem or f"there are no numbers for nodes of the cluster, but for {few}"
    return msgspec.structs.replace(taken, values=kept, problem=problem)
