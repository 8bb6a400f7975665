"""The questions of another scheduler that has us as an extender, and the answers: the mirror image
of extender_questions.py (docs/extender-server.md).

Upstream: k8s.io/kube-scheduler/extender/v1 types.go.
"""

from eventsched.domain.objects import Pod
from eventsched.domain.records.extender_questions import Victims
from eventsched.domain.records.stimuli import Event, Stimulus


class ExtenderInquired(Stimulus, frozen=True, tag=True):
    """A scheduler asks about a pod, with a verb of extender_questions.py.

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
