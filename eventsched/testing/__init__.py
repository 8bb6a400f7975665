"""What a test of a plugin needs: nodes, pods, and a scheduler that runs the plugin.

    from eventsched.testing import make_node, make_pod, scheduled_to, scores, verdicts

    assert verdicts(FastDisk(), make_pod(), [make_node("a")]) == {"a": "node(s) had no fast disk"}

``verdicts`` and ``scores`` ask one plugin about some nodes; ``scheduled_to`` runs it among
kube-scheduler's default plugins. For what takes more than one attempt there is the engine itself:
``engine_with`` makes one, ``observed`` tells it what happened, ``attempted`` has it schedule, and
both return the records that come of it. Nothing here needs a cluster, a database or a clock: times
are microseconds that the test chooses.
"""

from eventsched.domain.units import SECOND
from eventsched.testing.answers import Answered, scheduled_to, scores, verdicts
from eventsched.testing.engines import (
    PROFILE,
    attempted,
    engine_of,
    engine_with,
    observed,
    records_of,
    typed,
)
from eventsched.testing.objects import GIB, added, make_node, make_pod

__all__ = [
    "GIB",
    "PROFILE",
    "SECOND",
    "Answered",
    "added",
    "attempted",
    "engine_of",
    "engine_with",
    "make_node",
    "make_pod",
    "observed",
    "records_of",
    "scheduled_to",
    "scores",
    "typed",
    "verdicts",
]
