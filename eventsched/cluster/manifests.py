"""Nodes and pods from Kubernetes manifests: YAML or JSON, plain or .gz, single or as a List.

Reads what people write and what ``kubectl get nodes,pods -o yaml`` prints. The objects count as
never seen by an API server, so its defaulting is applied; that changes nothing in printed ones.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import yaml

from eventsched.cluster import translate
from eventsched.cluster.files import read_text
from eventsched.domain.errors import InputError
from eventsched.domain.objects import Node, Pod

try:
    from yaml import CSafeLoader as _SafeLoader
except ImportError:  # PyYAML was built without libyaml: the same, but slower
    from yaml import SafeLoader as _SafeLoader  # type: ignore[assignment]


@dataclass(frozen=True)
class Manifests:
    """What a manifest file holds, in its order; ``warnings`` are for the user to read."""

    nodes: list[Node] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def read(path: Path) -> Manifests:
    """The nodes and unfinished pods in a manifest file.

    Objects of other kinds, and constraints that this version does not judge yet, give one warning
    each. Raises InputError, naming file, object and field or line, when the file cannot be read or
    parsed, an object is malformed, or a node's name or a pod's uid comes twice.
    """
    found = Manifests()
    others: Counter[str] = Counter()
    ignored: Counter[str] = Counter()
    seen: dict[str, str] = {}
    for obj, place in _objects(_documents(read_text(path), str(path)), str(path)):
        kind = _kind(obj, f"{path}: {place}")
        where = f"{path}: {_title(kind, obj, place)}"
        if kind == "Node":
            node = translate.node(obj, where)
            _refuse_second(seen, f"node {node.name}", where, "metadata.name", place)
            found.nodes.append(node)
        elif kind != "Pod":
            others[kind] += 1
        elif not _is_finished(obj):
            pod = translate.pod(obj, where, defaults=True)
            _refuse_second(seen, f"pod uid {pod.uid}", where, "metadata.uid", place)
            found.pods.append(pod)
            ignored.update(translate.unjudged(obj))
    if others:
        found.warnings.append(
            f"{path}: objects of other kinds were left out: {_counted(others)}; "
            "only Node and Pod are read"
        )
    if ignored:
        found.warnings.append(
            f"{path}: constraints that this version does not judge yet were ignored: "
            f"{_counted(ignored, ' pods')}"
        )
    return found


def _counted(counter: Counter[str], unit: str = "") -> str:
    return ", ".join(f"{name} ({number}{unit})" for name, number in sorted(counter.items()))


def _title(kind: str, obj: Mapping[str, Any], place: str) -> str:
    """``Pod default/a``, or its place in the file where it has no name to call it by."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        return f"{kind} in {place}"
    name = metadata["name"]
    if kind == "Pod":
        name = f"{metadata.get('namespace') or 'default'}/{name}"
    return f"{kind} {name}"


def _kind(obj: Mapping[str, Any], where: str) -> str:
    kind = obj.get("kind")
    if not isinstance(kind, str) or not kind:
        raise InputError(f"{where}: kind", "is missing", "add kind: Node or kind: Pod")
    version = obj.get("apiVersion", "v1")
    # Other API groups have kinds named Node too.
    ours = kind not in ("Node", "Pod") or version == "v1"
    return kind if ours else f"{kind}.{version}"


def _refuse_second(seen: dict[str, str], key: str, where: str, path: str, place: str) -> None:
    if key in seen:
        raise InputError(
            f"{where}: {path}",
            f"{key} comes a second time in {place} (first in {seen[key]})",
            "remove one of the two",
        )
    seen[key] = place


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
