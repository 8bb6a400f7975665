"""The JSON of extender/v1 from the other side: what a scheduler asks us, and our answer to it.

Whole nodes are answered with the bytes they came in. Upstream: k8s.io/kube-scheduler/extender/v1
types.go, and its reader in pkg/scheduler/extender.go.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from http import HTTPStatus
from itertools import repeat
from typing import Any, NamedTuple

import msgspec

from eventsched.cluster.extenders.wire_format import WrongShapeError
from eventsched.cluster.translate import pods as translate_pods
from eventsched.domain.objects import Pod
from eventsched.domain.objects.texts import json_without_nul
from eventsched.domain.records.extender_questions import (
    BIND,
    FILTER,
    PREEMPT,
    PRIORITIZE,
    Victims,
    rows_of,
)
from eventsched.domain.records.extender_replies import ExtenderInquired, ExtenderReplied

STRANGE = "node(s) are not known to the extender (yet)"
_encode = msgspec.json.Encoder().encode
Answer = tuple[int, bytes]
"""The HTTP status, and JSON where it is 200, else words."""


class ExtenderRequest(NamedTuple):
    """A request. ``pod`` is the pod's JSON; ``nodes`` the names that it is about, with their JSON
    in ``items`` where whole nodes were sent, else as they were sent in ``names``; ``node`` is where
    ``bind`` is to bind it."""

    verb: str
    uid: str
    pod: bytes = b""
    nodes: Sequence[str] = ()
    items: Sequence[bytes] | None = None
    names: bytes = b""
    node: str = ""
    candidates: Mapping[str, Victims] = {}

    def sent(self) -> Pod:
        """The pod as it was sent. Raises InputError."""
        return translate_pods.pod(msgspec.json.decode(self.pod), "Pod", defaults=False)


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


def asked(verb: str, body: bytes) -> ExtenderRequest:
    """The parsed request. Raises WrongShapeError with a message for its sender."""
    try:
        return _READ[verb](json_without_nul(body))
    except msgspec.ValidationError as wrong:
        raise WrongShapeError(f"the request to {verb} is of another shape: {wrong}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise WrongShapeError(f"the request to {verb} is no JSON: {wrong}") from None


def _about_nodes(verb: str, body: bytes) -> ExtenderRequest:
    args = _args.decode(body)
    pod, sent = bytes(args.pod), bytes(args.node_names)
    names = None if sent == b"null" else _names_in(sent)
    uid = _uid(pod)
    if names is not None:
        return ExtenderRequest(verb, uid, pod, names, names=sent)
    items = [bytes(each) for each in (args.nodes and args.nodes.items) or ()]
    names = [_object.decode(each).metadata.name for each in items]
    return ExtenderRequest(verb, uid, pod, names, items)


@lru_cache(maxsize=2)
def _names_in(sent: bytes) -> Sequence[str]:
    """``prioritize`` is asked about the nodes that ``filter`` has left: mostly the same ones."""
    try:
        return _names.decode(sent)
    except msgspec.ValidationError as wrong:
        raise msgspec.ValidationError(f"{wrong} in `$.NodeNames`") from None


def _about_candidates(body: bytes) -> ExtenderRequest:
    args = _preemption.decode(body)
    found = {
        name: Victims(uids=tuple(pod.uid for pod in each.pods or ()), violations=each.violations)
        for name, each in (args.node_name_to_meta_victims or {}).items()
    }
    for name, whole in (args.node_name_to_victims or {}).items():
        uids = tuple(pod.metadata.uid for pod in whole.pods or ())
        found[name] = Victims(uids=uids, violations=whole.violations)
    pod = bytes(args.pod)
    return ExtenderRequest(PREEMPT, _uid(pod), pod, sorted(found), candidates=found)


def _to_bind(body: bytes) -> ExtenderRequest:
    args = _binding.decode(body)
    return ExtenderRequest(BIND, args.uid, node=args.node)


def _uid(pod: bytes) -> str:
    uid = _object.decode(pod).metadata.uid
    if not uid:
        raise WrongShapeError("its Pod has no metadata.uid")
    return uid


_READ: Mapping[str, Callable[[bytes], ExtenderRequest]] = {
    FILTER: lambda body: _about_nodes(FILTER, body),
    PRIORITIZE: lambda body: _about_nodes(PRIORITIZE, body),
    PREEMPT: _about_candidates,
    BIND: _to_bind,
}


# --- answers ------------------------------------------------------------------------------


def answer(
    asked: ExtenderRequest,
    inquired: ExtenderInquired,
    replied: ExtenderReplied,
    names: Sequence[str],
) -> Answer:
    """What a reply says to a request, in its form. ``names`` are those of all rows."""
    if asked.verb == BIND:
        return HTTPStatus.OK, _encode({"Error": replied.problem})
    if asked.verb == FILTER:
        return HTTPStatus.OK, _encode(_filtered(asked, inquired, replied, names))
    if replied.problem:  # these two have no field for it
        return HTTPStatus.INTERNAL_SERVER_ERROR, replied.problem.encode()
    if asked.verb == PREEMPT:
        return HTTPStatus.OK, _encode({"NodeNameToMetaVictims": _kept(replied)})
    scores: dict[str, int] = {}
    for score, rows in replied.scores:
        scores.update(zip(map(names.__getitem__, rows_of(rows).tolist()), repeat(score)))
    given = map(scores.get, asked.nodes, repeat(0))
    return HTTPStatus.OK, _encode(list(map(_Priority, asked.nodes, given)))


_NOBODY: Mapping[str, Any] = {"FailedNodes": {}, "FailedAndUnresolvableNodes": {}, "Error": ""}


def _filtered(
    asked: ExtenderRequest,
    inquired: ExtenderInquired,
    replied: ExtenderReplied,
    names: Sequence[str],
) -> dict[str, Any]:
    if replied.problem:
        return {"Error": replied.problem}
    failed = {**dict.fromkeys(inquired.strange, STRANGE), **_named(replied.failed, names)}
    unresolvable = _named(replied.unresolvable, names)
    if asked.items is None and not failed and not unresolvable:
        return {"Nodes": None, "NodeNames": msgspec.Raw(asked.names), **_NOBODY}
    passed = [name not in failed and name not in unresolvable for name in asked.nodes]
    told: dict[str, Any] = {
        "FailedNodes": failed,
        "FailedAndUnresolvableNodes": unresolvable,
        "Error": "",
    }
    if asked.items is None:
        names_left = [name for name, good in zip(asked.nodes, passed, strict=True) if good]
        return {"Nodes": None, "NodeNames": names_left, **told}
    left = [msgspec.Raw(each) for each, good in zip(asked.items, passed, strict=True) if good]
    return {"Nodes": {"metadata": {}, "items": left}, "NodeNames": None, **told}


def _named(refused: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    return {
        names[row]: reason for reason, rows in refused.items() for row in rows_of(rows).tolist()
    }


def _kept(replied: ExtenderReplied) -> dict[str, Any]:
    return {
        name: {
            "Pods": [{"UID": uid} for uid in each.uids],
            "NumPDBViolations": each.violations,
        }
        for name, each in replied.victims.items()
    }
