"""Watches all pods with eyes of its own, from before the first one, and holds what it sees against
what must never be: a pod on two nodes, a node with more on it than it has, an Event too many or one
that is missing, a bind without a committed decision.

    with Observer(plane, pods.namespace) as observer:
        …
        observer.check(scheduler.log())
"""

import http.client
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple, Self

from eventsched.domain.objects.quantities import parse
from eventsched.domain.records import BindIntended, Outcome, PodBound, PodDecided
from tests.cluster.harness.client import ApiError, Object, wait_for
from tests.cluster.harness.grounds import Event, grounds
from tests.cluster.harness.plane import ADMIN, ControlPlane
from tests.cluster.harness.pods import EVENT, decision
from tests.cluster.harness.scheduler import Log
from tests.waiting import joined

_TURN = 5
"""Seconds of one watch; the next one continues from its end."""


class Placed(NamedTuple):
    """A pod as it was first seen on a node; ``at`` is time.time()."""

    name: str
    node: str
    decision: str
    at: float


class Observer:
    """``placed`` are the pods that ever were on a node, by uid; ``pods`` those that are there now;
    ``wrong`` the violations found, in words. What a node has does not change."""

    def __init__(self, plane: ControlPlane, namespace: str, *, only_there: bool = False) -> None:
        """``only_there`` overlooks pods of other namespaces, which another scheduler places."""
        self.placed: dict[str, Placed] = {}
        self.pods: dict[str, Object] = {}
        self.wrong: list[str] = []
        self._client = plane.client(ADMIN)
        self._namespace = namespace
        self._only_there = only_there
        found = self._client.list("Node")
        self._offered = {each["metadata"]["name"]: _offered(each) for each in found}
        self._version = self._relist()
        self._had_gap = False
        """Whether pods may have come to a node and gone again unseen."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="observer", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        joined(self._thread)
        self._client.close()

    # --- what there is to ask -------------------------------------------------------------

    def wait_placed(self, within: float = 120.0) -> None:
        """Waits until every pod that there is has a node, and was seen there. Raises
        TimeoutError."""

        def all_are() -> bool:
            found = self._client.list("Pod", self._namespace)
            return _uids(found) == set(self.pods) and _uids(found) <= set(self.placed)

        def lost() -> str:
            found = self._client.list("Pod", self._namespace)
            names = [each["metadata"]["name"] for each in found if "nodeName" not in each["spec"]]
            return f"{len(names)} of {len(found)} pods have no node: {sorted(names)}"

        try:
            wait_for(all_are, "all pods have nodes", within, 0.3)
        except TimeoutError as late:
            raise TimeoutError(f"{late}; {lost()}") from None

    def forget(self, uid: str) -> None:
        """Expects nothing of a pod that another scheduler has placed, once it was seen on its node.
        Raises TimeoutError."""
        wait_for(lambda: uid in self.placed, f"{uid} is seen on a node")
        del self.placed[uid]

    def check(self, log: Log, within: float = 60.0) -> None:
        """All that has to be so once everything is at rest. Raises AssertionError."""
        self._wait_reported(log, within)
        twice = Counter(each.uid for each in log.of(PodBound))
        wrong = [
            *self.wrong,
            *self._unbacked(log),
            *self._wrong_events(log),
            *(f"{uid} is bound {times} times" for uid, times in twice.items() if times > 1),
        ]
        assert wrong == [], wrong

    # --- violations -----------------------------------------------------------------------

    def _unbacked(self, log: Log) -> Iterator[str]:
        """Pods on nodes that no committed decision of theirs names."""
        intended = {
            (stored.position, each.uid): each.node
            for stored, each in zip(log.stored, log.records, strict=True)
            if (isinstance(each, PodDecided) and each.outcome is Outcome.SCHEDULED)
            or isinstance(each, BindIntended)
        }
        for uid, placed in self.placed.items():
            if intended.get((position_of(placed.decision), uid)) != placed.node:
                yield f"{placed} is of no decision in the log"

    def _reported(self) -> dict[Event, list[str]]:
        """Reason and uid → the decisions that Events name."""
        decisions: dict[Event, list[str]] = {}
        for event in self._client.list(EVENT, self._namespace):
            if event.get("reportingController") == "kubelet":
                continue
            key = str(event["reason"]), str(event["regarding"]["uid"])
            decisions.setdefault(key, []).append(decision(event))
        return decisions

    def _wait_reported(self, log: Log, within: float) -> None:
        """Waits until all expected Events exist, including those of deleted pods, and until the
        pods that they are about were seen on their nodes: this watch may be behind."""
        names = log.names
        here = f"{self._namespace}/"
        owed = {each for each in grounds(log).owed if names[each[1]].startswith(here)}
        owed |= {("Scheduled", uid) for uid in self.pods if uid in self.placed}

        def lacking() -> list[str]:
            reported = set(self._reported())
            unseen = (
                set()
                if self._had_gap
                else {uid for reason, uid in reported if reason == "Scheduled"} - set(self.placed)
            )
            missing = [f"{reason} of {names.get(uid)}" for reason, uid in owed - reported]
            return sorted(missing) + sorted(f"a look at {names.get(uid)}" for uid in unseen)

        try:
            wait_for(lambda: not lacking(), "all Events are there", within)
        except TimeoutError as late:
            raise TimeoutError(f"{late}; there is no {lacking()}") from None

    def _wrong_events(self, log: Log) -> Iterator[str]:
        """Events without a decision, and more than one of a decision."""
        named = grounds(log).named
        for (reason, uid), decisions in self._reported().items():
            if reason == "Scheduled":
                placed = self.placed.get(uid)
                is_unseen = placed is None and self._had_gap
                if not is_unseen and (placed is None or decisions != [placed.decision]):
                    yield f"Scheduled of {uid} ({placed}) is reported for {decisions}"
                continue
            positions = {position_of(each) for each in decisions}
            unknown = {each for each in positions - named[reason, uid] if each < len(log.records)}
            # Failures may name the same one: a new Event may continue an older one.
            is_repeated = reason == "Preempted" and len(positions) < len(decisions)
            if unknown or is_repeated:
                yield f"{reason} of {uid} is reported for {decisions}"

    # --- watching -------------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._over.is_set():
            try:
                self._follow()
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(0.2)  # the API server is down
            except ApiError as refused:
                if refused.answer.status == 410:
                    self._version = ""
                else:
                    time.sleep(0.2)  # the API server has just started

    def _follow(self) -> None:
        self._version = self._version or self._relist()
        asked = {"resourceVersion": self._version, "allowWatchBookmarks": "true"}
        with closing(self._client.watch("Pod", seconds=_TURN, **asked)) as events:
            for event in events:
                if event["type"] == "ERROR":
                    self._version = ""
                    return
                found = event["object"]
                if event["type"] == "DELETED":
                    self.pods.pop(found["metadata"]["uid"], None)
                elif event["type"] != "BOOKMARK":
                    self._saw(found)
                self._version = found["metadata"]["resourceVersion"]
                if self._over.is_set():
                    return

    def _relist(self) -> str:
        """All pods, as if just seen; those that are not there are gone."""
        self._had_gap = True
        found = self._client.listing("Pod")
        self.pods = {uid: pod for uid, pod in self.pods.items() if uid in _uids(found["items"])}
        for each in found["items"]:
            self._saw(each)
        return str(found["metadata"]["resourceVersion"])

    def _saw(self, found: Object) -> None:
        if self._only_there and found["metadata"]["namespace"] != self._namespace:
            return
        uid, node = found["metadata"]["uid"], found["spec"].get("nodeName", "")
        self.pods[uid] = found
        before = self.placed.get(uid)
        if before is None and node:
            name = found["metadata"]["name"]
            self.placed[uid] = Placed(name, node, decision(found), time.time())
            self._weigh(node)
        elif before is not None and node != before.node:
            self.wrong.append(f"{before} is on {node!r} now")

    def _weigh(self, node: str) -> None:
        """Whether a node's pods fit into it."""
        used: Counter[str] = Counter()
        for each in self.pods.values():
            if each["spec"].get("nodeName") == node and not _is_over(each):
                used["pods"] += 1
                for container in each["spec"]["containers"]:
                    for name, amount in container.get("resources", {}).get("requests", {}).items():
                        used[name] += _amount(name, amount)
        if node not in self._offered:  # it came later
            self._offered[node] = _offered(self._client.get("Node", node))
        offered = self._offered[node]
        if any(amount > offered.get(name, 0) for name, amount in used.items()):
            self.wrong.append(f"{node} has {offered}, and {dict(used)} are on it")


def position_of(named: str) -> int:
    """The position in the log of a decision by its name, -1 if it has none."""
    position = named.partition("/")[2].partition("@")[0]
    return int(position) if position else -1


def _uids(pods: list[Object]) -> set[str]:
    return {each["metadata"]["uid"] for each in pods}


def _is_over(pod: Object) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def _offered(node: Object) -> dict[str, int]:
    allocatable = node["status"]["allocatable"]
    return {name: _amount(name, amount) for name, amount in allocatable.items()}


def _amount(name: str, amount: str) -> int:
    """CPU in thousandths, everything else in units."""
    return parse(amount, 1000 if name == "cpu" else 1)
