"""python -m tests.conformance.oracle.generate SEED COUNT [KIND …] > scenarios.jsonl

Scenarios SEED, SEED + 1, … of each kind, one JSON object a line. Without a kind, the fourteen
random ones; ``rules`` stands for all kinds of named rules, ``edges`` for those with numbers at the
edges of int64. The output of a seed never changes, so other sets than the stored ones can be
generated too.
"""

import json
import sys
from collections.abc import Iterator, Sequence

from tests.conformance.oracle import kinds, rules
from tests.conformance.oracle.clusters import Obj

STORED = {
    "scenarios.jsonl.gz": (1, 40, list(kinds.KINDS)),
    "scenarios-more.jsonl.gz": (1, 20, list(rules.KINDS)),
    "scenarios-edges.jsonl.gz": (1, 60, list(rules.EDGES)),
}
_RULES = {**rules.KINDS, **rules.EDGES}


def scenarios(seed: int, count: int, names: Sequence[str]) -> Iterator[Obj]:
    """The scenarios of some kinds, seed by seed. Raises KeyError for an unknown kind."""
    for number in range(seed, seed + count):
        for name in names:
            if name in _RULES:
                yield _RULES[name].scenario(number)
            else:
                yield kinds.scenario(number, name)


def line(made: Obj) -> str:
    """A scenario as it is stored."""
    return json.dumps(made, separators=(",", ":"))


def main(arguments: Sequence[str]) -> int:
    """Print scenarios."""
    if len(arguments) < 2 or not all(each.isdigit() for each in arguments[:2]):
        print(__doc__, file=sys.stderr)
        return 2
    names = list(arguments[2:]) or list(kinds.KINDS)
    if names == ["rules"]:
        names = list(rules.KINDS)
    if names == ["edges"]:
        names = list(rules.EDGES)
    if unknown := set(names) - {*kinds.KINDS, *_RULES}:
        print(f"no such kind: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    for made in scenarios(int(arguments[0]), int(arguments[1]), names):
        print(line(made))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
