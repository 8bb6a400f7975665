"""Any number of seeds, on all cores: ``python -m tests.faults --seeds 5000 --lossy``.

Exits with 1 if an invariant was violated; with ``--mutant`` that is expected.
"""

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from . import campaign

CHUNK = 25
SHOWN = 20


def main() -> int:
    """Runs the seeds that the arguments name, and prints what happened."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many (1000)")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first one (0)")
    parser.add_argument("--lossy", action="store_true", help="failovers that lose batches")
    mutants = {name: world for world, own in campaign.MUTANTS_BY_WORLD.items() for name in own}
    parser.add_argument("--mutant", choices=sorted(mutants), default="", help="remove a rule")
    parser.add_argument("--world", choices=[*campaign.WORLDS, "all"], default="plain")
    args = parser.parse_args()
    if args.mutant:
        args.world = mutants[args.mutant]
    worlds = list(campaign.WORLDS) if args.world == "all" else [args.world]
    return max(_run(world, args) for world in worlds)


def _run(world: str, args: argparse.Namespace) -> int:
    """Runs the seeds in one world; returns 1 after a violation."""
    began = time.monotonic()
    end = args.first + args.seeds
    chunks = [range(at, min(at + CHUNK, end)) for at in range(args.first, end, CHUNK)]
    counts: Counter[str] = Counter()
    violations: list[str] = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        work = partial(campaign.run, lossy=args.lossy, mutant=args.mutant, world=world)
        for outcome in pool.map(work, chunks):
            counts.update(outcome.counts)
            violations += outcome.violations
    for name in sorted(counts):
        print(f"{counts[name]:>9}  {name}")
    for violation in violations[:SHOWN]:
        print(violation)
    took = time.monotonic() - began
    kind = "with failovers" if args.lossy else "clean"
    print(f"{world}: {args.seeds} seeds {kind} in {took:.1f} s: {len(violations)} with a violation")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
