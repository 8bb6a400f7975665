"""A fixed piece of work. Its CPU time, taken beside what is measured, shows how fast the machine is
at that moment: other programs share its caches and its clock."""

import time

import msgspec
import numpy as np

_ROWS = 1_000
_FREE = np.arange(_ROWS, dtype=np.int64) * 7_919 % 64_000
_NAMES = [f"node-{row:05}" for row in range(_ROWS)]
_REPEATS = 20


def cpu_ms() -> float:
    """The CPU time (ms) of the work, the mean of some runs."""
    before = time.process_time()
    for number in range(_REPEATS):
        work(number)
    return (time.process_time() - before) * 1000 / _REPEATS


def work(number: int) -> int:
    """What a scheduler does: compares columns, sorts, and builds and encodes small objects. Returns
    a number that depends on all of it."""
    total = 0
    for step in range(8):
        least = (number + step) * 1_000 % 32_000
        fits = np.flatnonzero(least <= _FREE)
        order = fits[np.argsort(_FREE[fits], kind="stable")]
        total += int(order[len(order) // 2])
    found = {name: (row, len(name)) for row, name in enumerate(_NAMES)}
    best = sorted(found, key=lambda name: found[name][0] * 31 % 1_009)[:200]
    return total + len(
        msgspec.json.encode([{"node": name, "row": found[name][0]} for name in best])
    )
