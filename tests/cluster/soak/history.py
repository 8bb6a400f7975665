"""Writes the history that the judge reads, from three sources that the scheduler does not control:
the audit log of the API server, the changes in etcd, and the commit times of the database.

etcd numbers all changes, and here it forgets none (``--etcd-compaction-interval=0``). The API
server stores objects as JSON so that a watch of etcd shows them; this watch sees what watches of
the API server may miss while that is restarted.
"""

import base64
import http.client
import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import psycopg

from tests.cluster.harness.client import Object
from tests.cluster.harness.pods import DECISION
from tests.waiting import joined

Line = dict[str, Any]

_POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: Request
  resources: [{group: "", resources: [pods/binding]}]
- level: Metadata
  verbs: [create, delete, deletecollection]
  resources: [{group: "", resources: [pods, nodes]}]
- level: Metadata
  verbs: [create, update, patch, delete]
  resources: [{group: coordination.k8s.io, resources: [leases]}]
- level: None
"""
_PODS, _NODES = "/registry/pods/", "/registry/minions/"
_TERMS = """
select e.epoch, e.first, (extract(epoch from pg_xact_commit_timestamp(e.xmin)) * 1e6)::bigint
from eventsched_log.epoch e join eventsched_log.stream s on s.id = e.stream where s.name = %s
"""
_BATCHES = """
select b.first, b.count, b.epoch,
       (extract(epoch from pg_xact_commit_timestamp(b.xmin)) * 1e6)::bigint
from eventsched_log.batch b join eventsched_log.stream s on s.id = b.stream where s.name = %s
"""
_INTENTS = """
select b.first + n - 1, b.epoch, item -> 3 ->> 'uid', item -> 3 ->> 'node',
       (extract(epoch from pg_xact_commit_timestamp(b.xmin)) * 1e6)::bigint
from eventsched_log.batch b join eventsched_log.stream s on s.id = b.stream,
     json_array_elements(b.body) with ordinality as e (item, n)
where s.name = %s and (item -> 3 ->> 'kind' = 'BindIntended'
    or item -> 3 ->> 'kind' = 'PodDecided' and item -> 3 ->> 'outcome' = 'scheduled')
