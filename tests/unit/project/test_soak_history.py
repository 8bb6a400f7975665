"""How the cluster soak reads the API server's audit log and etcd's changes."""

import base64
import json
from typing import Any

from tests.cluster.soak.history import StoreLines, from_audit_log

AT = "2026-01-02T03:04:05.000006Z"
RECEIVED = 1767323045_000006


def event(number: int, stage: str, **more: Any) -> str:
    about = {"resource": "pods", "subresource": "binding", "namespace": "ns", "name": "web"}
    base = {
        "kind": "Event",
        "auditID": f"id-{number}",
        "stage": stage,
        "verb": "create",
        "user": {"username": "replica-0"},
        "objectRef": about,
        "requestReceivedTimestamp": AT,
        "stageTimestamp": AT,
    }
    return json.dumps({**base, **more}, separators=(",", ":")) + "\n"


def answer(number: int, code: int) -> str:
    metadata = {"uid": "u1", "annotations": {"eventsched.io/decision": "scheduler/17@ab-cd"}}
    asked = {"metadata": metadata, "target": {"name": "n"}}
    return event(number, "ResponseComplete", requestObject=asked, responseStatus={"code": code})


def test_a_request_is_one_line_with_its_answer() -> None:
    [line] = from_audit_log([event(1, "RequestReceived"), answer(1, 201)], {})
    assert line == {
        "kind": "bound",
        "pod": "u1",
        "node": "n",
        "position": 17,
        "name": "ns/web",
        "user": "replica-0",
        "received": RECEIVED,
        "answered": RECEIVED,
        "code": 201,
    }


def test_a_request_that_the_server_did_not_survive() -> None:
    """Its pod is known by name; the answer that was cut short does not hide the next line."""
    log = [
        event(1, "RequestReceived"),
        answer(1, 201)[:90] + event(2, "RequestReceived"),
        answer(2, 409),
    ]
    first, second = from_audit_log(log, {"ns/web": "u1"})
    assert (first["pod"], first["node"], first["position"], first["code"]) == (
        "u1",
        None,
        None,
        None,
    )
    assert (second["pod"], second["code"]) == ("u1", 409)


def change(revision: int, key: str, value: dict[str, Any] | None) -> dict[str, Any]:
    pair = {
        "key": base64.b64encode(f"/registry/{key}".encode()).decode(),
        "mod_revision": str(revision),
    }
    if value is None:
        return {"type": "DELETE", "kv": pair}
    return {"kv": {**pair, "value": base64.b64encode(json.dumps(value).encode()).decode()}}


def pod(uid: str, node: str = "", phase: str = "Pending") -> dict[str, Any]:
    spec = {"containers": [{"resources": {"requests": {"cpu": "1"}}}], "nodeName": node}
    return {"metadata": {"uid": uid}, "spec": spec, "status": {"phase": phase}}


def test_changes_in_etcd() -> None:
    """A pod that is placed, touched and deleted; one of the same name that runs to its end."""
    key, read = "pods/ns/web", StoreLines().read
    changes = [
        change(1, "minions/n", {"status": {"allocatable": {"cpu": "2"}}}),
        change(2, "minions/n", {"status": {"allocatable": {"cpu": "2"}}, "other": 1}),
        change(3, key, pod("u1")),
        change(4, key, pod("u1", "n")),
        change(5, key, pod("u1", "n", "Running")),
        change(6, key, None),
        change(7, key, pod("u2", "n")),
        change(8, key, pod("u2", "n", "Succeeded")),
        change(9, key, None),
        change(10, "minions/n", None),
        change(11, "persistentvolumes/v", {}),
    ]
    lines = [line for each in changes for line in read(each)]
    said = [(line["kind"], line["revision"], line.get("pod", line.get("node"))) for line in lines]
    assert said == [
        ("node", 1, "n"),
        ("created", 3, "u1"),
        ("seen", 4, "u1"),
        ("ended", 6, "u1"),
        ("created", 7, "u2"),
        ("seen", 7, "u2"),
        ("ended", 8, "u2"),
        ("removed", 10, "n"),
    ]
