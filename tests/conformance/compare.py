"""python -m tests.conformance.compare [KIND …] [--scenarios FILE --golden FILE] [--show N]

Prints per kind how many answers are those of upstream, and the first differences.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.answers import Case, Difference, cases, differences, stored


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the comparison; 1 if a pod differs, 2 if there is no scenario."""
    options = _options(arguments)
    if options.scenarios:
        found = cases(options.scenarios, options.golden)
    else:
        found = list(stored().values())
    kinds = options.kinds or list(dict.fromkeys(case.kind for case in found))
    outcome = 0
    for kind in kinds:
        chosen = [case for case in found if kind in (case.kind, case.id)]
        if not chosen:
            print(f"{kind}: no such kind or scenario", file=sys.stderr)
            return 2
        outcome |= not _report(kind, chosen, options.show)
    return outcome


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance.compare",
        description="Hold our answers against the golden ones.",
    )
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="a kind or a scenario's id")
    parser.add_argument("--scenarios", type=Path, help="instead of those in tests/conformance")
    parser.add_argument("--golden", type=Path, help="the oracle's answers to --scenarios")
    parser.add_argument("--show", type=int, default=3, metavar="N", help="differing pods a kind")
    options = parser.parse_args(arguments)
    if (options.scenarios is None) != (options.golden is None):
        parser.error("--scenarios and --golden go together")
    return options


def _report(kind: str, chosen: list[Case], show: int) -> bool:
    pods = 0
    differing: list[tuple[str, list[Difference]]] = []
    for case in chosen:
        for _, found in differences(case):
            pods += 1
            if found:
                differing.append((case.id, found))
    print(f"{kind}: {pods - len(differing)} of {pods} pods equal")
    if differing:
        fields = Counter(each for _, found in differing for each in {_where(d) for d in found})
        print("  pods by field: " + ", ".join(f"{name} {n}" for name, n in fields.most_common(8)))
    for id_, found in differing[:show]:
        print(f"  {id_}")
        for difference in found[:6]:
            print(f"    {difference.pod} {difference.field}")
            print(f"      ours   {difference.ours!r}")
            print(f"      theirs {difference.theirs!r}")
        if len(found) > 6:
            print(f"    and {len(found) - 6} more")
    sys.stdout.flush()
    return not differing


def _where(difference: Difference) -> str:
    parts = difference.field.split(".")
    return ".".join(parts[:2]) if parts[0] == "scores" else parts[0]


if __name__ == "__main__":
    sys.exit(main())
