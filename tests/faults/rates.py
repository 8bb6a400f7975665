"""Rates of happenings and failures in a world, drawn for each run."""

from random import Random

from eventsched.cluster.messages import BindPod, PatchStatus, WriteEvent
from eventsched.runtime.leader.leader_messages import Acquire

HAPPENINGS = {
    "crash": 0.004, "start": 0.012, "pause": 0.004, "break watch": 0.01,
    "create pods": 0.06, "delete pod": 0.02, "mark pod deleting": 0.004,
    "label pod": 0.008, "open gate": 0.01, "foreign bind": 0.008, "foreign pod": 0.006,
    "delete node": 0.005, "add node": 0.02, "label node": 0.006, "fail over": 0.004,
    "change namespace": 0.012,
}  # fmt: skip
"""Probability of each in a step."""
ALWAYS = {"create pods", "start", "fail over"}
"""Happenings whose rate is never 0."""
FAILURES = {
    "lose request": 0.04, "lose answer": 0.05, "give up waiting": 0.06, "lose bind": 0.12,
    "hold bind": 0.15, "hold report": 0.1, "repeat watch": 0.05, "fail over after commit": 0.01,
    "crash in step": 0.008, "crash when delicate": 0.04,
}  # fmt: skip
"""Probability of each at every occasion."""
HELD: dict[type, str] = {
    Acquire: "hold bind", BindPod: "hold bind",
    PatchStatus: "hold report", WriteEvent: "hold report",
}  # fmt: skip
"""Requests that may be in flight for long, with the rate that applies."""


def drawn(rng: Random, lossy: bool) -> dict[str, float]:
    """Rates by name: in one run some are 0 and others high (swarm testing)."""
    drawn_rates = {
        name: rate * (1 if name in ALWAYS else rng.choice([0, 0.5, 1, 3]))
        for name, rate in HAPPENINGS.items()
    }
    for name, rate in FAILURES.items():
        drawn_rates[name] = rate * rng.choice([0, 0.5, 1, 5])
    if not lossy:
        drawn_rates["fail over"] = drawn_rates["fail over after commit"] = 0
    return drawn_rates
