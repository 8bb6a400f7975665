"""The records about extenders, in both directions.

Upstream: k8s.io/kube-scheduler/extender/v1 types.go.
"""

from eventsched.domain.objects import Frozen, Pod
from eventsched.domain.records.record import Event, Stimulus

FILTER, PRIORITIZE, PREEMPT, BIND = "filter", "prioritize", "preempt", "bind"
"""The verbs."""


class Victims(Frozen, frozen=True):
    """The pods that would have to leave a node (uids, the most important first), and how many of
    these evictions violate a disruption budget."""

    uids: tuple[str, ...]
    violations: int = 0


# --- we call an extender during an attempt (ADR 13) ---------------------------------------
#
# Attempts are made one after the other, so at most one of them has questions. Nodes are named by
# their rows, which no other node gets before the answer; many rows are written as ranges
# (domain/nodes/row_ranges.py).


class ExtenderAsked(Event, frozen=True, tag=True):
    """An attempt needs an extender's answer. It starts again from the beginning with the answer.

    ``extender`` is the extender's place in the configuration, ignorable ones last; ``name`` is its
    URL. ``nodes`` are the ``number`` rows in question, as ranges; for ``preempt``, ``candidates``
    has the victims by node name.
    """

    uid: str
    attempt: int
    extender: int
    name: str
    verb: str
    nodes: str = ""
    number: int = 0
    candidates: dict[str, Victims] = {}


class ExtenderAnswered(Stimulus, frozen=True, tag=True):
    """An extender (``name`` is its URL) has answered the open question or has failed; ``problem``
    says how it failed.

    - ``filter``: nodes pass that are neither ``failed`` nor ``unresolvable``. Both are reason →
      rows, as ranges; the reason is "" for nodes that the answer leaves out.
    - ``prioritize``: ``scores`` are 0..10, each with its rows; other rows have 0.
    - ``preempt``: ``victims`` are those of each remaining node.

    ``remark`` says what was wrong with an answer that counts nevertheless; ``duration`` is in µs.
    """

    uid: str
    attempt: int
    extender: int
    verb: str
    name: str = ""
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    scores: tuple[tuple[int, str], ...] = ()
    victims: dict[str, Victims] = {}
    problem: str = ""
    remark: str = ""
    duration: int = 0


# --- another scheduler calls us as its extender (docs/extender-server.md) ------------------


class ExtenderInquired(Stimulus, frozen=True, tag=True):
    """A scheduler asks about a pod, with one of the verbs.

    ``number`` identifies the request within the process. ``sent`` is the pod in the request if its
    uid is unknown. ``nodes`` are the rows in question, as ranges; ``strange`` are the names of
    unknown nodes. For ``bind``, ``node`` is the node to bind to; for ``preempt``, ``candidates``
    are the victims on each node.
    """

    number: int
    uid: str
    verb: str
    sent: Pod | None = None
    nodes: str = ""
    strange: tuple[str, ...] = ()
    node: str = ""
    candidates: dict[str, Victims] = {}


class ExtenderReplied(Event, frozen=True, tag=True):
    """The answer to the ExtenderInquired of the same step, or ``problem``: why there is none.

    - ``filter``: nodes pass that are known and neither ``failed`` nor ``unresolvable`` (reason →
      rows, as ranges).
    - ``prioritize``: ``scores`` are 1..10, each with its rows; other rows have 0.
    - ``preempt``: ``victims`` are those of each remaining node.
    - ``bind``: ``node`` is reserved for the pod in that ``attempt``. There is no attempt if the pod
      is already on the node, or with ``waits`` if its bind to the node is under way.
    """

    number: int
    uid: str
    verb: str
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    scores: tuple[tuple[int, str], ...] = ()
    victims: dict[str, Victims] = {}
    node: str = ""
    attempt: int = 0
    waits: bool = False
    problem: str = ""
