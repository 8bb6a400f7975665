"""What to name for the nodes that PreFilter left out, which have no verdict of their own.

If PreFilter refused the pod, the attempt has the plugin, and its message is the reason. If plugins
only named the nodes that they allow, the message of the attempt names these plugins. SQL has the
same (migrations/sql/0023_excluded.sql).
"""

import re
from typing import NamedTuple

from eventsched.domain.records.events import Outcome, PodDecided

EXCLUSION_CODE = "Excluded"
"""The code of such nodes, beside the status codes of plugins."""
NARROWED = re.compile(r"node\(s\) didn't satisfy plugin\(s\) \[([^]]+)\]")
"""The reason of nodes that plugins did not name (schedule_one.go, findNodesThatFitPod)."""


_OF_ALL_NODES = re.compile(
    r"0/\d+ nodes are available: (.+?)\."
    r"( preemption: .*| not found| no new claims to deallocate.*)?",
    re.DOTALL,
)
"""The message of an attempt that PreFilter ended: its reason, and what PostFilter added."""


class Exclusion(NamedTuple):
    """The plugin that left nodes out, several with spaces between, or None if the attempt names
    none."""

    plugin: str | None
    reason: str


UNNAMED = Exclusion(None, "PreFilter left the node out")


def bare_reason(reason: str) -> str:
    """A reason for people. That of nodes which PreFilter refused at once is the whole message of
    the attempt: here without the number of nodes, and what preemption found. Others stay."""
    found = _OF_ALL_NODES.fullmatch(reason)
    return reason if found is None else found[1]


def exclusion(plugin: str | None, message: str | None) -> Exclusion:
    """What to name of an attempt that failed and left all nodes out, by its plugin and message."""
    if plugin:
        return Exclusion(plugin, message or "")
    found = NARROWED.search(message or "")
    return UNNAMED if found is None else Exclusion(found[1], found[0])


def exclusion_of(decided: PodDecided) -> Exclusion:
    """What to name for the nodes that an attempt left out, beside its other verdicts. A plugin that
    ended the attempt after PreFilter left no node out."""
    if decided.outcome not in (Outcome.UNSCHEDULABLE, Outcome.ERROR):
        return UNNAMED
    return exclusion("" if decided.evaluated else decided.plugin, decided.message)
