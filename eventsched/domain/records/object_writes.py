"""Changes of objects that PreBind may ask of the cluster, as data. The pod's bind waits for them.

They are in the log before they are sent. Each holds all that it needs and has no effect if the
object shows it already, so it may be repeated. Upstream: plugins/volumebinding/binder.go
bindAPIUpdate.
"""

from eventsched.domain.objects import Frozen
from eventsched.domain.objects.registry import title


class BindVolume(Frozen, frozen=True, tag_field="type", tag=True):
    """Reserve an existing volume for a claim by its ``spec.claimRef``. The volume controller
    completes the binding."""

    volume: str
    namespace: str
    claim: str
    claim_uid: str = ""

    def __str__(self) -> str:
        claim = title("PersistentVolumeClaim", self.namespace, self.claim)
        return f"PersistentVolume {self.volume} for {claim}"


class SelectNode(Frozen, frozen=True, tag_field="type", tag=True):
    """Trigger provisioning for a claim, for pods on a node, by the claim's annotation
    ``volume.kubernetes.io/selected-node``."""

    namespace: str
    claim: str
    node: str
    claim_uid: str = ""

    def __str__(self) -> str:
        claim = title("PersistentVolumeClaim", self.namespace, self.claim)
        return f"a volume for {claim} on {self.node}"


Write = BindVolume | SelectNode
