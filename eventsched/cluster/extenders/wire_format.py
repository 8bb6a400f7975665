"""The JSON of extender/v1 for the client side: builds requests and parses answers.

Field names are read without regard to case, as Go does: servers in other languages write
``nodeNames`` for ``NodeNames``. Upstream: k8s.io/kube-scheduler/extender/v1 types.go, extender.go.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from eventsched.cluster.messages import BindPod, CallExtender
from eventsched.domain.objects.texts import json_without_nul
from eventsched.domain.records import Victims
from eventsched.domain.records.extender_records import FILTER, PREEMPT, PRIORITIZE

_encode = msgspec.json.Encoder().encode
Fields = Mapping[str, Any]
"""Fields of an ExtenderReply."""


class WrongShapeError(Exception):
    """A message is JSON, but not of the expected shape; the text says what is wrong."""


# --- requests -----------------------------------------------------------------------------


def nodes_body(pod: bytes, names: tuple[str, ...], nodes: list[bytes] | None) -> bytes:
    """ExtenderArgs: with the JSON in ``nodes``, or with names only if ``nodes`` is None."""
    if nodes is None:
        return b'{"Pod":%b,"Nodes":null,"NodeNames":%b}' % (pod, _encode(names))
    return b'{"Pod":%b,"Nodes":{"metadata":{},"items":[%b]},"NodeNames":null}' % (
        pod,
        b",".join(nodes),
    )


def preemption_body(
    pod: bytes, candidates: Mapping[str, Victims], pods: Callable[[str], bytes] | None
) -> bytes:
    """ExtenderPreemptionArgs: ``pods`` gives a victim's JSON by uid; if it is None, only the uids
    of the victims are sent."""
    entries = []
    for name, victims in candidates.items():
        pods_json = [_encode({"UID": uid}) if pods is None else pods(uid) for uid in victims.uids]
        entries.append(
            b'%b:{"Pods":[%b],"NumPDBViolations":%d}'
            % (_encode(name), b",".join(pods_json), victims.violations)
        )
    template = (
        b'{"Pod":%b,"NodeNameToVictims":null,"NodeNameToMetaVictims":{%b}}'
        if pods is None
        else b'{"Pod":%b,"NodeNameToVictims":{%b},"NodeNameToMetaVictims":null}'
    )
    return template % (pod, b",".join(entries))


def binding_body(request: BindPod) -> bytes:
    """ExtenderBindingArgs."""
    return _encode(
        {
            "PodName": request.name,
            "PodNamespace": request.namespace,
            "PodUID": request.uid,
            "Node": request.node,
        }
    )


# --- answers ------------------------------------------------------------------------------


def reply(request: CallExtender, body: bytes, *, caches_nodes: bool) -> Fields:
    """The fields of an answer. Raises WrongShapeError, and msgspec.DecodeError if the body is not
    JSON."""
    if request.verb == PRIORITIZE:
        return {"scores": _scores(body)}
    fields = _fields(body)
    if request.verb == PREEMPT:
        return {"victims": _victims(fields)}
    assert request.verb == FILTER
    if error := _text(fields, "error"):
        return {"problem": error}
    return {
        "passed": _passed(fields, caches_nodes=caches_nodes),
        "failed": _reasons(fields, "failednodes"),
        "unresolvable": _reasons(fields, "failedandunresolvablenodes"),
    }


def bind_error(body: bytes) -> str:
    """The error in an answer to ``bind``; "" if the pod is bound. Raises the same as ``reply``."""
    return _text(_fields(body), "error")


def _fields(body: bytes) -> dict[str, Any]:
    return _lower(_as(body, dict[str, msgspec.Raw], "an object"))


def _lower(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name.lower(): value for name, value in fields.items()}


def _text(fields: Mapping[str, msgspec.Raw], name: str) -> str:
    return _field(fields, name, str | None, "a text") or ""


def _passed(fields: Mapping[str, msgspec.Raw], *, caches_nodes: bool) -> tuple[str, ...]:
    names: list[str] | None = _field(fields, "nodenames", list[str] | None, "a list of names")
    nodes = _field(fields, "nodes", _NodeList | None, "a NodeList")
    if caches_nodes and names is not None:
        return tuple(names)
    if nodes is not None:
        return tuple(node.metadata.name for node in nodes.items or ())
    if names:
        raise WrongShapeError(
            "it has NodeNames where Nodes are due; set nodeCacheCapable if it answers with names"
        )
    return ()


def _reasons(fields: Mapping[str, msgspec.Raw], name: str) -> dict[str, str]:
    return _field(fields, name, dict[str, str] | None, "a map of texts") or {}


def _scores(body: bytes) -> tuple[tuple[str, int], ...]:
    scores = []
    entries = _as(body, list[dict[str, Any]] | None, "a list of hosts and scores") or ()
    for entry in map(_lower, entries):
        host, score = entry.get("host", ""), entry.get("score", 0)
        if not isinstance(host, str) or type(score) is not int:
            raise WrongShapeError(
                f"it has Host {host!r} with Score {score!r}; a text and an integer are due"
            )
        scores.append((host, score))
    return tuple(scores)


def _victims(fields: Mapping[str, msgspec.Raw]) -> dict[str, Victims]:
    by_node: dict[str, Any] = (
        _field(fields, "nodenametometavictims", dict[str, Any] | None, "a map of victims") or {}
    )
    try:
        return {name: _node_victims(entry or {}) for name, entry in by_node.items()}
    except (AttributeError, TypeError, KeyError) as wrong:
        raise WrongShapeError(f"its NodeNameToMetaVictims is not of that shape: {wrong}") from None


def _node_victims(entry: dict[str, Any]) -> Victims:
    fields = _lower(entry)
    uids = [_lower(pod)["uid"] for pod in fields.get("pods") or ()]
    violations = fields.get("numpdbviolations", 0)
    if not all(isinstance(uid, str) for uid in uids) or type(violations) is not int:
        raise TypeError("uids are texts, NumPDBViolations is an integer")
    return Victims(uids=tuple(uids), violations=min(max(violations, 0), len(uids)))


def _field(fields: Mapping[str, msgspec.Raw], name: str, kind: Any, due: str) -> Any:
    raw = fields.get(name)
    if raw is None:
        return None
    try:
        return msgspec.json.decode(json_without_nul(bytes(raw)), type=kind)
    except msgspec.ValidationError as wrong:
        raise WrongShapeError(f"its field {name} is not {due}: {wrong}") from None


def _as(body: bytes, kind: Any, due: str) -> Any:
    try:
        return msgspec.json.decode(json_without_nul(body), type=kind)
    except msgspec.ValidationError as wrong:
        raise WrongShapeError(f"it is not {due}: {wrong}") from None


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""


class _Node(msgspec.Struct):
    metadata: _Metadata = _Metadata()


class _NodeList(msgspec.Struct):
    items: list[_Node] | None = None


# --- objects ------------------------------------------------------------------------------


def bare(fields: Iterable[tuple[str, str]]) -> bytes:
    """The JSON of an object of which only some metadata is known."""
    return _encode({"metadata": dict(fields), "spec": {}, "status": {}})
