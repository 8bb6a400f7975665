"""What small workloads come to, record by record, as digests: a lock on behaviour for changes that
must not change any.

    python -m tests.simulate.behaviour      # rewrites behaviour.json

Rewrite it only with a change that is meant to decide otherwise, has its own tests, and keeps old
logs replayable (eventsched/domain/behaviours.py).
"""

import json
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

from eventsched.cluster.sources import load
from eventsched.domain.records.verdicts import Detail
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.runtime.assembly import assemble
from eventsched.runtime.simulation.resumption import new_or_resumed
from tests.databases import ROOT

FILE = Path(__file__).with_name("behaviour.json")
EVERY = 100
"""Records from one digest to the next: so closely a difference is located."""
_UNTIL = 900_000_000
_HISTORIES = ROOT / "tests/histories"
_GENERATED = (
    "nodes=8,pods=120,shape=plain,seed=1",
    "nodes=8,pods=120,shape=plain,seed=2,rate=20,runtime=5",
    "nodes=12,pods=150,shape=mixed,seed=1",
    "nodes=12,pods=150,shape=mixed,seed=2,rate=10,runtime=8",
    "nodes=9,pods=100,shape=mixed,seed=3,rate=100,runtime=30",
    "nodes=130,pods=60,shape=mixed,seed=4",
    "nodes=5,pods=80,shape=tight,seed=1",
    "nodes=10,pods=120,shape=tight,seed=2",
)
_FILES = ("nodes", "quotas", "topologies", "pods", "samples")


def workloads() -> list[str]:
    """Their names: generated loads, the examples, and those of tests/histories."""
    examples = (each.parent for each in (ROOT / "examples").glob("*/config.yaml"))
    with_pods = [each for each in examples if (each / "pods.yaml").exists()]
    recorded = ("defaults", "gallery", "importance")
    return [*_GENERATED, *sorted(f"examples/{each.name}" for each in with_pods), *recorded]


def summary(workload: str) -> dict[str, Any]:
    """How many records of each kind it makes, and a digest of all so far after every ``EVERY``
    records and at the end. They cover times, causes, bodies and vectors, but not the first record,
    which names versions and sources."""
    log = _run(workload)
    digest, kinds, found = blake2b(digest_size=8), Counter[str](), list[str]()
    stored = list(log.read(1))
    for number, each in enumerate(stored, start=1):
        kinds[each.kind] += 1
        digest.update(repr((each.position, each.at, each.cause, each.body)).encode())
        for part in _vectors(log.detail(each.position)):
            digest.update(part)
        if number % EVERY == 0 or number == len(stored):
            found.append(digest.hexdigest())
    return {"kinds": dict(sorted(kinds.items())), "digests": found}


def _run(workload: str) -> MemoryEventLog:
    generate, config, files = None, None, []
    if "=" in workload:
        generate = workload
    elif workload.startswith("examples/"):
        config = ROOT / workload / "config.yaml"
        named = (ROOT / workload / f"{each}.yaml" for each in _FILES)
        files = [each for each in named if each.exists()]
    else:
        given = _HISTORIES / f"{workload}-config.yaml"
        config = given if given.exists() else None
        files = [_HISTORIES / f"{workload}.yaml"]
    assembly = assemble(config)
    source = load.read(nodes=None, pods=None, objects=files, generate=generate)
    log = MemoryEventLog("s")
    simulation = new_or_resumed(
        assembly, source.of_profiles(assembly.profiles), log, "seed", None, None
    )
    simulation.run(_UNTIL)
    return log


def _vectors(detail: Detail | None) -> Iterator[bytes]:
    if detail is None:
        return
    for column in (detail.codes, *detail.scores, *detail.normalized):
        yield b"-" if column is None else column.astype("<i8").tobytes()


if __name__ == "__main__":
    FILE.write_text(json.dumps({each: summary(each) for each in workloads()}, indent=1) + "\n")
