"""What an attempt would have needed to choose a node: the answer to ``explain --why-not``."""

from dataclasses import dataclass

from eventsched.domain.records import PodUnreserved
from eventsched.history.why_not.search import Remedy
from eventsched.history.why_not.shortfall import Shortfall


@dataclass(frozen=True)
class WhyNot:
    """The remedies for one attempt and one node. ``decisions`` is how often the pod was decided
    again, which took ``seconds``. ``unasked`` says that there are extenders, which were not asked.
    ``given_up`` is how a plugin ended the reservation of the node, if the attempt had chosen it;
    ``group`` names the pod's group, "" for none. ``shortfall`` is of a feasible node that another
    one was chosen before."""

    pod: str
    attempt: int
    position: int
    node: str
    remedies: tuple[Remedy, ...]
    decisions: int
    seconds: float
    unasked: bool
    given_up: PodUnreserved | None = None
    group: str = ""
    shortfall: Shortfall | None = None
