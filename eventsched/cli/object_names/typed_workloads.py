"""Workloads as they are typed for ``explain``: which ones a begun word may become."""

from typing import NamedTuple

from eventsched.domain.workload_kinds import (
    GROUP,
    POD_GROUP,
    SHORT_KINDS,
    kind_of,
)

_SHORT_KINDS = {**SHORT_KINDS, POD_GROUP: GROUP}


class TypedWorkload(NamedTuple):
    """Workloads or pod groups of a kind, or pods if that is ``Pod``. ``prefix`` is the part of the
    word before their names, such as ``shop/deploy/``. An empty namespace means any."""

    prefix: str
    kind: str
    namespace: str


def typed_workloads(word: str) -> list[TypedWorkload]:
    """The workloads whose names may complete a word. Until a kind is typed, these are those whose
    short kinds begin as it does; none for an empty word, which would be all of them."""
    *before, begun = word.split("/")
    if len(before) > 2:
        return []
    if before and (kind := kind_of(before[-1])) is not None:
        prefix = word.removesuffix(begun)
        return [TypedWorkload(prefix, kind, before[0] if len(before) == 2 else "")]
    if not begun or len(before) > 1:
        return []
    namespace = before[0] if before else ""
    prefix = word.removesuffix(begun)
    return [
        TypedWorkload(f"{prefix}{short}/", kind, namespace)
        for kind, short in _SHORT_KINDS.items()
        if short.startswith(begun)
    ]
