"""Runs many seeds, each in a world of its own, every 20th twice; counts the cases reached."""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple

from .consulting import ConsultingWorld
from .extender_serving import ServingWorld
from .invariants import ViolationError
from .long_lived import LongLivedWorld
from .long_lived_mutants import LONG_LIVED_MUTANTS
from .mutants import MUTANTS, NONE
from .reloads import ReloadedWorld
from .restores import RestoredWorld
from .storage import StorageWorld
from .versions import VersionsWorld
from .versions_mutants import VERSIONS_MUTANTS
from .world import World

TWICE_EVERY = 20
WORLDS: dict[str, type[World]] = {
    "plain": World, "consulting": ConsultingWorld, "serving": ServingWorld,
    "storage": StorageWorld, "reloads": ReloadedWorld, "restores": RestoredWorld,
    "longlived": LongLivedWorld, "versions": VersionsWorld,
}  # fmt: skip
"""Worlds by the name that ``--world`` takes."""
MUTANTS_BY_WORLD: dict[str, Mapping[str, object]] = {
    "plain": MUTANTS,
    "longlived": LONG_LIVED_MUTANTS,
    "versions": VERSIONS_MUTANTS,
}
"""The mutants of a world, by name."""


class Outcome(NamedTuple):
    """The result of some seeds: counts by name, and a message for each seed that failed."""

    counts: Counter[str]
    violations: list[str]


def command(seed: int, *, lossy: bool = False, mutant: str = "", world: str = "plain") -> str:
    """The command that repeats a seed."""
    options = (" --lossy" if lossy else "") + (f" --mutant {mutant}" if mutant else "")
    if world != "plain":
        options += f" --world {world}"
    return f"python -m tests.faults --from {seed} --seeds 1{options}"


def world_of(seed: int, *, lossy: bool = False, mutant: str = "", world: str = "plain") -> World:
    """A seed's world, before it is run."""
    if world == "longlived" and mutant:
        return LongLivedWorld(seed, lossy=lossy, mutant=LONG_LIVED_MUTANTS[mutant])
    if world == "versions" and mutant:
        return VersionsWorld(seed, lossy=lossy, mutant=VERSIONS_MUTANTS[mutant])
    if world != "plain":
        return WORLDS[world](seed, lossy=lossy)
    classes = MUTANTS[mutant] if mutant else NONE
    return World(
        seed,
        lossy=lossy,
        make_leader=classes.make_leader,
        make_followed_stream=classes.make_followed_stream,
        database=classes.database,
    )


def run(
    seeds: Iterable[int], *, lossy: bool = False, mutant: str = "", world: str = "plain"
) -> Outcome:
    """Runs seeds one after the other; a violation ends its seed only."""
    outcome = Outcome(Counter(), [])
    for seed in seeds:
        made = partial(world_of, seed, lossy=lossy, mutant=mutant, world=world)
        first = made()
        try:
            first.run()
            if seed % TWICE_EVERY == 0:
                _compare(first, made().run())
                outcome.counts["run twice"] += 1
        except ViolationError as violation:
            repeat = command(seed, lossy=lossy, mutant=mutant, world=world)
            outcome.violations.append(f"{violation}\n    {repeat}")
        outcome.counts.update(first.counts)
    return outcome


def _compare(one: World, other: World) -> None:
    """Raises ViolationError unless two runs of a seed are equal, event by event."""
    for number, (left, right) in enumerate(zip(one.trace, other.trace, strict=False)):
        if left != right:
            raise ViolationError(
                f"seed {one.seed} step {left[0]}: run twice, event {number} differs: "
                f"{left} and {right}"
            )
    if one.database.head != other.database.head or len(one.trace) != len(other.trace):
        raise ViolationError(f"seed {one.seed} step {one.steps}: run twice, the logs differ")
