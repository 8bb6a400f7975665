"""Refuses fields of pods, workloads and node templates that the Kubernetes API does not know, and
resources that no container may request.

An API server answers a misspelt field with a warning or an error. Here it would go unseen, and a
pod whose ``reqests`` are not read fits anywhere. Only what scheduling reads is checked, and the
objects on the way to it: what is within a probe or a lifecycle hook places no pod.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from eventsched.cluster.translate.fields import Field, excerpt
from eventsched.domain import near_names

TYPES = {
    "Affinity": "nodeAffinity:NodeAffinity podAffinity:PodAffinity podAntiAffinity:PodAntiAffinity",
    "Container": """
        args command env envFrom image imagePullPolicy lifecycle livenessProbe name
        ports:ContainerPort readinessProbe resizePolicy resources:ResourceRequirements
        restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce
        terminationMessagePath terminationMessagePolicy tty volumeDevices volumeMounts
        workingDir""",
    "ContainerPort": "containerPort hostIP hostPort name protocol",
    "Deployment": "apiVersion kind metadata:ObjectMeta spec:DeploymentSpec status",
    "DeploymentSpec": """
        minReadySeconds paused progressDeadlineSeconds replicas revisionHistoryLimit
        selector:LabelSelector strategy template:PodTemplateSpec""",
    "EphemeralContainer": """
        args command env envFrom image imagePullPolicy lifecycle livenessProbe name
        ports:ContainerPort readinessProbe resizePolicy resources:ResourceRequirements
        restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce
        targetContainerName terminationMessagePath terminationMessagePolicy tty volumeDevices
        volumeMounts workingDir""",
    "EphemeralVolumeSource": "volumeClaimTemplate:PersistentVolumeClaimTemplate",
    "Job": "apiVersion kind metadata:ObjectMeta spec:JobSpec status",
    "JobSpec": """
        activeDeadlineSeconds backoffLimit backoffLimitPerIndex completionMode completions
        managedBy manualSelector maxFailedIndexes parallelism podFailurePolicy
        podReplacementPolicy scheduling selector:LabelSelector successPolicy suspend
        template:PodTemplateSpec ttlSecondsAfterFinished""",
    "LabelSelector": "matchExpressions:LabelSelectorRequirement matchLabels",
    "LabelSelectorRequirement": "key operator values",
    "Node": "apiVersion kind metadata:ObjectMeta spec:NodeSpec status:NodeStatus",
    "NodeAffinity": """
        preferredDuringSchedulingIgnoredDuringExecution:PreferredSchedulingTerm
        requiredDuringSchedulingIgnoredDuringExecution:NodeSelector""",
    "NodeSelector": "nodeSelectorTerms:NodeSelectorTerm",
    "NodeSelectorRequirement": "key operator values",
    "NodeSelectorTerm": """
        matchExpressions:NodeSelectorRequirement matchFields:NodeSelectorRequirement""",
    "NodeSpec": """
        configSource externalID podCIDR podCIDRs podPreemptionPolicy providerID taints:Taint
        unschedulable""",
    "NodeStatus": """
        addresses allocatable capacity conditions config daemonEndpoints declaredFeatures features
        images nodeInfo phase runtimeHandlers volumesAttached volumesInUse""",
    "ObjectMeta": """
        annotations creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers
        generateName generation labels managedFields name namespace ownerReferences
        resourceVersion selfLink uid""",
    "PersistentVolumeClaim": """
        apiVersion kind metadata:ObjectMeta spec:PersistentVolumeClaimSpec status""",
    "PersistentVolumeClaimSpec": """
        accessModes dataSource dataSourceRef resources:VolumeResourceRequirements
        selector:LabelSelector storageClassName volumeAttributesClassName volumeMode volumeName""",
    "PersistentVolumeClaimTemplate": "metadata:ObjectMeta spec:PersistentVolumeClaimSpec",
    "PersistentVolumeClaimVolumeSource": "claimName readOnly",
    "Pod": "apiVersion kind metadata:ObjectMeta spec:PodSpec status",
    "PodAffinity": """
        preferredDuringSchedulingIgnoredDuringExecution:WeightedPodAffinityTerm
        requiredDuringSchedulingIgnoredDuringExecution:PodAffinityTerm""",
    "PodAffinityTerm": """
        labelSelector:LabelSelector matchLabelKeys mismatchLabelKeys
        namespaceSelector:LabelSelector namespaces topologyKey""",
    "PodAntiAffinity": """
        preferredDuringSchedulingIgnoredDuringExecution:WeightedPodAffinityTerm
        requiredDuringSchedulingIgnoredDuringExecution:PodAffinityTerm""",
    "PodResourceClaim": "name resourceClaimName resourceClaimTemplateName",
    "PodSchedulingGate": "name",
    "PodSchedulingGroup": "podGroupName",
    "PodSpec": """
        activeDeadlineSeconds affinity:Affinity automountServiceAccountToken
        containers:Container dnsConfig dnsPolicy enableServiceLinks
        ephemeralContainers:EphemeralContainer evictionResponders hostAliases hostIPC
        hostNetwork hostPID hostUsers hostname hostnameOverride imagePullSecrets
        initContainers:Container nodeName nodeSelector os overhead preemptionPolicy priority
        priorityClassName readinessGates resourceClaims:PodResourceClaim
        resources:ResourceRequirements restartPolicy runtimeClassName schedulerName
        schedulingGates:PodSchedulingGate schedulingGroup:PodSchedulingGroup securityContext
        serviceAccount serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain
        terminationGracePeriodSeconds tolerations:Toleration
        topologySpreadConstraints:TopologySpreadConstraint volumes:Volume""",
    "PodTemplateSpec": "metadata:ObjectMeta spec:PodSpec",
    "PreferredSchedulingTerm": "preference:NodeSelectorTerm weight",
    "ReplicaSet": "apiVersion kind metadata:ObjectMeta spec:ReplicaSetSpec status",
    "ReplicaSetSpec": "minReadySeconds replicas selector:LabelSelector template:PodTemplateSpec",
    "ReplicationController": """
        apiVersion kind metadata:ObjectMeta spec:ReplicationControllerSpec status""",
    "ReplicationControllerSpec": "minReadySeconds replicas selector template:PodTemplateSpec",
    "ResourceRequirements": "claims limits requests",
    "StatefulSet": "apiVersion kind metadata:ObjectMeta spec:StatefulSetSpec status",
    "StatefulSetSpec": """
        minReadySeconds ordinals persistentVolumeClaimRetentionPolicy podManagementPolicy
        replicas revisionHistoryLimit selector:LabelSelector serviceName
        template:PodTemplateSpec updateStrategy volumeClaimTemplates:PersistentVolumeClaim""",
    "Taint": "effect key timeAdded value",
    "Toleration": "effect key operator tolerationSeconds value",
    "TopologySpreadConstraint": """
        labelSelector:LabelSelector matchLabelKeys maxSkew minDomains nodeAffinityPolicy
        nodeTaintsPolicy topologyKey whenUnsatisfiable""",
    "Volume": """
        awsElasticBlockStore azureDisk azureFile cephfs cinder configMap csi downwardAPI
        emptyDir ephemeral:EphemeralVolumeSource fc flexVolume flocker gcePersistentDisk gitRepo
        glusterfs hostPath image iscsi name nfs
        persistentVolumeClaim:PersistentVolumeClaimVolumeSource photonPersistentDisk
        portworxVolume projected quobyte rbd scaleIO secret storageos vsphereVolume""",
    "VolumeResourceRequirements": "limits requests",
    "WeightedPodAffinityTerm": "podAffinityTerm:PodAffinityTerm weight",
}
"""The fields of the API's types (Kubernetes v1.37), in the order of the alphabet: ``name``, or
``name:Type`` if the value, or each item of a list, is of a type of the table."""
_KEPT = {"ObjectMeta": ("clusterName", "initializers")}
"""Fields of former versions, which old manifests may still have."""
_CONTAINER_RESOURCES = ("cpu", "memory", "ephemeral-storage")
"""Resources of containers without a domain, beside hugepages (pkg/apis/core/helper,
IsStandardContainerResourceName)."""


def refuse_unknown_fields(obj: Mapping[str, Any], kind: str, where: str) -> None:
    """Raises InputError for the first field that an object of a kind does not have. Kinds that the
    table does not have may have any field. ``where`` names file and object."""
    if kind in TYPES:
        _check(Field(obj, where), kind)


def _check(field: Field, kind: str) -> None:
    """Checks a value of a type. One that is neither an object nor a list is for its reader."""
    if type(field.value) is list:
        for item in field.items():
            if type(item.value) is dict:
                _check(item, kind)
        return
    if type(field.value) is not dict:
        return
    known = _fields(kind)
    for name in field.value:
        within = known.get(name)
        if within is None:
            shown = name if isinstance(name, str) else excerpt(name)
            remedy = near_names.offer(shown, known) or "remove it"
            raise Field(None, field, shown).wrong(f"{kind} has no such field", remedy)
        if within:
            _check(field.get(name), within)
    if kind == "ResourceRequirements":
        _check_resource_names(field.get("requests"))
        _check_resource_names(field.get("limits"))


def _check_resource_names(amounts: Field) -> None:
    """Refuses a resource without a domain that is not a container's. Source:
    pkg/apis/core/validation, validateContainerResourceName."""
    if type(amounts.value) is not dict:
        return
    for name in amounts.value:
        if type(name) is not str or "/" in name or name.startswith("hugepages-"):
            continue
        if name not in _CONTAINER_RESOURCES:
            remedy = near_names.offer(
                name, _CONTAINER_RESOURCES, "write it with its domain, such as nvidia.com/gpu"
            )
            raise Field(None, amounts, name).wrong("is not a resource of containers", remedy)


@cache
def _fields(kind: str) -> dict[str, str]:
    """The fields of a type, each with the type of its value, "" for one that is not checked."""
    pairs = (entry.partition(":") for entry in TYPES[kind].split())
    return {name: within for name, _, within in pairs} | dict.fromkeys(_KEPT.get(kind, ()), "")
