"""Objects from Kubernetes manifests: YAML or JSON, plain or .gz, single or as a List.

Reads what people write and what ``kubectl get nodes,pods,pvc,pv,sc -A -o yaml`` prints. The objects
count as never seen by an API server, so its defaulting and admission are applied; that changes
nothing in printed ones.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import yaml

from eventsched.cluster.files import read_text
from eventsched.cluster.sources import sample_manifests
from eventsched.cluster.sources.admission import Admission
from eventsched.cluster.translate import manifest
from eventsched.cluster.translate.cluster_objects import READINGS, is_read
from eventsched.domain.errors import InputError
from eventsched.domain.objects import Node, Pod
from eventsched.domain.objects.registry import AnyObject, PersistentVolumeClaim
from eventsched.domain.records import SamplesTaken

try:
    from yaml import CSafeLoader as _SafeLoader
except ImportError:  # PyYAML was built without libyaml: the same, but slower
    from yaml import SafeLoader as _SafeLoader  # type: ignore[assignment]


@dataclass(frozen=True)
class Manifests:
    """What a manifest file holds, in its order; ``warnings`` are for the user to read. ``claims``
    are those, by pod uid, that a controller makes for the ephemeral volumes of pending pods."""

    nodes: list[Node] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    objects: list[AnyObject] = field(default_factory=list)
    samples: list[SamplesTaken] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    claims: dict[str, tuple[PersistentVolumeClaim, ...]] = field(default_factory=dict)


def read(path: Path) -> Manifests:
    """The objects in one manifest file, as ``read_all`` gives them."""
    return read_all([path])[0]


def read_all(paths: Sequence[Path]) -> list[Manifests]:
    """The nodes, the unfinished pods and the other objects that scheduling reads, file by file.
    Classes of priority and storage in any of the files hold for the objects in all of them.

    Objects of further kinds, and constraints that this version cannot meet yet, give one warning
    each. Raises InputError, naming file, object and field or line, when a file cannot be read or
    parsed, an object is malformed, or comes twice in a file (for a pod: its uid).
    """
    admission = Admission()
    files: list[tuple[Path, list[_Found]]] = []
    for path in paths:
        found = list(_found(path))
        for each in found:
            admission.learn(each.kind, each.obj, each.where)
        files.append((path, found))
    made = [_manifests(path, found, admission) for path, found in files]
    if admission.unknown and made:
        made[-1].warnings.append(
            f"priority classes that are in no file: {_counted(admission.unknown, ' pod')}; "
            "the priority of these pods is taken as 0"
        )
    return made


@dataclass(frozen=True)
class _Found:
    """An object, of which kind (with its apiVersion, where that makes it another), its place in the
    file, and the words for file and object."""

    obj: dict[str, Any]
    kind: str
    place: str
    where: str


def _found(path: Path) -> Iterator[_Found]:
    for obj, place in _objects(_documents(read_text(path), str(path)), str(path)):
        kind = _kind(obj, f"{path}: {place}")
        yield _Found(obj, kind, place, f"{path}: {_title(kind, obj, place)}")


def _manifests(path: Path, found: Iterable[_Found], admission: Admission) -> Manifests:
    made = Manifests()
    others: Counter[str] = Counter()
    unmet: Counter[str] = Counter()
    seen: dict[str, str] = {}
    for each in found:
        if each.kind == "Node":
            node = manifest.node(each.obj, each.where)
            _refuse_second(seen, f"node {node.name}", each, "metadata.name")
            made.nodes.append(node)
        elif each.kind == "Pod":
            if _is_finished(each.obj):
                continue
            pod = manifest.pod(each.obj, each.where, defaults=True)
            _refuse_second(seen, f"pod uid {pod.uid}", each, "metadata.uid")
            made.pods.append(admission.admit_pod(pod, each.obj))
            if not pod.node_name and any(volume.ephemeral for volume in pod.volumes):
                claims = manifest.ephemeral_claims(each.obj, pod, each.where)
                made.claims[pod.uid] = tuple(map(admission.admit_claim, claims))
            unmet.update(manifest.unjudged(each.obj))
        elif each.kind in READINGS:
            other = manifest.cluster_object(each.obj, each.where, defaults=True)
            assert other is not None
            _refuse_second(seen, other.title, each, "metadata.name")
            made.objects.append(admission.admit(other))
        elif each.kind == sample_manifests.KIND:
            taken = sample_manifests.read(each.obj, each.where)
            _refuse_second(seen, f"samples {taken.source}", each, "metadata.name")
            made.samples.append(taken)
        elif each.kind != "PriorityClass":
            others[each.kind] += 1
    if others:
        made.warnings.append(
            f"{path}: objects of kinds that scheduling does not read were left out: "
            f"{_counted(others)}"
        )
    if unmet:
        made.warnings.append(
            f"{path}: constraints that this version cannot meet yet, so that it refuses the pods: "
            f"{_counted(unmet, ' pod')}"
        )
    return made


def _counted(counter: Counter[str], unit: str = "") -> str:
    return ", ".join(
        f"{name} ({number}{unit}{'s' if unit and number > 1 else ''})"
        for name, number in sorted(counter.items())
    )


def _title(kind: str, obj: Mapping[str, Any], place: str) -> str:
    """``Pod default/a``, or its place in the file where it has no name to call it by."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        return f"{kind} in {place}"
    namespace = metadata.get("namespace") or ("default" if kind == "Pod" else "")
    return f"{kind} {namespace}/{metadata['name']}" if namespace else f"{kind} {metadata['name']}"


