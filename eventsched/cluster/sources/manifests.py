"""Objects from Kubernetes manifests: YAML or JSON, plain or .gz, single or as a List.

Reads hand-written manifests and the output of ``kubectl get nodes,pods,pvc,pv,sc -A -o yaml``. The
defaulting and admission of an API server are applied; they do not change objects from kubectl.
"""

import json
import re
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
from eventsched.cluster.sources.workload_pods import PodsOfWorkloads
from eventsched.cluster.translate import manifest
from eventsched.cluster.translate.cluster_objects import READERS, is_read
from eventsched.domain.errors import InputError
from eventsched.domain.objects import Node, Pod
from eventsched.domain.objects.registry import AnyObject, PersistentVolumeClaim
from eventsched.domain.records import SamplesTaken

try:
    from yaml import CSafeLoader as _SafeLoader
except ImportError:  # PyYAML without libyaml: the same, but slower
    from yaml import SafeLoader as _SafeLoader  # type: ignore[assignment]


@dataclass(frozen=True)
class Manifests:
    """The contents of a manifest file, in its order. ``warnings`` are for the user. ``claims`` are
    those that a controller would create for the ephemeral volumes of pending pods, by pod uid.
    ``skipped_kinds`` counts the objects that scheduling does not read, by kind."""

    nodes: list[Node] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    objects: list[AnyObject] = field(default_factory=list)
    samples: list[SamplesTaken] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    claims: dict[str, tuple[PersistentVolumeClaim, ...]] = field(default_factory=dict)
    skipped_kinds: Counter[str] = field(default_factory=Counter)


def read(path: Path) -> Manifests:
    """The objects in one manifest file, as ``read_all`` gives them."""
    return read_all([path])[0]


def read_all(
    paths: Sequence[Path],
    workloads: PodsOfWorkloads | None = None,
    admission: Admission | None = None,
) -> list[Manifests]:
    """The nodes, the unfinished pods and the other objects that scheduling reads, file by file.
    Priority and storage classes of one file apply to the objects of all files. ``workloads`` makes
    the pods of workloads, which are left out without it. ``admission`` knows the cluster's classes.

    Objects of other kinds, and constraints that this version does not support yet, each give one
    warning. Raises InputError, naming file, object and field or line, if a file cannot be read or
    parsed, or if an object is malformed or comes twice in a file (by uid for pods).
    """
    texts = ((str(path), read_text(path)) for path in paths)
    return read_texts(texts, workloads, admission)


def read_texts(
    texts: Iterable[tuple[str, str]],
    workloads: PodsOfWorkloads | None = None,
    admission: Admission | None = None,
) -> list[Manifests]:
    """The same of texts, each with the name that messages call it by."""
    admission = admission or Admission()
    files: list[tuple[str, list[_Object]]] = []
    for file, text in texts:
        objects = list(_file_objects(file, text, workloads))
        for obj in objects:
            admission.learn(obj.kind, obj.fields, obj.where)
        files.append((file, objects))
    manifests = [_manifests(file, objects, admission) for file, objects in files]
    if admission.unknown and manifests:
        manifests[-1].warnings.append(
            f"priority classes that are in no file: {_counted(admission.unknown, ' pod')}; "
            "the priority of these pods is taken as 0"
        )
    return manifests


@dataclass(frozen=True)
class _Object:
    """An object of a file. ``kind`` includes the apiVersion of a foreign API group; ``place`` is
    its place in the file; ``where`` names file and object for errors."""

    fields: dict[str, Any]
    kind: str
    place: str
    where: str


def _file_objects(file: str, text: str, workloads: PodsOfWorkloads | None) -> Iterator[_Object]:
    for obj, place in _objects(_documents(text, file), file):
        kind = _kind(obj, f"{file}: {place}")
        where = f"{file}: {_title(kind, obj, place)}"
        if workloads is None:
            yield _Object(obj, kind, place, where)
            continue
        for made, made_kind in workloads.expand(obj, kind, where):
            yield _Object(made, made_kind, place, where)


