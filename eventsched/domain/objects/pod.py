"""A pod as scheduling reads it. Made by eventsched.cluster.translate.manifest from API objects and
stored in stimuli.
"""

from eventsched.domain.objects import pod_requests
from eventsched.domain.objects.frozen import Frozen
from eventsched.domain.objects.pod_spec import PodSpec


class Owner(Frozen, frozen=True):
    """The controller that owns a pod. ``foreign`` says that its kind has the name of a built-in
    kind but another API group (such as StatefulSet of apps.kruise.io)."""

    kind: str
    name: str
    uid: str = ""
    foreign: bool = False


class PodVolume(Frozen, frozen=True):
    """A volume of a pod that its placement may depend on. One of three fields says what it is:

    - ``claim``: the name of a claim in the pod's namespace, with ``ephemeral`` a claim that belongs
      to the pod. A claim volume without a name has the source persistentVolumeClaim instead.
    - ``driver``: the CSI driver of an inline volume.
    - ``source``: the type of an in-tree disk, as the API's field is called. ``identity`` then
      distinguishes disks of that type: (pdName,) for gcePersistentDisk; (volumeID,) for
      awsElasticBlockStore, cinder and portworxVolume; (iqn,) for iscsi; (pool, image, *monitors)
      for rbd; (diskURI, kind) for azureDisk; empty for all others.
    """

    name: str = ""
    claim: str = ""
    ephemeral: bool = False
    read_only: bool = False
    driver: str = ""
    source: str = ""
    identity: tuple[str, ...] = ()


class Pod(Frozen, frozen=True):
    """A pod. ``uid`` identifies it; ``priority`` is the resolved number; ``created_at`` and
    ``started_at`` are in microseconds, 0 if unset; ``gates`` are the names in spec.schedulingGates.
    Volumes are not part of the spec: the pods of a stateful set have equal specs and different
    volumes. ``displaced`` says that the pod is being deleted to make room (condition
    DisruptionTarget, reason PreemptionByScheduler)."""

    uid: str
    name: str
    namespace: str = "default"
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner: Owner | None = None
    priority: int = 0
    scheduler_name: str = "default-scheduler"
    node_name: str = ""
    gates: tuple[str, ...] = ()
    deleting: bool = False
    created_at: int = 0
    spec: PodSpec = PodSpec()
    volumes: tuple[PodVolume, ...] = ()
    resource_claims: tuple[str, ...] = ()
    preemption_policy: str = ""
    nominated_node: str = ""
    started_at: int = 0
    displaced: bool = False

    @property
    def full_name(self) -> str:
        """``namespace/name``, as people and upstream's messages write it."""
        return f"{self.namespace}/{self.name}"

    def requests(self, resource: str) -> int:
        """How much of a resource the pod requests: containers, init containers, sidecars, pod-level
        requests and overhead as kube-scheduler counts them. ``cpu`` in millicores, memory and
        storage in bytes, all else as a count; 0 if it requests none."""
        return pod_requests.of(self.spec).effective.get(resource, 0)
