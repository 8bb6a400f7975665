"""Samples in manifests: measurements for plugins that score by them, in simulations."""

import sys
from collections.abc import Mapping
from typing import Any

from eventsched.cluster.translate.fields import excerpt
from eventsched.domain.errors import InputError
from eventsched.domain.records import SamplesTaken

API_VERSION = "eventsched.io/v1alpha1"
KIND = "Samples"
_EXAMPLE = "write the number of each node by its name, such as node-1: 4711"


def read(obj: Mapping[str, Any], where: str) -> SamplesTaken:
    """The samples of the source ``metadata.name``: ``values`` by node name. They are valid
    for the whole run. Raises InputError."""
    metadata = obj.get("metadata")
    source = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(source, str) or not source:
        raise InputError(f"{where}: metadata.name", "is missing", "name the plugin's source")
    values = obj.get("values")
    if not isinstance(values, dict) or not values:
        raise InputError(f"{where}: values", "is not a mapping with numbers", _EXAMPLE)
    for name, value in values.items():
        if not isinstance(name, str):
            raise InputError(f"{where}: values", f"{excerpt(name)} is not a node's name", _EXAMPLE)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not abs(value) <= sys.float_info.max:  # NaN is neither more nor less
            problem = f"{excerpt(value)} is not a number"
            raise InputError(f"{where}: values.{name}", problem, _EXAMPLE)
    return SamplesTaken(source=source, values={name: float(v) for name, v in values.items()})


def sample_manifest(samples: SamplesTaken) -> dict[str, Any]:
    """The manifest of samples, for ``read``."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": samples.source},
        "values": dict(samples.values),
    }
