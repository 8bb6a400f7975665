"""Upstream's scheduler_perf workloads, read from its files.

A file (performance-config.yaml) holds tests; a test holds operations and workloads; a workload
fills the operations' parameters (``countParam: $initNodes``). Read from the folder of the Go module
k8s.io/kubernetes, test/integration/scheduler_perf: its README and scheduler_perf.go say what they
mean.
"""

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = "test/integration/scheduler_perf"
_VERSION = "v1.36.3"
_PARAMETER = "Param"
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Workload:
    """A test with the parameters of one of its workloads. ``operations`` are as in the file, with
    parameters filled in; paths in them are relative to ``folder``."""

    test: str
    name: str
    operations: tuple[Mapping[str, Any], ...]
    folder: Path
    threshold: float
    pod_template: str

    @property
    def full_name(self) -> str:
        """``Test/Workload``, as upstream writes it."""
        return f"{self.test}/{self.name}"

    def template(self, path: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """The object in a template file, with ``{{.Index}}`` and the like filled in."""
        found: dict[str, Any] = yaml.safe_load(_filled((self.folder / path).read_text(), values))
        return found


def folder() -> Path:
    """The folder of upstream's workload files. Raises OSError or CalledProcessError if Go is
    missing, or the module in its cache."""
    cache = subprocess.run(
        ["go", "env", "GOMODCACHE"], check=True, capture_output=True, text=True
    ).stdout.strip()
    found = Path(cache) / f"k8s.io/kubernetes@{_VERSION}" / FOLDER
    if not found.is_dir():
        raise FileNotFoundError(f"{found}; run: go mod download k8s.io/kubernetes@{_VERSION}")
    return found


def read(root: Path, scale: Mapping[str, int] | None = None) -> Iterator[Workload]:
    """All workloads under a folder. ``scale`` replaces parameters by name, where a workload has
    them: for smaller machines."""
    for file in sorted(root.glob("*/performance-config.yaml")):
        for test in yaml.safe_load(file.read_text()):
            for each in test.get("workloads", ()):
                parameters = dict(each.get("params", {}))
                for name, value in (scale or {}).items():
                    if name in parameters:
                        parameters[name] = value
                yield Workload(
                    test=test["name"],
                    name=each["name"],
                    operations=tuple(_with(op, parameters) for op in test["workloadTemplate"]),
                    folder=file.parent,
                    threshold=_threshold(each.get("threshold", 0)),
                    pod_template=test.get("defaultPodTemplatePath", ""),
                )


def _threshold(given: Any) -> float:
    """Upstream writes a number, or a table of them."""
    return float(given) if isinstance(given, int | float) else 0.0


def _with(operation: Any, parameters: Mapping[str, Any]) -> Any:
    """An operation with ``xParam: $name`` replaced by ``x: value``."""
    if isinstance(operation, list):
        return [_with(each, parameters) for each in operation]
    if not isinstance(operation, dict):
        return operation
    made: dict[str, Any] = {}
    for key, value in operation.items():
        if key.endswith(_PARAMETER) and isinstance(value, str) and value.startswith("$"):
            made[key.removesuffix(_PARAMETER)] = parameters[value[1:]]
        elif key not in made:
            made[key] = _with(value, parameters)
    return made


def seconds(duration: str) -> float:
    """Seconds of a Go duration such as 1m30s or 200ms."""
    parts = re.findall(r"([0-9.]+)(ms|s|m|h)", duration)
    return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts)


def _filled(text: str, values: Mapping[str, Any]) -> str:
    return re.sub(r"\{\{\s*\.(\w+)\s*\}\}", lambda found: str(values.get(found[1], 0)), text)
