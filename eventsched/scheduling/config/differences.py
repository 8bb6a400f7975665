"""The effective differences between two configurations, a line for each."""

from collections.abc import Iterator, Sequence
from typing import Any

from eventsched.scheduling.config.completion import arguments, completed
from eventsched.scheduling.config.resolution import ResolvedProfile
from eventsched.scheduling.config.sections import Configuration

Resolved = tuple[Configuration, Sequence[ResolvedProfile]]


def differences(old: Resolved, new: Resolved) -> Iterator[str]:
    """Lines such as ``profiles[a].plugins.score: NodeAffinity weight 2 → 5``: the fields outside
    the profiles first, then each profile's."""
    fields = [{**completed(*resolved), "profiles": None} for resolved in (old, new)]
    yield from _changed(fields[0], fields[1], "")
    # A profile without its own percentage follows the global one, which is reported already.
    shares = tuple(loaded.percentage_of_nodes_to_score for loaded, _ in (old, new))
    before = {profile.name: profile for profile in old[1]}
    after = {profile.name: profile for profile in new[1]}
    for name in {**before, **after}:
        where = f"profiles[{name}]"
        if name not in after:
            yield f"{where}: removed"
        elif name not in before:
            yield f"{where}: added"
        else:
            share = before[name].percentage, after[name].percentage
            if share[0] != share[1] and share != shares:
                yield f"{where}.percentageOfNodesToScore: {share[0]} → {share[1]}"
            yield from _profile_changes(before[name], after[name], where)


def _profile_changes(old: ResolvedProfile, new: ResolvedProfile, where: str) -> Iterator[str]:
    for point in old.points:
        yield from _list_changes(old.points[point], new.points[point], f"{where}.plugins.{point}")
    for name, weight in old.weights.items():
        if new.weights.get(name, weight) != weight:
            yield f"{where}.plugins.score: {name} weight {weight} → {new.weights[name]}"
    for name in sorted(old.typed.keys() & new.typed.keys()):
        if old.typed[name] is not None and new.typed[name] is not None:
            before, after = (arguments(name, profile.typed[name]) for profile in (old, new))
            yield from _changed(before, after, f"{where}.pluginConfig[{name}].args")


def _list_changes(old: Sequence[str], new: Sequence[str], where: str) -> Iterator[str]:
    yield from (f"{where}: {name} removed" for name in old if name not in new)
    yield from (f"{where}: {name} added" for name in new if name not in old)
    before = [name for name in old if name in new]
    after = [name for name in new if name in old]
    if before != after:
        yield f"{where}: order {', '.join(before)} → {', '.join(after)}"


def _changed(old: Any, new: Any, where: str) -> Iterator[str]:
    """The fields and items that differ; one that is on one side only is unset on the other."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in {**old, **new}:
            place = f"{where}.{name}" if where else name
            yield from _changed(old.get(name), new.get(name), place)
    elif isinstance(old, list) and isinstance(new, list):
        for i in range(max(len(old), len(new))):
            before, after = (items[i] if i < len(items) else None for items in (old, new))
            yield from _changed(before, after, f"{where}[{i}]")
    elif old != new:
        yield f"{where}: {_text(old)} → {_text(new)}"


def _text(value: Any) -> str:
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_text(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    return str(value) if value != "" else "''"
