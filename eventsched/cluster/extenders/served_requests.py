"""The JSON of extender/v1 for the server side: requests of other schedulers, and our answers.

Whole nodes are returned with the bytes in which they came. Upstream:
k8s.io/kube-scheduler/extender/v1 types.go, and its reader in pkg/scheduler/extender.go.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from http import HTTPStatus
from itertools import repeat
from typing import Any, NamedTuple

import msgspec

from eventsched.cluster.extenders.wire_format import WrongShapeError
from eventsched.cluster.translate import pods as translate_pods
from eventsched.domain.errors import InputError
from eventsched.domain.nodes.row_ranges import rows_of
from eventsched.domain.objects import Pod
from eventsched.domain.objects.texts import json_without_nul
from eventsched.domain.records import ExtenderInquired, ExtenderReplied, Victims
from eventsched.domain.records.extender_records import BIND, FILTER, PREEMPT, PRIORITIZE

STRANGE = "node(s) are not known to the extender (yet)"
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_encode = msgspec.json.Encoder().encode
Answer = tuple[int, bytes]
"""The HTTP status and the body: JSON if the status is 200, else text."""


class ExtenderRequest(NamedTuple):
    """A request. ``pod`` is the pod's JSON. ``nodes`` are the names of the nodes that it is about.
    If whole nodes were sent, ``items`` has their JSON; else ``names`` is the list of names as it
    was sent. ``node`` is the node to which ``bind`` binds the pod."""

    verb: str
    uid: str
    pod: bytes = b""
    nodes: Sequence[str] = ()
    items: Sequence[bytes] | None = None
    names: bytes = b""
    node: str = ""
    candidates: Mapping[str, Victims] = {}

    def parsed_pod(self) -> Pod:
        """The pod as it was sent. Raises InputError."""
        try:
            pod = msgspec.json.decode(self.pod)
        except _UNREADABLE as wrong:
            raise InputError("Pod", f"is not JSON: {wrong}", "send the object as it is") from None
        return translate_pods.pod(pod, "Pod", defaults=False)


class _Metadata(msgspec.Struct):
    name: str = ""
    uid: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Nodes(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class _Args(msgspec.Struct, rename="pascal"):
    pod: msgspec.Raw
    nodes: _Nodes | None = None
    node_names: msgspec.Raw = msgspec.Raw(b"null")


class _Priority(msgspec.Struct, rename="pascal", gc=False):
    host: str
    score: int


class _MetaPod(msgspec.Struct):
    uid: str = msgspec.field(name="UID")


class _MetaVictims(msgspec.Struct):
    pods: list[_MetaPod] | None = msgspec.field(name="Pods", default=None)
    violations: int = msgspec.field(name="NumPDBViolations", default=0)


class _Victims(msgspec.Struct):
    pods: list[_Object] | None = msgspec.field(name="Pods", default=None)
    violations: int = msgspec.field(name="NumPDBViolations", default=0)


class _Preemption(msgspec.Struct, rename="pascal"):
    pod: msgspec.Raw
    node_name_to_victims: dict[str, _Victims] | None = None
    node_name_to_meta_victims: dict[str, _MetaVictims] | None = None


class _Binding(msgspec.Struct):
    uid: str = msgspec.field(name="PodUID")
    node: str = msgspec.field(name="Node")


_args, _object = msgspec.json.Decoder(_Args), msgspec.json.Decoder(_Object)
_names = msgspec.json.Decoder(tuple[str, ...])
_preemption, _binding = msgspec.json.Decoder(_Preemption), msgspec.json.Decoder(_Binding)


# --- requests -----------------------------------------------------------------------------


def parse_request(verb: str, body: bytes) -> ExtenderRequest:
    """The parsed request. Raises WrongShapeError with a message for its sender."""
    try:
        return _PARSERS[verb](json_without_nul(body))
    except msgspec.ValidationError as wrong:
        raise WrongShapeError(f"the request to {verb} has the wrong shape: {wrong}") from None
    except _UNREADABLE as wrong:
        raise WrongShapeError(f"the request to {verb} is not JSON: {wrong}") from None


def _nodes_request(verb: str, body: bytes) -> ExtenderRequest:
    args = _args.decode(body)
    pod, names_json = bytes(args.pod), bytes(args.node_names)
    names = None if names_json == b"null" else _parse_names(names_json)
    uid = _uid(pod)
    if names is not None:
        return ExtenderRequest(verb, uid, pod, names, names=names_json)
    items = [bytes(item) for item in (args.nodes and args.nodes.items) or ()]
    names = [_object.decode(item).metadata.name for item in items]
    return ExtenderRequest(verb, uid, pod, names, items)


@lru_cache(maxsize=2)
def _parse_names(names_json: bytes) -> Sequence[str]:
    """Cached because ``prioritize`` mostly sends the same nodes as the ``filter`` before it."""
    try:
        return _names.decode(names_json)
    except msgspec.ValidationError as wrong:
        raise msgspec.ValidationError(f"{wrong} in `$.NodeNames`") from None


def _preemption_request(body: bytes) -> ExtenderRequest:
    args = _preemption.decode(body)
    candidates = {
        name: Victims(uids=tuple(pod.uid for pod in meta.pods or ()), violations=meta.violations)
        for name, meta in (args.node_name_to_meta_victims or {}).items()
    }
    for name, victims in (args.node_name_to_victims or {}).items():
        uids = tuple(pod.metadata.uid for pod in victims.pods or ())
        candidates[name] = Victims(uids=uids, violations=victims.violations)
    pod = bytes(args.pod)
    return ExtenderRequest(PREEMPT, _uid(pod), pod, sorted(candidates), candidates=candidates)


def _binding_request(body: bytes) -> ExtenderRequest:
    args = _binding.decode(body)
    return ExtenderRequest(BIND, args.uid, node=args.node)


def _uid(pod: bytes) -> str:
    uid = _object.decode(pod).metadata.uid
    if not uid:
        raise WrongShapeError("its Pod has no metadata.uid")
    return uid


_PARSERS: Mapping[str, Callable[[bytes], ExtenderRequest]] = {
    FILTER: lambda body: _nodes_request(FILTER, body),
    PRIORITIZE: lambda body: _nodes_request(PRIORITIZE, body),
    PREEMPT: _preemption_request,
    BIND: _binding_request,
}


# --- answers ------------------------------------------------------------------------------


def answer(
    request: ExtenderRequest,
    inquired: ExtenderInquired,
    replied: ExtenderReplied,
    names: Sequence[str],
) -> Answer:
    """The answer to a request, from its reply. ``names`` are the node names of all rows."""
    if request.verb == BIND:
        return HTTPStatus.OK, _encode({"Error": replied.problem})
    if request.verb == FILTER:
        return HTTPStatus.OK, _encode(_filter_answer(request, inquired, replied, names))
    if replied.problem:  # the answers to prioritize and preempt have no field for it
        return HTTPStatus.INTERNAL_SERVER_ERROR, replied.problem.encode()
    if request.verb == PREEMPT:
        return HTTPStatus.OK, _encode({"NodeNameToMetaVictims": _preemption_answer(replied)})
    scores: dict[str, int] = {}
    for score, rows in replied.scores:
        scores.update(zip(map(names.__getitem__, rows_of(rows).tolist()), repeat(score)))
    node_scores = map(scores.get, request.nodes, repeat(0))
    return HTTPStatus.OK, _encode(list(map(_Priority, request.nodes, node_scores)))


_NO_REFUSALS: Mapping[str, Any] = {"FailedNodes": {}, "FailedAndUnresolvableNodes": {}, "Error": ""}


def _filter_answer(
    request: ExtenderRequest,
    inquired: ExtenderInquired,
    replied: ExtenderReplied,
    names: Sequence[str],
) -> dict[str, Any]:
    if replied.problem:
        return {"Error": replied.problem}
    failed = {**dict.fromkeys(inquired.strange, STRANGE), **_reasons_by_name(replied.failed, names)}
    unresolvable = _reasons_by_name(replied.unresolvable, names)
    if request.items is None and not failed and not unresolvable:
        return {"Nodes": None, "NodeNames": msgspec.Raw(request.names), **_NO_REFUSALS}
    passed = [name not in failed and name not in unresolvable for name in request.nodes]
    refusals: dict[str, Any] = {
        "FailedNodes": failed,
        "FailedAndUnresolvableNodes": unresolvable,
        "Error": "",
    }
    if request.items is None:
        names_left = [name for name, good in zip(request.nodes, passed, strict=True) if good]
        return {"Nodes": None, "NodeNames": names_left, **refusals}
    left = [msgspec.Raw(item) for item, good in zip(request.items, passed, strict=True) if good]
    return {"Nodes": {"metadata": {}, "items": left}, "NodeNames": None, **refusals}


def _reasons_by_name(refused: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    return {
        names[row]: reason for reason, rows in refused.items() for row in rows_of(rows).tolist()
    }


def _preemption_answer(replied: ExtenderReplied) -> dict[str, Any]:
    return {
        name: {
            "Pods": [{"UID": uid} for uid in victims.uids],
            "NumPDBViolations": victims.violations,
        }
        for name, victims in replied.victims.items()
    }
