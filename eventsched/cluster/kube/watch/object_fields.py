"""The fields that scheduling reads from the JSON of API objects.

The decoder skips all other fields, which are most of an object. These types only select fields:
what the fields mean and which values are invalid is decided in
``eventsched.cluster.translate.manifest``.
"""

from typing import Any, TypedDict

from msgspec import UNSET, Raw, Struct, UnsetType

Part = Raw | UnsetType
"""JSON that is passed on undecoded."""


class PodMetadata(Struct, omit_defaults=True, gc=False, rename="camel"):
    """ObjectMeta of a pod."""

    name: str
    namespace: str | None = None
    uid: str | None = None
    resource_version: str = ""
    labels: Part = UNSET
    annotations: Part = UNSET
    owner_references: Part = UNSET
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class ContainerFields(Struct, omit_defaults=True, gc=False, rename="camel"):
    """A container or init container. Volume mounts are left out: their names differ in each pod."""

    name: Part = UNSET
    image: Part = UNSET
    resources: Part = UNSET
    ports: Part = UNSET
    restart_policy: Part = UNSET
    restart_policy_rules: Part = UNSET


class Volume(Struct, omit_defaults=True, gc=False, rename="camel"):
    """A volume with the sources that placement can depend on."""

    name: str | None = None
    persistent_volume_claim: Part = UNSET
    ephemeral: Part = UNSET
    csi: Part = UNSET
    image: Part = UNSET
    gce_persistent_disk: Part = UNSET
    aws_elastic_block_store: Part = UNSET
    iscsi: Part = UNSET
    rbd: Part = UNSET
    azure_disk: Part = UNSET
    azure_file: Part = UNSET
    cinder: Part = UNSET
    portworx_volume: Part = UNSET
    vsphere_volume: Part = UNSET


class PodSpecFields(Struct, omit_defaults=True, gc=False, rename="camel"):
    """A PodSpec."""

    node_name: str | None = None
    containers: list[ContainerFields] | None = None
    init_containers: list[ContainerFields] | None = None
    volumes: list[Volume] | None = None
    overhead: Part = UNSET
    resources: Part = UNSET
    node_selector: Part = UNSET
    tolerations: Part = UNSET
    affinity: Part = UNSET
    topology_spread_constraints: Part = UNSET
    host_users: Part = UNSET
    host_network: Part = UNSET
    priority: Part = UNSET
    scheduler_name: Part = UNSET
    preemption_policy: Part = UNSET
    scheduling_gates: Part = UNSET
    resource_claims: Part = UNSET


class ContainerStatus(Struct, omit_defaults=True, gc=False, rename="camel"):
    """A container's status: its actual resources."""

    name: Part = UNSET
    resources: Part = UNSET
    allocated_resources: Part = UNSET


class ConditionFields(Struct, omit_defaults=True, gc=False, rename="camel"):
    """A pod's condition."""

    type: str | None = None


class PodStatusFields(Struct, omit_defaults=True, gc=False, rename="camel"):
    """A PodStatus."""

    phase: str | None = None
    nominated_node_name: str | None = None
    start_time: str | None = None
    conditions: list[ConditionFields] | None = None
    resources: Part = UNSET
    allocated_resources: Part = UNSET
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class PodFields(Struct, omit_defaults=True, gc=False, rename="camel"):
    """A core/v1 Pod."""

    metadata: PodMetadata
    spec: PodSpecFields | None = None
    status: PodStatusFields | None = None


class PodOutline(Struct, gc=False, rename="camel"):
    """A core/v1 Pod with its spec undecoded."""

    metadata: PodMetadata
    spec: Part = UNSET
    status: PodStatusFields | None = None


class RawEvent(Struct, gc=False):
    """A line of a watch."""

    type: str
    object: Raw


class ListMeta(Struct, rename={"resource_version": "resourceVersion", "next": "continue"}):
    """A meta/v1 ListMeta. ``next`` (``continue``) is set if there are further pages."""

    resource_version: str = ""
    next: str | None = None


class ListFields(Struct):
    """A page of a list."""

    metadata: ListMeta
    items: list[Raw] | None = None


class AnyMetadata(TypedDict, total=False):
    """ObjectMeta of objects other than pods."""

    name: Any
    namespace: Any
    uid: Any
    resourceVersion: Any
    labels: Any
    annotations: Any
    ownerReferences: Any
    creationTimestamp: Any
    deletionTimestamp: Any


class NodeSpec(TypedDict, total=False):
    """A NodeSpec."""

    taints: Any
    unschedulable: Any


class NodeStatus(TypedDict, total=False):
    """A NodeStatus. ``images`` stay undecoded, because many nodes have the same ones."""

    allocatable: Any
    capacity: Any
    images: list[Raw]
    declaredFeatures: Any


class NodeFields(TypedDict, total=False):
    """A core/v1 Node."""

    metadata: AnyMetadata
    spec: NodeSpec
    status: NodeStatus


class Selecting(TypedDict, total=False):
    """A spec with a pod template: only its selector is read."""

    selector: Any


class PodSet(TypedDict, total=False):
    """A ReplicaSet, StatefulSet or ReplicationController."""

    metadata: AnyMetadata
    spec: Selecting


class Object(TypedDict, total=False):
    """An object of any other resource."""

    metadata: AnyMetadata
    spec: Any
    status: Any
    provisioner: Any
    volumeBindingMode: Any
    allowedTopologies: Any
    storageClassName: Any
    capacity: Any
    maximumVolumeSize: Any
    nodeTopology: Any
    topologyPolicies: Any
    attributes: Any
    zones: Any
