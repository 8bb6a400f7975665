"""Writes a software bill of materials (CycloneDX 1.6, JSON) of the installed distributions.

    python sbom.py > sbom.cdx.json

Only what Python's packaging metadata says is listed, not the packages of the base image. Equal
installations give equal bytes: there is no serial number, and the time is SOURCE_DATE_EPOCH.
"""

import datetime
import json
import os
import re
import sys
from importlib.metadata import Distribution, distributions
from typing import Any


def document(installed: list[Distribution], epoch: int) -> dict[str, Any]:
    """The bill of materials; ``epoch`` is its time in seconds since 1970."""
    components = {}
    for distribution in installed:
        component = _component(distribution)
        components[component["purl"]] = component
    moment = datetime.datetime.fromtimestamp(epoch, datetime.UTC)
    product = next((purl for purl in components if purl.startswith("pkg:pypi/eventsched@")), None)
    metadata: dict[str, Any] = {"timestamp": moment.strftime("%Y-%m-%dT%H:%M:%SZ")}
    if product is not None:
        metadata["component"] = components.pop(product) | {"type": "application"}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": metadata,
        "components": [components[purl] for purl in sorted(components)],
    }


def _component(distribution: Distribution) -> dict[str, Any]:
    metadata = distribution.metadata
    name = re.sub(r"[-_.]+", "-", metadata["Name"]).lower()
    purl = f"pkg:pypi/{name}@{distribution.version}"
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": distribution.version,
        "purl": purl,
    }
    text = metadata["License"].strip() if "License" in metadata else ""
    if "License-Expression" in metadata:
        component["licenses"] = [{"expression": metadata["License-Expression"]}]
    elif text and "\n" not in text:
        component["licenses"] = [{"license": {"name": text}}]
    return component


def main() -> None:
    """Prints the bill of materials of the running Python's packages."""
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    json.dump(document(list(distributions()), epoch), sys.stdout, indent=1, sort_keys=True)
    print()


if __name__ == "__main__":
    main()
