"""The JSON bodies of what is written to an API server. Pure.

Every patch of a pod holds its uid, and the server refuses one for another uid (409). Conditions are
merged by their type (strategic merge patch), so the others stay as they are.
"""

from datetime import UTC, datetime, timedelta
from hashlib import blake2b

import msgspec

from eventsched.cluster.messages import Announce, BindPod, EvictPod, TouchPod

DECISION = "eventsched.io/decision"
"""The annotation that names the decision (``stream/position@token``) behind a bind or an Event."""
TOUCHED = "eventsched.io/Touched"
"""The type of the condition that a touch writes."""
NOTE_LIMIT = 1024
"""Bytes of an Event's note (upstream: core validation NoteLengthLimit)."""
_INSTANCE_LIMIT = 128
_NAME_LIMIT = 253
_CUT = b" ..."

_encode = msgspec.json.Encoder().encode


class PodCondition(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A condition of a pod's status (core/v1 PodCondition), its time in RFC 3339."""

    type: str
    status: str
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None
    observed_generation: int = 0


def binding(request: BindPod) -> bytes:
    """A Binding with its preconditions; its annotation is copied to the pod."""
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
    """A condition with a new ``nonce`` each time: a patch that changes nothing is not written, and
    the resourceVersion would stay. It goes to pods/status, because the ClusterRole
    ``system:kube-scheduler`` may patch that but not pods."""
    condition = PodCondition(
        TOUCHED, "True", reason="BindFenced", message=f"older binds fail from here on ({nonce})"
    )
    return _status_patch(request.uid, None, [condition])


def disruption(request: EvictPod, generation: int, at: int) -> bytes:
    """The condition of a pod that makes room (upstream: framework/preemption executor.go), and the
    decision behind it."""
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
    """A delete of this uid alone, with the pod's own grace period."""
    return _encode({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}})


def report(uid: str, version: int, condition: PodCondition | None, nominated: str | None) -> bytes:
    """What a failed attempt leaves in the status of a pod that is still at a resourceVersion:
    ``condition`` and nominatedNodeName ("" ends it), each where it is not None."""
    more = {} if nominated is None else {"nominatedNodeName": nominated or None}
    return _status_patch(uid, version, [] if condition is None else [condition], more)


def _status_patch(
    uid: str,
    version: int | None,
    conditions: list[PodCondition],
    more: dict[str, str | None] | None = None,
) -> bytes:
    metadata = {"uid": uid}
    if version is not None:
        metadata["resourceVersion"] = str(version)
    status: dict[str, object] = dict(more or {})
    if conditions:
        status["conditions"] = conditions
    return _encode({"metadata": metadata, "status": status})


def event_name(request: Announce) -> str:
    """An Event's name, the same whenever a request is repeated. As upstream's it is the pod's name
    and nanoseconds in hex, so that lists by name are in the order of time; the last three digits
    tell decisions of one microsecond apart."""
    key = f"{request.key} {request.reason} {request.uid}".encode()
    digest = blake2b(key, digest_size=16)
    nanoseconds = request.at * 1000 + int.from_bytes(digest.digest()) % 1000
    name = f"{request.name}.{nanoseconds:x}"
    return name if len(name) <= _NAME_LIMIT else digest.hexdigest()


def event(request: Announce, host: str, count: int = 1) -> bytes:
    """An Event (events.k8s.io/v1), as upstream's recorder makes it (client-go tools/events). With a
    ``count`` above one it stands for a series, of which this is the last."""
    made = {
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
        made["related"] = _reference(*request.related)
    if count > 1:
        made["series"] = _series(count, request.at)
    return _encode(made)


def series_patch(request: Announce, count: int) -> bytes:
    """What changes of an Event when it has happened again, ``count`` times by now."""
    annotations = {DECISION: request.key}
    return _encode({"metadata": {"annotations": annotations}, "series": _series(count, request.at)})


def note(text: str) -> str:
    """A note of at most 1,024 bytes, with upstream's sign of a cut (schedule_one.go
    truncateMessage), at the end of a character."""
    whole = text.encode()
    if len(whole) <= NOTE_LIMIT:
        return text
    return (whole[: NOTE_LIMIT - len(_CUT)]).decode(errors="ignore") + _CUT.decode()


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
    """Microseconds since 1970 as meta/v1 Time writes them: ``2026-01-31T12:00:00Z``."""
    return _moment(at).strftime("%Y-%m-%dT%H:%M:%SZ")


def micros_text(at: int) -> str:
    """Microseconds since 1970 as meta/v1 MicroTime writes them: ``2026-01-31T12:00:00.000000Z``."""
    return _moment(at).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _moment(at: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=at)