"""


# --- from the API server ------------------------------------------------------------------


def audit_flags(folder: Path) -> list[str]:
    """Flags of kube-apiserver: it writes ``audit.log`` in this folder, each line before it goes on
    with the request, and stores objects so that ``StoreWatch`` can read them."""
    policy = folder / "policy.yaml"
    policy.write_text(_POLICY)
    return [
        f"--audit-policy-file={policy}",
        f"--audit-log-path={folder / 'audit.log'}",
        "--audit-log-mode=blocking",
        "--audit-log-maxsize=100000",
        "--storage-media-type=application/json",
    ]


def from_audit_log(lines: Iterable[str], pods: Mapping[str, str]) -> Iterator[Line]:
    """A ``bound`` line for each request to bind; ``pods`` are the uids by ``namespace/name``. The
    content of a request is logged with its answer. If a kill of the API server prevents that, the
    answer and the node stay unknown. A line that was cut short is passed over."""
    requests: dict[str, Line] = {}
    for text in lines:
        for event in _events(text):
            about = event.get("objectRef", {})
            if about.get("subresource") != "binding" or event.get("verb") != "create":
                continue
            line = requests.setdefault(event["auditID"], _request(event))
            if event["stage"] == "ResponseComplete":
                line["code"] = event["responseStatus"]["code"]
                line["answered"] = _microseconds(event["stageTimestamp"])
            if "requestObject" in event:
                line.update(_what(event["requestObject"]))
    for line in requests.values():
        yield {**line, "pod": line["pod"] or pods.get(line["name"])}


def _events(text: str) -> Iterator[Object]:
    """The events in a line: the first part may be one that was cut short."""
    with suppress(ValueError):
        yield json.loads(text[max(text.rfind('{"kind":"Event"'), 0) :])


def _request(event: Object) -> Line:
    return {
        "kind": "bound",
        **_what(event.get("requestObject")),
        "name": f"{event['objectRef']['namespace']}/{event['objectRef']['name']}",
        "user": event["user"]["username"],
        "received": _microseconds(event["requestReceivedTimestamp"]),
        "answered": None,
        "code": None,
    }


def _what(binding: Object | None) -> Line:
    if binding is None:
        return {"pod": None, "node": None, "position": None}
    metadata = binding["metadata"]
    name = metadata.get("annotations", {}).get(DECISION, "")
    position = name.partition("/")[2].partition("@")[0]
    return {
        "pod": metadata.get("uid"),
        "node": binding["target"]["name"],
        "position": int(position) if position else None,
    }


def _microseconds(text: str) -> int:
    at = datetime.fromisoformat(text)
    return round(at.replace(microsecond=0).timestamp()) * 1_000_000 + at.microsecond


# --- from the database --------------------------------------------------------------------


def from_database(url: str, stream: str) -> Iterator[Line]:
    """The terms, batches and intents of a log, with the times of their commits. The database needs
    ``track_commit_timestamp``."""
    with psycopg.connect(url) as connection:
        for epoch, first, at in connection.execute(_TERMS, [stream]):
            yield {"kind": "term", "epoch": epoch, "first": first, "committed": at}
        for first, count, epoch, at in connection.execute(_BATCHES, [stream]):
            line = {"kind": "batch", "first": first, "count": count}
            yield {**line, "epoch": epoch, "committed": at}
        for position, epoch, pod, node, at in connection.execute(_INTENTS, [stream]):
            line = {"kind": "intended", "position": position, "epoch": epoch}
            yield {**line, "pod": pod, "node": node, "committed": at}


# --- from etcd ----------------------------------------------------------------------------


class StoreLines:
    """What changes of nodes and pods in etcd mean, one after the other."""

    def __init__(self) -> None:
        self._pods: dict[str, str] = {}
        self._over: set[str] = set()
        self._places: dict[str, Line] = {}
        self._offers: dict[str, Line] = {}

    def read(self, event: Object) -> Iterator[Line]:
        """The lines for an event of etcd's watch."""
        pair = event["kv"]
        key = base64.b64decode(pair["key"]).decode()
        revision = int(pair["mod_revision"])
        value = None
        if event.get("type") != "DELETE":
            value = json.loads(base64.b64decode(pair["value"]))
        if key.startswith(_PODS):
            yield from self._pod(key, revision, value)
        elif key.startswith(_NODES):
            yield from self._node(key.removeprefix(_NODES), revision, value)

    def _node(self, name: str, revision: int, value: Object | None) -> Iterator[Line]:
        if value is None:
            self._offers.pop(name, None)
            yield {"kind": "removed", "revision": revision, "node": name}
        elif self._offers.get(name) != value["status"]["allocatable"]:
            offered = self._offers[name] = value["status"]["allocatable"]
            yield {"kind": "node", "revision": revision, "node": name, "allocatable": offered}

    def _pod(self, key: str, revision: int, value: Object | None) -> Iterator[Line]:
        before = self._pods.get(key)
        uid = None if value is None else value["metadata"]["uid"]
        if before not in (None, uid):
            yield from self._end(str(before), revision, "deleted")
        if value is None or uid is None:
            self._pods.pop(key, None)
            return
        if before != uid:
            self._pods[key] = uid
            yield {
                "kind": "created",
                "revision": revision,
                "pod": uid,
                "name": key.removeprefix(_PODS),
            }
        if value.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            yield from self._end(uid, revision, "terminated")
        elif node := value["spec"].get("nodeName"):
            [container] = value["spec"]["containers"]
            place = {"node": node, "requests": container["resources"].get("requests", {})}
            if self._places.get(uid) != place:
                self._places[uid] = place
                yield {"kind": "seen", "revision": revision, "pod": uid, **place}

    def _end(self, uid: str, revision: int, why: str) -> Iterator[Line]:
        if uid not in self._over:
            self._over.add(uid)
            yield {"kind": "ended", "revision": revision, "pod": uid, "why": why}


class StoreWatch:
    """Follows etcd from its first change on, in a thread of its own; ``lines`` are complete up to
    ``revision``. It begins again from there if the connection breaks."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._address = (str(parts.hostname), int(parts.port or 0))
        self.lines: list[Line] = []
        self.uids: dict[str, str] = {}
        """By ``namespace/name``; the last one if there were several."""
        self.failure: Exception | None = None
        self._read = StoreLines()
        self._next = 1
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="store watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        joined(self._thread)

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                self._follow()
            except (OSError, http.client.HTTPException):
                self._over.wait(0.2)  # etcd is down
            except Exception as failure:  # noqa: BLE001 - the run looks at it in the end
                self.failure = failure
                return

    def _follow(self) -> None:
        wanted = {
            "key": base64.b64encode(_NODES.encode()).decode(),
            "range_end": base64.b64encode(b"/registry/pods0").decode(),
            "start_revision": str(self._next),
            "progress_notify": True,
        }
        body = json.dumps({"create_request": wanted})
        with closing(http.client.HTTPConnection(*self._address, timeout=30)) as connection:
            connection.request("POST", "/v3/watch", body)
            response = connection.getresponse()
            with closing(response):
                for text in response:
                    self._take(json.loads(text)["result"])
                    if self._over.is_set():
                        return

    def _take(self, result: Object) -> None:
        if result.get("canceled"):
            raise RuntimeError(f"etcd ends the watch: {result}")
        for event in result.get("events", ()):
            for line in self._read.read(event):
                self.lines.append(line)
                if line["kind"] == "created":
                    self.uids[line["name"]] = line["pod"]
            self._next = int(event["kv"]["mod_revision"]) + 1
