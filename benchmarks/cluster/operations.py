"""What a workload's operations do to an API server.

Rules: upstream's test/integration/scheduler_perf/{operations,executor}.go.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any, Protocol
from uuid import uuid4

from benchmarks.cluster.client import Client, collection
from benchmarks.cluster.watching import Watching
from benchmarks.cluster.workloads import Workload, seconds

WAIT_SECONDS = 1_200.0
"""Seconds that a barrier waits for pods."""


class UnsupportedError(Exception):
    """An operation that is not done here."""


class Runner(Protocol):
    """What operations do to the scheduler."""

    async def start(self) -> None:
        """Starts it, before the first pods come."""

    def pause(self) -> None:
        """Lets it stand still."""

    def go_on(self) -> None:
        """Ends a pause."""


class Operations:
    """Carries out one workload. ``measured`` are the namespaces whose pods count."""

    def __init__(
        self, workload: Workload, client: Client, watching: Watching, *, backlog: bool = False
    ) -> None:
        """With a ``backlog`` the scheduler stands still while measured pods are created."""
        self.measured: list[str] = []
        self._backlog = backlog
        self._workload = workload
        self._client = client
        self._watching = watching
        self._numbers = itertools.count()
        self._background: list[asyncio.Task[None]] = []
        self._namespaces: set[str] = {"default"}
        self._steps: Mapping[str, Callable[[Mapping[str, Any]], Awaitable[None]]] = {
            "createNodes": self._create_nodes,
            "createNamespaces": self._create_namespaces,
            "createPods": self._create_pods,
            "createPodSets": self._create_pod_sets,
            "createAny": self._create_any,
            "deletePods": self._delete_pods,
            "churn": self._churn,
            "barrier": self._barrier,
            "sleep": lambda op: asyncio.sleep(seconds(op["duration"])),
            "startCollectingMetrics": self._start_collecting,
            "stopCollectingMetrics": self._stop_collecting,
        }

    def check(self) -> None:
        """Raises UnsupportedError for an operation that is not implemented here."""
        for op in self._workload.operations:
            if op["opcode"] not in self._steps:
                raise UnsupportedError(f"{self._workload.full_name}: {op['opcode']}")

    async def run(self, runner: Runner) -> None:
        """All operations in order."""
        started, self._runner = False, runner
        try:
            for number, op in enumerate(self._workload.operations):
                if op["opcode"] not in ("createNodes", "createNamespaces") and not started:
                    await runner.start()
                    started = True
                await self._steps[op["opcode"]]({**op, "number": number})
        finally:
            for task in self._background:
                task.cancel()
            await asyncio.gather(*self._background, return_exceptions=True)

    # --- nodes and namespaces -------------------------------------------------------------

    async def _create_nodes(self, op: Mapping[str, Any]) -> None:
        path = op.get("nodeTemplatePath", "../templates/node-default.yaml")
        labels = op.get("labelNodePrepareStrategy")
        unique = op.get("uniqueNodeLabelStrategy")
        room = op.get("nodeAllocatableStrategy", {})
        nodes, drivers = [], []
        for index in range(op["count"]):
            node = self._workload.template(path, {"Index": index, "Count": op["count"]})
            found = node["metadata"].setdefault("labels", {})
            name = node["metadata"].pop("generateName", None)
            if name is not None:
                node["metadata"]["name"] = f"{name}{op['number']}-{index:05d}"
            found.setdefault("kubernetes.io/hostname", node["metadata"]["name"])
            if labels:
                values = labels["labelValues"]
                found[labels["labelKey"]] = values[index % len(values)]
            if unique:
                found[unique["labelKey"]] = str(uuid4())
            status = node.setdefault("status", {})
            status["allocatable"] = status.get("capacity", {}) | room.get("nodeAllocatable", {})
            nodes.append((node, ""))
            drivers += _csi_node(node["metadata"]["name"], room.get("csiNodeAllocatable"))
        await self._client.create_all(nodes)
        await self._client.create_all((each, "") for each in drivers)

    async def _create_namespaces(self, op: Mapping[str, Any]) -> None:
        for index in range(op["count"]):
            obj = {"kind": "Namespace", "apiVersion": "v1", "metadata": {}}
            if "namespaceTemplatePath" in op:
                obj = self._workload.template(op["namespaceTemplatePath"], {"Index": index})
            await self._namespace(f"{op['prefix']}-{index}", obj)

    async def _namespace(self, name: str, obj: Mapping[str, Any] | None = None) -> None:
        if name in self._namespaces:
            return
        self._namespaces.add(name)
        made = deepcopy(dict(obj or {"kind": "Namespace", "apiVersion": "v1", "metadata": {}}))
        made["metadata"] = {**made.get("metadata", {}), "name": name}
        made["metadata"].pop("generateName", None)
        await self._client.create(made)

    # --- pods -----------------------------------------------------------------------------

    async def _create_pods(self, op: Mapping[str, Any]) -> None:
        if op.get("steadyState"):
            raise UnsupportedError(f"{self._workload.full_name}: steadyState")
        namespace = op.get("namespace") or f"namespace-{op['number']}"
        await self._namespace(namespace)
        if op.get("collectMetrics"):
            self.measured.append(namespace)
            self._watching.collect({namespace})
        pods = await self._pods(op, namespace)
        if self._backlog and op.get("collectMetrics"):
            await self._pile_up(pods, namespace, op["count"])
        else:
            await self._client.create_all(pods)
        self._watching.expect(namespace, op["count"])
        if not op.get("skipWaitToCompletion"):
            await self._watching.bound(namespace, WAIT_SECONDS)
        if op.get("collectMetrics"):
            self._watching.stop()

    async def _pile_up(self, pods: Iterator[tuple[Any, str]], namespace: str, count: int) -> None:
        """Creates pods that the scheduler sees only when all of them are there."""
        self._runner.pause()
        await self._client.create_all(pods)
        await self._watching.seen(namespace, count, WAIT_SECONDS)
        self._watching.restart()
        self._runner.go_on()

    async def _pods(self, op: Mapping[str, Any], namespace: str) -> Iterator[tuple[Any, str]]:
        template = self._workload.template(
            op.get("podTemplatePath") or self._workload.pod_template, {"Index": 0}
        )
        claims: list[str] = []
        if "persistentVolumeClaimTemplatePath" in op:
            claims = [await self._volume(op, namespace, index) for index in range(op["count"])]

        def pods() -> Iterator[tuple[Any, str]]:
            for index in range(op["count"]):
                yield _pod(template, claims[index] if claims else ""), namespace

        return pods()

    async def _volume(self, op: Mapping[str, Any], namespace: str, index: int) -> str:
        """A claim that is bound to a volume, as a volume controller would leave them."""
        name = f"vol-{op['number']}-{index}"
        claim = self._workload.template(op["persistentVolumeClaimTemplatePath"], {"Index": index})
        claim["metadata"] = {
            "name": f"{name}-{namespace}",
            "annotations": {"pv.kubernetes.io/bind-completed": "true"},
        }
        claim["spec"]["volumeName"] = f"{name}-{namespace}"
        made = await self._client.create(claim, namespace)
        volume = self._workload.template(op["persistentVolumeTemplatePath"], {"Index": index})
        volume["metadata"] = {"name": f"{name}-{namespace}"}
        for source in ("awsElasticBlockStore", "csi"):
            key = "volumeID" if source == "awsElasticBlockStore" else "volumeHandle"
            if source in volume["spec"]:
                volume["spec"][source][key] = f"{name}-{namespace}"
        volume["spec"]["claimRef"] = {
            "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": namespace,
            "name": made["metadata"]["name"], "uid": made["metadata"]["uid"],
        }  # fmt: skip
        await self._client.create(volume)
        for path in (
            f"{collection('PersistentVolume')}/{name}-{namespace}/status",
            f"{collection('PersistentVolumeClaim', namespace)}/{name}-{namespace}/status",
        ):
            await self._client.patch(path, {"status": {"phase": "Bound"}})
        return f"{name}-{namespace}"

    async def _create_pod_sets(self, op: Mapping[str, Any]) -> None:
        for index in range(op["count"]):
            namespace = f"{op['namespacePrefix']}-{index}"
            await self._create_pods(
                {**op["createPodsOp"], "number": op["number"], "namespace": namespace}
            )

    async def _delete_pods(self, op: Mapping[str, Any]) -> None:
        names = self._watching.names(op["namespace"], op.get("labelSelector", {}))
        pace = op.get("deletePodsPerSecond", 0)

        async def delete() -> None:
            for name in names:
                await self._client.delete(f"{collection('Pod', op['namespace'])}/{name}")
                if pace:
                    await asyncio.sleep(1 / pace)

        self._watching.expect(op["namespace"], -len(names))
        if op.get("skipWaitToCompletion"):
            self._background.append(asyncio.create_task(delete()))
        else:
            await delete()

    # --- other things ---------------------------------------------------------------------

    async def _create_any(self, op: Mapping[str, Any]) -> None:
        namespace = op.get("namespace", "")
        if namespace:
            await self._namespace(namespace)
        count = op.get("count", 1)
        for index in range(count):
            obj = self._workload.template(op["templatePath"], {"Index": index, "Count": count})
            try:
                await self._client.create(obj, namespace)
            except KeyError as unknown:
                raise UnsupportedError(f"{self._workload.full_name}: kind {unknown}") from None

    async def _churn(self, op: Mapping[str, Any]) -> None:
        namespace = op.get("namespace") or f"namespace-{op['number']}"
        await self._namespace(namespace)
        self._background.append(asyncio.create_task(self._churned(op, namespace)))

    async def _churned(self, op: Mapping[str, Any], namespace: str) -> None:
        pause = op.get("intervalMilliseconds", 500) / 1000
        number, kept = op.get("number", 0), []
        while True:
            for path in op["templatePaths"]:
                obj = self._workload.template(path, {"Index": next(self._numbers)})
                made = await self._client.create(obj, namespace)
                where = collection(obj["kind"], namespace)
                kept.append(f"{where}/{made['metadata']['name']}")
                await asyncio.sleep(pause)
            if op["mode"] == "recreate" and len(kept) >= number * len(op["templatePaths"]):
                for path in kept:
                    await self._client.delete(path)
                    await asyncio.sleep(pause)
                kept.clear()

    async def _barrier(self, op: Mapping[str, Any]) -> None:
        attempted = op.get("stageRequirement") == "Attempted"
        for namespace in op.get("namespaces") or self._watching.expected:
            await self._watching.bound(namespace, WAIT_SECONDS, attempted=attempted)

    async def _start_collecting(self, op: Mapping[str, Any]) -> None:
        self.measured += op["namespaces"]
        self._watching.collect(set(op["namespaces"]))

    async def _stop_collecting(self, op: Mapping[str, Any]) -> None:
        self._watching.stop()


def _pod(template: Mapping[str, Any], claim: str) -> Mapping[str, Any]:
    if not claim:
        return template
    pod = deepcopy(dict(template))
    pod["spec"].setdefault("volumes", []).append(
        {"name": "vol", "persistentVolumeClaim": {"claimName": claim}}
    )
    return pod


def _csi_node(name: str, drivers: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    if not drivers:
        return []
    return [
        {
            "kind": "CSINode",
            "apiVersion": "storage.k8s.io/v1",
            "metadata": {"name": name},
            "spec": {
                "drivers": [
                    {"name": driver, "nodeID": name, "allocatable": room}
                    for driver, room in drivers.items()
                ]
            },
        }
    ]