def _manifests(file: str, objects: Iterable[_Object], admission: Admission) -> Manifests:
    reading = _FileReading(admission)
    for obj in objects:
        reading.add(obj)
    manifests = reading.manifests
    if manifests.skipped_kinds:
        manifests.warnings.append(
            f"{file}: objects of kinds that scheduling does not read were left out: "
            f"{_counted(manifests.skipped_kinds)}"
        )
    if reading.unmet:
        manifests.warnings.append(
            f"{file}: constraints that this version cannot meet yet, so that it refuses the pods: "
            f"{_counted(reading.unmet, ' pod')}"
        )
    return manifests


class _FileReading:
    """Collects the objects of one file. ``unmet`` counts pods by constraint."""

    def __init__(self, admission: Admission) -> None:
        self.manifests = Manifests()
        self.unmet: Counter[str] = Counter()
        self._admission = admission
        self._places: dict[str, str] = {}

    def add(self, obj: _Object) -> None:
        """Adds an object. Raises InputError if it is malformed or occurs twice."""
        if obj.kind == "Node":
            node = manifest.node(obj.fields, obj.where)
            self._refuse_second(f"node {node.name}", obj, "metadata.name")
            self.manifests.nodes.append(node)
        elif obj.kind == "Pod":
            if not _is_finished(obj.fields):
                self._add_pod(obj)
        elif obj.kind in READERS:
            other = manifest.cluster_object(obj.fields, obj.where, defaults=True)
            assert other is not None
            self._refuse_second(other.title, obj, "metadata.name")
            self.manifests.objects.append(self._admission.admit(other))
        elif obj.kind == sample_manifests.KIND:
            samples = sample_manifests.read(obj.fields, obj.where)
            self._refuse_second(f"samples {samples.source}", obj, "metadata.name")
            self.manifests.samples.append(samples)
        elif obj.kind != "PriorityClass":
            self.manifests.skipped_kinds[obj.kind] += 1

    def _add_pod(self, obj: _Object) -> None:
        pod = manifest.pod(obj.fields, obj.where, defaults=True)
        self._refuse_second(f"pod uid {pod.uid}", obj, "metadata.uid")
        self.manifests.pods.append(self._admission.admit_pod(pod, obj.fields, obj.where))
        if not pod.node_name and any(volume.ephemeral for volume in pod.volumes):
            claims = manifest.ephemeral_claims(obj.fields, pod, obj.where)
            self.manifests.claims[pod.uid] = tuple(map(self._admission.admit_claim, claims))
        self.unmet.update(manifest.unjudged(obj.fields))

    def _refuse_second(self, key: str, obj: _Object, path: str) -> None:
        if key in self._places:
            raise InputError(
                f"{obj.where}: {path}",
                f"{key} comes a second time in {obj.place} (first in {self._places[key]})",
                "remove one of the two",
            )
        self._places[key] = obj.place


def _counted(counter: Counter[str], unit: str = "") -> str:
    return ", ".join(
        f"{name} ({number}{unit}{'s' if unit and number > 1 else ''})"
        for name, number in sorted(counter.items())
    )


def _title(kind: str, obj: Mapping[str, Any], place: str) -> str:
    """``Pod default/a``, or the place in the file of an object without a name."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        return f"{kind} in {place}"
    namespace = metadata.get("namespace") or ("default" if kind == "Pod" else "")
    if not isinstance(namespace, str):
        namespace = ""
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
        ours = version == sample_manifests.API_VERSION
    else:
        ours = kind not in READERS or is_read(kind, version)
    return kind if ours else f"{kind}.{version if isinstance(version, str) else 'v?'}"


def _is_finished(obj: Mapping[str, Any]) -> bool:
    status = obj.get("status")
    return isinstance(status, dict) and status.get("phase") in ("Succeeded", "Failed")


def _objects(documents: Iterable[Any], file: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Each object with its place in the file; lists are expanded."""
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


