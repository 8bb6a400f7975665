"""Changes of objects that a pod's bind waits for: what PreBind may ask of the cluster, as data.

They stand in the log before they leave. Each says all that it needs, and asks for nothing where the
object shows it already: so it may be repeated. Upstream: plugins/volumebinding/binder.go
bindAPIUpdate.
"""

from eventsched.domain.objects import Frozen
from eventsched.domain.objects.registry import title


class BindVolume(Frozen, frozen=True, tag_field="type", tag=True):
    """Promise a volume that is there to a claim: its ``spec.claimRef``. The volume controller does
    the rest."""

    volume: str
    namespace: str
    claim: str
    claim_uid: str = ""

    def __str__(self) -> str:
        claim = title("PersistentVolumeClaim", self.namespace, self.claim)
        return f"PersistentVolume {self.volume} for {claim}"


class SelectNode(Frozen, frozen=True, tag_field="type", tag=True):
    """Ask for a volume to be made for a claim, for pods on a node: the claim's annotation
    ``volume.kubernetes.io/selected-node``."""

    namespace: str
    claim: str
    node: str
    claim_uid: str = ""

    def __str__(self) -> str:
        claim = title("PersistentVolumeClaim", self.namespace, self.claim)
        return f"a volume for {claim} on {self.node}"


Write = BindVolume | SelectNode


class Prepare(Frozen, frozen=True):
    """The effect: make a change that the bind of a pod's attempt waits for; ``decision`` is the
    position in the stream of the record that says so."""

    uid: str
    attempt: int
    decision: int
    write: Write
