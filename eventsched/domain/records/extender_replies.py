"""What a scheduler asks us as its extender, and what it is answered: the mirror image of
extender_questions.py (docs/extender-server.md).

Upstream: k8s.io/kube-scheduler/extender/v1 types.go.
"""

from eventsched.domain.objects import Pod
from eventsched.domain.records.extender_questions import Victims
from eventsched.domain.records.stimuli import Event, Stimulus


class ExtenderInquired(Stimulus, frozen=True, tag=True):
    """A scheduler asks about a pod, with a verb of extender_questions.py.

    ``number`` tells it from others that the process is asked. ``sent`` is the pod as it was sent,
    where its uid is not known. ``nodes`` are the rows that are asked about, as ranges; ``strange``
    the names of nodes that are not known. Of ``bind`` ``node`` is where the pod is to go; of
    ``preempt`` ``candidates`` are the victims on each node.
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
    """The answer to the ExtenderInquired of the same step; or ``problem``, why there is none.

    Of ``filter`` those nodes pass that are neither ``failed`` nor ``unresolvable`` (reason → rows,
    as ranges), nor strange. Of ``prioritize`` ``scores`` are 1..10, each with its rows; who is in
    none has 0. Of ``preempt`` ``victims`` are those of each node that is left. Of ``bind``
    ``node`` is held for the pod in that ``attempt`` from now on; where it is on the node already,
    or is on its way there, there is no attempt, and ``waits`` says which of the two.
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