_LONGEST_INTEGER = 1_000


class _Loader(_SafeLoader):
    """Safe YAML as Kubernetes reads it: timestamps stay strings."""

    def integer(self, node: yaml.ScalarNode) -> Any:
        """An integer. Python writes out none of more than 4,300 digits, not even for a message."""
        if len(node.value) > _LONGEST_INTEGER:
            raise ValueError(f"an integer of more than {_LONGEST_INTEGER} digits")
        return self.construct_yaml_int(node)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.integer)

_Loader.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
    for first, pairs in _SafeLoader.yaml_implicit_resolvers.items()
}


_MAX_NESTING = 1_000
"""Levels of nesting that are read. libyaml's composer exhausts the stack at some 25,000."""
_HARMLESS_BRACKETS = 10_000
"""A text with fewer brackets cannot exhaust the stack in flow style."""
_LONG_PREFIX = re.compile(r"^[ \t?:-]{2500}", re.MULTILINE)
"""The beginning of a line that may open thousands of levels in block style."""
_JSON = re.compile(r'\s*\{\s*["}]')
"""How an object in JSON begins. ``{kind: Pod}`` is YAML."""
_TOO_DEEP = "is nested too deeply", "check that it is a Kubernetes manifest"
"""Problem and remedy."""
_NESTING = "maximum nesting depth"
"""In the error of a libyaml that has a limit of its own, as with PyYAML 6.0.4."""
_OPENING = (yaml.SequenceStartEvent, yaml.MappingStartEvent)
_CLOSING = (yaml.SequenceEndEvent, yaml.MappingEndEvent)


def _refuse_deep(text: str) -> None:
    """Raises RecursionError for YAML that is nested too deeply."""
    if text.count("[") + text.count("{") < _HARMLESS_BRACKETS and not _LONG_PREFIX.search(text):
        return
    depth = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, _OPENING):
            depth += 1
            if depth > _MAX_NESTING:
                raise RecursionError
        elif isinstance(event, _CLOSING):
            depth -= 1


def refuse_aliases(text: str, file: str) -> None:
    """Raises InputError for YAML with aliases. A short text with aliases of aliases can stand for
    any amount of data, so texts of unknown clients may have none."""
    if "*" not in text or _JSON.match(text):
        return
    try:
        events = yaml.parse(text, _Loader)
        alias = next((event for event in events if isinstance(event, yaml.AliasEvent)), None)
    except (yaml.YAMLError, ValueError):
        return  # reading the text reports it
    if alias is not None:
        raise InputError(file, f"has the alias *{alias.anchor}", "write its value there")


def _documents(text: str, file: str) -> list[Any]:
    try:
        if _JSON.match(text):
            return [_json(text)]
        _refuse_deep(text)
        return list(yaml.load_all(text, _Loader))
    except json.JSONDecodeError as error:
        raise InputError(
            f"{file}: line {error.lineno}", f"is not JSON ({error.msg})", "correct the syntax"
        ) from error
    except yaml.YAMLError as error:
        raise _yaml_error(error, text, file) from error
    except RecursionError as error:
        raise InputError(file, *_TOO_DEEP) from error
    # PyYAML raises these if a value does not fit its explicit tag, as in "!!bool x".
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise InputError(
            file, f"holds a value that cannot be read ({error})", "put the value in quotes"
        ) from error


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        # Slower, but its error has the line.
        return json.loads(text)


def _yaml_error(error: yaml.YAMLError, text: str, file: str) -> InputError:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        problem = error.problem or "syntax error"
        if _NESTING in problem:
            return InputError(f"{file}: line {line}", *_TOO_DEEP)
    else:
        line = text.count("\n", 0, getattr(error, "position", 0)) + 1
        problem = str(getattr(error, "reason", error))
    return InputError(f"{file}: line {line}", f"is not YAML ({problem})", "correct the syntax")
