"""In-tree disks as the CSI volumes that replace them: only what limits and topology need.

Upstream: csi-translation-lib (translate.go, plugins/*.go). The list of migrated plugins is in
nodevolumelimits/utils.go and volumebinding/binder.go, which agree.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from eventsched.domain.objects import NodeSelectorTerm, Requirement
from eventsched.domain.objects.registry import PersistentVolume

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
ZONES_DELIMITER = "__"

_UNSPECIFIED = "UNSPECIFIED"
_EBS = re.compile(r"vol-[^/]*")


class Migration(NamedTuple):
    """An in-tree plugin and the CSI driver in its place; ``topology`` is the label that the driver
    uses for zones, "" if volumes keep their own terms."""

    plugin: str
    driver: str
    topology: str


MIGRATIONS: dict[str, Migration] = {
    "gcePersistentDisk": Migration(
        "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone"
    ),
    "awsElasticBlockStore": Migration(
        "kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone"
    ),
    "azureDisk": Migration("kubernetes.io/azure-disk", "disk.csi.azure.com", ""),
    "cinder": Migration(
        "kubernetes.io/cinder",
        "cinder.csi.openstack.org",
        "topology.cinder.csi.openstack.org/zone",
    ),
    "portworxVolume": Migration("kubernetes.io/portworx-volume", "pxd.portworx.com", ""),
}
"""The type of an in-tree volume → its migration."""
DRIVERS = {migration.plugin: migration.driver for migration in MIGRATIONS.values()}
"""In-tree provisioner → CSI driver."""
UNCOUNTED = frozenset({"kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"})
"""In-tree provisioners that can be translated too but do not count as migrated."""
TRANSLATABLE = frozenset({*MIGRATIONS, "azureFile", "vsphereVolume"})
"""The types of volumes that can be translated, whether or not they count as migrated."""


class TranslationError(ValueError):
    """An in-tree volume that no CSI volume can replace; the message is upstream's."""


def inline_handle(source: str, identity: tuple[str, ...]) -> str:
    """The handle of a pod's in-tree disk. Raises TranslationError."""
    return _handle(source, identity, {})


def volume_handle(volume: PersistentVolume) -> str:
    """The handle of an in-tree persistent volume. Raises TranslationError."""
    return _handle(volume.source, volume.identity, volume.labels)


def migrated_terms(volume: PersistentVolume) -> tuple[NodeSelectorTerm, ...] | None:
    """The volume's node terms for nodes that have the CSI driver: zones are under the driver's
    label there (upstream: translateTopologyFromInTreeToCSI). Raises TranslationError."""
    volume_handle(volume)
    topology = MIGRATIONS[volume.source].topology
    terms = volume.node_terms
    if not topology:
        return terms
    zone = _zone_label(volume)
    if _values(terms, zone):
        terms = _renamed(terms, zone, topology)
    else:
        terms = _with_zones(terms, topology, volume.labels.get(zone, ""))
    if zone == BETA_ZONE and _values(terms, BETA_REGION):
        terms = _renamed(terms, BETA_REGION, REGION)
    return terms


def _handle(source: str, identity: tuple[str, ...], labels: Mapping[str, str]) -> str:
    first = identity[0] if identity else ""
    match source:
        case "gcePersistentDisk":
            return _gce_handle(first, labels.get(BETA_ZONE) or labels.get(ZONE, ""))
        case "awsElasticBlockStore":
            try:
                return _ebs_handle(first)
            except TranslationError as problem:
                raise TranslationError(
                    f"failed to translate Kubernetes ID to EBS Volume ID {problem}"
                ) from None
        case "azureDisk":
            kind = identity[1] if len(identity) > 1 else ""
            if kind and kind.lower() != "managed":
                raise TranslationError(f"kind({kind}) is not supported in csi migration")
    return first


def _gce_handle(disk: str, label: str) -> str:
    zones = label.split(ZONES_DELIMITER)
    if len(zones) == 1:
        return f"projects/{_UNSPECIFIED}/zones/{label or _UNSPECIFIED}/disks/{disk}"
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            raise TranslationError(
                "failed to get region from zones: zone in unexpected format, expected: "
                f"{{locale}}-{{region}}-{{zone}}, got: {zone}"
            )
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        listed = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise TranslationError(
            "failed to get region from zones: multiple or no regions gotten from zones, "
            f"got: map[{listed}]"
        )
    return f"projects/{_UNSPECIFIED}/regions/{regions.pop()}/disks/{disk}"


def _ebs_handle(name: str) -> str:
    """The volume's own id, also from aws://zone/id."""
    if not name.startswith("aws://"):
        return name
    _, slash, path = re.split("[?#]", name[len("aws://") :], maxsplit=1)[0].partition("/")
    volume_id = (slash + path).strip("/")
    if not _EBS.fullmatch(volume_id):
        raise TranslationError(f"Invalid format for AWS volume ({name})")
    return volume_id


def _zone_label(volume: PersistentVolume) -> str:
    """Which of the two labels for zones a volume uses, in its terms or else as its label."""
    for label in (ZONE, BETA_ZONE):
        if any(e.key == label for term in volume.node_terms or () for e in term.expressions):
            return label
    return BETA_ZONE if BETA_ZONE in volume.labels and ZONE not in volume.labels else ZONE


def _values(terms: tuple[NodeSelectorTerm, ...] | None, key: str) -> bool:
    """Whether an expression about a label names values."""
    return any(e.key == key and e.values for term in terms or () for e in term.expressions)


def _renamed(
    terms: tuple[NodeSelectorTerm, ...] | None, old: str, new: str
) -> tuple[NodeSelectorTerm, ...]:
    return tuple(
        NodeSelectorTerm(
            expressions=tuple(
                Requirement(key=new, operator=e.operator, values=e.values) if e.key == old else e
                for e in term.expressions
            ),
            fields=term.fields,
        )
        for term in terms or ()
    )


def _with_zones(
    terms: tuple[NodeSelectorTerm, ...] | None, key: str, label: str
) -> tuple[NodeSelectorTerm, ...] | None:
    """The terms, each with the zones of a volume's label; unchanged if it has none."""
    zones = sorted({zone.strip() for zone in label.split(ZONES_DELIMITER)} - {""})
    if not zones:
        return terms
    zone_requirement = Requirement(key=key, operator="In", values=tuple(zones))
    return tuple(
        NodeSelectorTerm(expressions=(*term.expressions, zone_requirement), fields=term.fields)
        for term in terms or (NodeSelectorTerm(),)
    )
