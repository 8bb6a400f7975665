"""``python -m tests.cluster.harness.soak --kills 200``: the campaign of test_kills.py at full
length."""

import argparse
import sys

from tests.cluster.harness.campaign import BOUNDARIES, MOMENTS, ROUND, Campaign
from tests.cluster.harness.plane import ControlPlane
from tests.databases import migrate, servers, serving


def main() -> int:
    """Kills the scheduler so often, in campaigns of their own namespace and log each; says what
    each was like, and in the end what was hit how often. 1 if there were enough kills, and yet
    a boundary was never met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--each", type=int, default=50, help="kills of one campaign")
    parser.add_argument("--from", type=int, default=1, dest="first", help="the first one's seed")
    options = parser.parse_args()
    hit = dict.fromkeys([*BOUNDARIES, *MOMENTS], 0)
    with serving(servers()[-1]) as postgres, ControlPlane() as plane:
        seed, left = options.first, options.kills
        while left > 0:
            with postgres.fresh(migrate) as database, plane.namespace() as namespace:
                with Campaign(plane, database, namespace, seed) as campaign:
                    campaign.kill(min(options.each, left), lambda said: print(said, flush=True))
                    outcome = campaign.settle()
                    print(f"seed {seed}: {outcome}", flush=True)
                    for name, count in outcome.moments.items():
                        hit[name] += count
                plane.sweep()
            seed, left = seed + 1, left - options.each
    for name, count in hit.items():
        print(f"{count:5} {name}")
    never = sorted(name for name, count in hit.items() if not count)
    if never:
        print(f"never met: {', '.join(never)}")
    return 1 if never and options.kills >= 2 * ROUND else 0


if __name__ == "__main__":
    sys.exit(main())
