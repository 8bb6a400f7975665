"""The JSON bodies of writes to an API server. Pure.

Every patch of a pod contains its uid; the server refuses it for a pod with another uid (409).
Conditions are merged by type (strategic merge patch), so a patch leaves the others unchanged.
"""

from datetime import UTC, datetime, timedelta
from hashlib import blake2b

import msgspec

from eventsched.cluster.messages import BindPod, EvictPod, TouchPod, WriteEvent

DECISION = "eventsched.io/decision"
"""The annotation that names the decision (``stream/position@token``) behind a bind or an Event."""
TOUCHED = "eventsched.io/Touched"
"""The type of the condition that a touch writes."""
NOTE_LIMIT = 1024
"""Bytes of an Event's note (upstream: core validation NoteLengthLimit)."""
_INSTANCE_LIMIT = 128
_NAME_LIMIT = 253
_ELLIPSIS = b" ..."

_encode = msgspec.json.Encoder().encode


class PodCondition(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A condition of a pod's status (core/v1 PodCondition); the time is RFC 3339."""

    type: str
    status: str
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None
    observed_generation: int = 0


def binding(request: BindPod) -> bytes:
    """A Binding with its preconditions. The API server copies its annotation to the pod."""
    return _encode(
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": request.name,
                "namespace": request.namespace,
                "uid": request.uid,
                "resourceVersion": str(request.resource_version),
                "annotations": {DECISION: request.decision},
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": request.node},
        }
    )


def touch(request: TouchPod, nonce: str) -> bytes:
    """A condition that changes the pod's resourceVersion. ``nonce`` must be new each time, because
    the server does not write a patch that changes nothing. The patch goes to pods/status: the
    ClusterRole ``system:kube-scheduler`` may patch that but not pods."""
    condition = PodCondition(
        TOUCHED, "True", reason="BindFenced", message=f"older binds fail from here on ({nonce})"
    )
    return _status_patch(request.uid, None, [condition])


def disruption(request: EvictPod, generation: int, at: int) -> bytes:
    """The condition of a preempted pod (upstream: framework/preemption executor.go), with the
    decision in its message."""
    condition = PodCondition(
        "DisruptionTarget",
        "True",
        reason="PreemptionByScheduler",
        message=(
            f"{request.profile}: preempting to accommodate a higher priority pod"
            f" ({request.decision})"
        ),
        last_transition_time=seconds_text(at),
        observed_generation=generation,
    )
    return _status_patch(request.uid, None, [condition])


def deletion(uid: str) -> bytes:
    """Delete options for a pod: only if it has this uid; the grace period is the pod's own."""
    return _encode({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}})


def report(uid: str, version: int, condition: PodCondition | None, nominated: str | None) -> bytes:
    """The status patch after a failed attempt. The server refuses it unless the pod is still at
    resourceVersion ``version``. None leaves ``condition`` or nominatedNodeName unchanged; a
    ``nominated`` of "" removes the nomination."""
    fields = {} if nominated is None else {"nominatedNodeName": nominated or None}
    return _status_patch(uid, version, [] if condition is None else [condition], fields)


def _status_patch(
    uid: str,
    version: int | None,
    conditions: list[PodCondition],
    fields: dict[str, str | None] | None = None,
) -> bytes:
    metadata = {"uid": uid}
    if version is not None:
        metadata["resourceVersion"] = str(version)
    status: dict[str, object] = dict(fields or {})
    if conditions:
        status["conditions"] = conditions
    return _encode({"metadata": metadata, "status": status})


def event_name(request: WriteEvent) -> str:
    """An Event's name; a repeated request has the same one. As in upstream it is the pod's name and
    the time in nanoseconds in hex, so that sorting by name is sorting by time. The last three
    digits come from a hash, to distinguish decisions of the same microsecond."""
    key = f"{request.key} {request.reason} {request.uid}".encode()
    digest = blake2b(key, digest_size=16)
    nanoseconds = request.at * 1000 + int.from_bytes(digest.digest()) % 1000
    name = f"{request.name}.{nanoseconds:x}"
    return name if len(name) <= _NAME_LIMIT else digest.hexdigest()


def event(request: WriteEvent, host: str, count: int = 1) -> bytes:
    """An Event (events.k8s.io/v1) like those of upstream's recorder (client-go tools/events). If
    ``count`` is above one, it represents a series, and the request is its last occurrence."""
    body = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": event_name(request),
            "namespace": request.namespace,
            "annotations": {DECISION: request.key},
        },
        "eventTime": micros_text(request.at),
        "reportingController": request.controller,
        "reportingInstance": f"{request.controller}-{host}"[:_INSTANCE_LIMIT],
        "action": request.action,
        "reason": request.reason,
        "regarding": _reference("Pod", request.namespace, request.name, request.uid),
        "note": note(request.note),
        "type": request.type,
    }
    if request.related is not None:
        body["related"] = _reference(*request.related)
    if count > 1:
        body["series"] = _series(count, request.at)
    return _encode(body)


def process_event(
    regarding: tuple[str, str, str, str, str],
    type_: str,
    reason: str,
    text: str,
    *,
    controller: str,
    host: str,
    at: int,
) -> bytes:
    """An Event about the scheduler itself. ``regarding`` is apiVersion, kind, namespace, name and
    uid of the object; ``at`` is in nanoseconds since 1970."""
    api_version, kind, namespace, name, uid = regarding
    return _encode(
        {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{name}.{at:x}"[-_NAME_LIMIT:], "namespace": namespace},
            "eventTime": micros_text(at // 1000),
            "reportingController": controller,
            "reportingInstance": f"{controller}-{host}"[:_INSTANCE_LIMIT],
            "action": "Reloading",
            "reason": reason,
            "regarding": {
                "apiVersion": api_version,
                "kind": kind,
                "namespace": namespace,
                "name": name,
                "uid": uid,
            },
            "note": note(text),
            "type": type_,
        }
    )


def series_patch(request: WriteEvent, count: int) -> bytes:
    """The patch of an Event that has occurred ``count`` times in all."""
    annotations = {DECISION: request.key}
    return _encode({"metadata": {"annotations": annotations}, "series": _series(count, request.at)})


def note(text: str) -> str:
    """A note of at most 1,024 bytes. A longer text is cut after a whole character and gets
    upstream's ellipsis (schedule_one.go truncateMessage)."""
    encoded = text.encode()
    if len(encoded) <= NOTE_LIMIT:
        return text
    return encoded[: NOTE_LIMIT - len(_ELLIPSIS)].decode(errors="ignore") + _ELLIPSIS.decode()


def _series(count: int, at: int) -> dict[str, object]:
    return {"count": count, "lastObservedTime": micros_text(at)}


def _reference(kind: str, namespace: str, name: str, uid: str) -> dict[str, str]:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "namespace": namespace,
        "name": name,
        "uid": uid,
    }


def seconds_text(at: int) -> str:
    """Microseconds since 1970 in the format of meta/v1 Time: ``2026-01-31T12:00:00Z``."""
    return _datetime(at).strftime("%Y-%m-%dT%H:%M:%SZ")


def micros_text(at: int) -> str:
    """Microseconds since 1970 in the format of meta/v1 MicroTime:
    ``2026-01-31T12:00:00.000000Z``."""
    return _datetime(at).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _datetime(at: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=at)