def _kind(obj: Mapping[str, Any], where: str) -> str:
    kind = obj.get("kind")
    if not isinstance(kind, str) or not kind:
        raise InputError(f"{where}: kind", "is missing", "add kind: Node or kind: Pod")
    version = obj.get("apiVersion")
    # Other API groups have kinds named Node too.
    if kind in ("Node", "Pod"):
        ours = version in (None, "v1")
    elif kind == sample_manifests.KIND:
        ours = version == "eventsched.io/v1alpha1"
    else:
        ours = kind not in READINGS or is_read(kind, version)
    return kind if ours else f"{kind}.{version}"


def _refuse_second(seen: dict[str, str], key: str, each: _Found, path: str) -> None:
    if key in seen:
        raise InputError(
            f"{each.where}: {path}",
            f"{key} comes a second time in {each.place} (first in {seen[key]})",
            "remove one of the two",
        )
    seen[key] = each.place


def _is_finished(obj: Mapping[str, Any]) -> bool:
    status = obj.get("status")
    return isinstance(status, dict) and status.get("phase") in ("Succeeded", "Failed")


def _objects(documents: Iterable[Any], file: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Each object with its place in the file, lists unfolded."""
    empty = True
    for number, document in enumerate(documents, 1):
        if document is None:
            continue
        empty = False
        place = f"document {number}"
        top = _checked_mapping(document, file, place)
        kind = top.get("kind")
        if not isinstance(kind, str) or not kind.endswith("List") or "items" not in top:
            yield top, place
            continue
        items = top["items"] if top["items"] is not None else []
        if not isinstance(items, list):
            raise InputError(f"{file}: {place}: items", "is not a list", "write a list of objects")
        for index, item in enumerate(items):
            spot = f"{place}: items[{index}]"
            obj = _checked_mapping(item, file, spot)
            # The items of a NodeList or PodList carry no kind of their own.
            yield ({"kind": kind.removesuffix("List"), **obj} if kind != "List" else obj), spot
    if empty:
        raise InputError(file, "holds no objects", "write at least one Node or Pod into it")


def _checked_mapping(value: Any, file: str, place: str) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise InputError(
        f"{file}: {place}",
        f"is not a Kubernetes object ({type(value).__name__})",
        "write a mapping with apiVersion, kind and metadata",
    )


class _Loader(_SafeLoader):
    """Safe YAML as Kubernetes reads it: what looks like a time stays a string."""


_Loader.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
    for first, pairs in _SafeLoader.yaml_implicit_resolvers.items()
}


def _documents(text: str, file: str) -> list[Any]:
    try:
        if text.lstrip().startswith("{"):
            return [_json(text)]
        return list(yaml.load_all(text, _Loader))
    except json.JSONDecodeError as error:
        raise InputError(
            f"{file}: line {error.lineno}", f"is not JSON ({error.msg})", "correct the syntax"
        ) from error
    except yaml.YAMLError as error:
        raise _yaml_error(error, text, file) from error
    except RecursionError as error:
        raise InputError(
            file, "is nested too deeply", "check that it is a Kubernetes manifest"
        ) from error
    except ValueError as error:
        raise InputError(
            file, f"holds a value that cannot be read ({error})", "put the value in quotes"
        ) from error


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        # Slower, but its error knows the line.
        return json.loads(text)


def _yaml_error(error: yaml.YAMLError, text: str, file: str) -> InputError:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        problem = error.problem or "syntax error"
    else:
        line = text.count("\n", 0, getattr(error, "position", 0)) + 1
        problem = str(getattr(error, "reason", error))
    return InputError(f"{file}: line {line}", f"is not YAML ({problem})", "correct the syntax")
