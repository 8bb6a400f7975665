"""API objects in all shapes: as servers print them, and as they must never come."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

Object = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

ODD: tuple[Any, ...] = (
    None,
    0,
    7,
    -1,
    1.5,
    True,
    "",
    "x",
    "yesterday",
    [],
    [None],
    {},
    {"x": None},
    10**30,
)
"""Values that most fields must not have."""


def fields(needed: str = "", /, **known: st.SearchStrategy[Any]) -> st.SearchStrategy[Object]:
    """A mapping with any of these fields (always with those that are needed), and at times an
    unknown one."""
    there = {name: known.pop(name) for name in needed.split()}
    return st.fixed_dictionaries(there, optional={**known, "futureField": st.sampled_from(ODD)})


@st.composite
def spoiled(draw: st.DrawFn, sane: st.SearchStrategy[Object]) -> Object:
    """An object as it is, or with one or two of its values, at any depth, made odd."""
    obj = deepcopy(draw(sane))
    for _ in range(draw(st.sampled_from([0, 0, 1, 1, 1, 2]))):
        if places := list(_places(obj)):
            holder, key = draw(st.sampled_from(places))
            holder[key] = deepcopy(draw(st.sampled_from(ODD)))
    return obj


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Everything in a value that can be replaced, as its holder and key."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in list(items):
        yield value, key
        if isinstance(each, dict | list):
            yield from _places(each)


def listed(each: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[list[Any]]:
    return st.lists(each, max_size=most)


words = st.sampled_from(["a", "b", "zone", "example.com/x", "ü"])
texts = st.dictionaries(words, words, max_size=3)
times = st.sampled_from(["2026-03-01T10:00:00Z", "2026-03-01T10:00:00.5+02:00"])
amounts = st.sampled_from(["1", "250m", "1Gi", 3, 0.5, "0"])
resources = st.dictionaries(st.sampled_from(["cpu", "memory", "x.io/gpu"]), amounts, max_size=3)
requirements = fields(
    "key operator",
    key=words,
    operator=st.sampled_from(["In", "NotIn", "Exists", "Gt"]),
    values=listed(words),
)
selectors = fields(matchLabels=texts, matchExpressions=listed(requirements))
node_terms = fields(matchExpressions=listed(requirements), matchFields=listed(requirements))
pod_terms = fields(
    topologyKey=words,
    labelSelector=selectors,
    namespaces=listed(words),
    namespaceSelector=selectors,
    matchLabelKeys=listed(words),
    mismatchLabelKeys=listed(words),
)
weights = st.integers(1, 100)
near = fields(
    **{
        REQUIRED: listed(pod_terms, 2),
        PREFERRED: listed(fields("weight", weight=weights, podAffinityTerm=pod_terms), 2),
    }
)
affinity = fields(
    nodeAffinity=fields(
        **{
            REQUIRED: fields(nodeSelectorTerms=listed(node_terms, 2)),
            PREFERRED: listed(fields("weight", weight=weights, preference=node_terms), 2),
        }
    ),
    podAffinity=near,
    podAntiAffinity=near,
)
owners = fields(
    "kind name",
    apiVersion=st.sampled_from(["v1", "apps/v1", "apps.kruise.io/v1"]),
    kind=st.sampled_from(["ReplicaSet", "StatefulSet", "Job", "Pod"]),
    name=words,
    uid=st.sampled_from(["u", "4f0e5c0e-5c8b-4a0c-8b8e-000000000001"]),
    controller=st.booleans(),
    blockOwnerDeletion=st.booleans(),
)
_metadata = fields(
    namespace=st.sampled_from(["", "default", "shop"]),
    uid=st.sampled_from(["", "u", "4F0E5C0E-5c8b-4a0c-8b8e-000000000001"]),
    labels=texts,
    annotations=st.dictionaries(
        st.sampled_from(["a", "node.alpha.kubernetes.io/ttl", "pv.kubernetes.io/bind-completed"]),
        words,
    ),
    ownerReferences=listed(owners, 2),
    creationTimestamp=times,
    deletionTimestamp=times,
    managedFields=listed(fields(manager=words, fieldsV1=texts)),
)
metadata = st.builds(lambda found: found | {"name": "a", "resourceVersion": "17"}, _metadata)
containers = fields(
    name=words,
    image=words,
    resources=fields(requests=resources, limits=resources),
    ports=listed(
        fields(
            hostPort=st.sampled_from([0, 80]),
            containerPort=st.sampled_from([80, 81]),
            protocol=st.sampled_from(["TCP", "UDP"]),
            hostIP=st.sampled_from(["", "10.0.0.1"]),
        ),
        2,
    ),
    restartPolicy=st.sampled_from(["Always", "Never"]),
    restartPolicyRules=listed(fields(action=st.sampled_from(["RestartAllContainers", "x"])), 1),
    env=listed(fields(name=words, value=words)),
    volumeMounts=listed(fields(name=words)),
)
disks = fields(
    pdName=words, volumeID=words, iqn=words, pool=words, image=words, diskURI=words, kind=words,
    monitors=listed(words), readOnly=st.booleans(),
)  # fmt: skip
_SOURCES = (
    "gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd", "azureDisk", "azureFile", "cinder",
    "portworxVolume", "vsphereVolume",
)  # fmt: skip
volumes = fields(
    name=words,
    configMap=fields(name=words),
    persistentVolumeClaim=fields(claimName=words, readOnly=st.booleans()),
) | fields(
    name=words,
    ephemeral=fields(volumeClaimTemplate=texts),
    csi=fields(driver=words),
    image=fields(reference=words),
    **dict.fromkeys(_SOURCES, disks),
)
conditions = fields(
    type=st.sampled_from(["Ready", "PodScheduled", "DisruptionTarget", "PodResizePending"]),
    status=st.sampled_from(["True", "False"]),
    reason=st.sampled_from(["PreemptionByScheduler", "Infeasible", "Deferred"]),
    lastTransitionTime=times,
)
given = fields(
    name=words,
    resources=fields(requests=resources, limits=resources),
    allocatedResources=resources,
    image=words,
)
pod_specs = fields(
    nodeName=words,
    containers=listed(containers, 2),
    initContainers=listed(containers, 1),
    volumes=listed(volumes, 2),
    overhead=resources,
    resources=fields(requests=resources, limits=resources),
    nodeSelector=texts,
    tolerations=listed(
        fields(
            key=words,
            operator=st.sampled_from(["Exists", "Equal", "Gt"]),
            value=words,
            effect=st.sampled_from(["", "NoSchedule", "NoExecute"]),
            tolerationSeconds=st.integers(0, 300),
        ),
        2,
    ),
    affinity=affinity,
    topologySpreadConstraints=listed(
        fields(
            maxSkew=st.integers(0, 3),
            topologyKey=words,
            whenUnsatisfiable=st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
            labelSelector=selectors,
            minDomains=st.integers(0, 3),
            nodeAffinityPolicy=st.sampled_from(["Honor", "Ignore"]),
            nodeTaintsPolicy=st.sampled_from(["Honor", "Ignore"]),
            matchLabelKeys=listed(words, 1),
        ),
        2,
    ),
    hostUsers=st.booleans(),
    hostNetwork=st.booleans(),
    os=fields(name=st.sampled_from(["linux", "windows"])),
    priority=st.sampled_from([0, 1000, -5]),
    schedulerName=words,
    preemptionPolicy=st.sampled_from(["", "Never", "PreemptLowerPriority"]),
    schedulingGates=listed(fields("name", name=words), 2),
    resourceClaims=listed(fields("name", name=words), 1),
    serviceAccountName=words,
)
pod_statuses = fields(
    phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
    nominatedNodeName=words,
    startTime=times,
    conditions=listed(conditions, 2),
    resources=fields(requests=resources),
    allocatedResources=resources,
    containerStatuses=listed(given, 2),
    initContainerStatuses=listed(given, 1),
)
pods = fields(metadata=metadata, spec=pod_specs, status=pod_statuses)
nodes = fields(
    metadata=metadata,
    spec=fields(
        taints=listed(
            fields(
                "key effect",
                key=words,
                value=words,
                effect=st.sampled_from(["NoSchedule", "PreferNoSchedule"]),
            ),
            2,
        ),
        unschedulable=st.booleans(),
        podCIDR=words,
    ),
    status=fields(
        allocatable=resources,
        capacity=resources,
        images=listed(fields(names=listed(words, 2), sizeBytes=st.integers(0, 9)), 3),
        declaredFeatures=listed(words),
        conditions=listed(conditions),
    ),
)
others = fields(
    metadata=metadata,
    spec=fields(
        selector=selectors | texts,
        template=fields(metadata=metadata),
        storageClassName=words,
        volumeName=words,
        accessModes=listed(words),
        volumeMode=words,
        resources=fields(requests=st.fixed_dictionaries({"storage": amounts})),
        volumeAttributesClassName=words,
        capacity=st.fixed_dictionaries({"storage": amounts}),
        claimRef=fields(namespace=words, name=words, uid=words),
        nodeAffinity=fields(required=fields(nodeSelectorTerms=listed(node_terms, 2))),
        csi=fields(driver=words, volumeHandle=words),
        nfs=texts,
        rbd=disks,
        drivers=listed(
            fields(
                name=words,
                nodeID=words,
                topologyKeys=listed(words),
                allocatable=fields(count=st.integers(-1, 3)),
            ),
            2,
        ),
        attachRequired=st.booleans(),
        storageCapacity=st.booleans(),
        preventPodSchedulingIfMissing=st.booleans(),
        attacher=words,
        nodeName=words,
        source=fields(persistentVolumeName=words),
        minAvailable=st.integers(0, 3),
    ),
    status=fields(
        phase=words,
        disruptionsAllowed=st.integers(-1, 3),
        disruptedPods=st.dictionaries(words, times),
    ),
    provisioner=words,
    volumeBindingMode=words,
    allowedTopologies=listed(
        fields(matchLabelExpressions=listed(fields(key=words, values=listed(words)))), 2
    ),
    storageClassName=words,
    capacity=amounts,
    maximumVolumeSize=amounts,
    nodeTopology=selectors,
)
