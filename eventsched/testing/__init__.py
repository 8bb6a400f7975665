"""Tools for testing a plugin: nodes, pods, and a scheduler that runs the plugin.

    from eventsched.testing import make_node, make_pod, scheduled_to, scores, verdicts

    assert verdicts(FastDisk(), make_pod(), [make_node("a")]) == {"a": "node(s) had no fast disk"}

``verdicts`` and ``scores`` call one plugin for some nodes; ``scheduled_to`` runs it together with
kube-scheduler's default plugins. For more than one attempt use the engine itself: ``engine_with``
makes one, ``observed`` passes stimuli to it, ``attempted`` makes a scheduling attempt; both return
the resulting records. ``STREAM_STARTED`` is the first stimulus of a new stream. Nothing here needs
a cluster, a database or a clock: the test chooses the times, in microseconds.
"""

from eventsched.domain.units import SECOND
from eventsched.runtime.queries.placed_pod import PlacedPod
from eventsched.testing.answers import Answered, scheduled_to, scores, verdicts
from eventsched.testing.engines import (
    PROFILE,
    STREAM_STARTED,
    attempted,
    engine_of,
    engine_with,
    observed,
    records_of,
    typed,
)
from eventsched.testing.objects import GIB, added, make_node, make_pod
from eventsched.testing.placements import placement

__all__ = [
    "GIB",
    "PROFILE",
    "SECOND",
    "STREAM_STARTED",
    "Answered",
    "PlacedPod",
    "added",
    "attempted",
    "engine_of",
    "engine_with",
    "make_node",
    "make_pod",
    "observed",
    "placement",
    "records_of",
    "scheduled_to",
    "scores",
    "typed",
    "verdicts",
]
