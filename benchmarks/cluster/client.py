"""A small client for making load: JSON over one connection pool, nothing more."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import aiohttp

_GROUPS = {
    "Pod": ("api/v1", "pods", True),
    "Node": ("api/v1", "nodes", False),
    "Namespace": ("api/v1", "namespaces", False),
    "Service": ("api/v1", "services", True),
    "PersistentVolume": ("api/v1", "persistentvolumes", False),
    "PersistentVolumeClaim": ("api/v1", "persistentvolumeclaims", True),
    "CSINode": ("apis/storage.k8s.io/v1", "csinodes", False),
    "StorageClass": ("apis/storage.k8s.io/v1", "storageclasses", False),
    "PriorityClass": ("apis/scheduling.k8s.io/v1", "priorityclasses", False),
    "Secret": ("api/v1", "secrets", True),
}
"""Kind → group's path, plural, whether it is in a namespace."""


class RefusedError(Exception):
    """The API server answered with an error."""


class Client:
    """Creates, lists, deletes and watches. One for each run."""

    def __init__(self, server: str, token: str, tls: ssl.SSLContext, connections: int) -> None:
        self._server = server
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls, limit=0),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            read_bufsize=2**21,
        )
        self._free = asyncio.Semaphore(connections)

    async def close(self) -> None:
        """Closes the pool."""
        await self._session.close()

    async def create(self, obj: Mapping[str, Any], namespace: str = "") -> dict[str, Any]:
        """Creates an object and returns it as it is then."""
        return await self._send("POST", collection(obj["kind"], namespace), obj)

    async def create_all(self, objects: Iterable[tuple[Mapping[str, Any], str]]) -> None:
        """Creates many, a bounded number at a time."""
        async with asyncio.TaskGroup() as tasks:
            for obj, namespace in objects:
                await self._free.acquire()
                task = tasks.create_task(self.create(obj, namespace))
                task.add_done_callback(lambda _: self._free.release())

    async def patch(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Patches by strategic merge."""
        return await self._send("PATCH", path, body, "application/strategic-merge-patch+json")

    async def patch_when_free(self, path: str, body: Mapping[str, Any]) -> None:
        """Patches as soon as fewer than the bounded number of requests are under way."""
        async with self._free:
            await self.patch(path, body)

    async def delete(self, path: str) -> None:
        """Deletes an object at once, or a whole collection; what is gone is fine."""
        async with self._session.delete(
            f"{self._server}/{path}", data=b'{"gracePeriodSeconds":0}'
        ) as answer:
            await answer.read()

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Reads a path."""
        return await self._send("GET", path, None, params=params)

    async def watch(self, path: str, version: str) -> AsyncIterator[bytes]:
        """The lines of a watch from a resourceVersion on."""
        params = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "3600"}
        async with self._session.get(
            f"{self._server}/{path}", params=params, timeout=aiohttp.ClientTimeout(total=None)
        ) as answer:
            async for line in answer.content:
                yield line

    async def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        content_type: str = "application/json",
        params: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        async with self._session.request(
            method,
            f"{self._server}/{path}",
            data=None if body is None else json.dumps(body),
            params=params,
            headers={"Content-Type": content_type},
        ) as answer:
            text = await answer.read()
            if answer.status >= 400:
                raise RefusedError(f"{method} {path}: {answer.status} {text[:300]!r}")
            found: dict[str, Any] = json.loads(text)
            return found


def collection(kind: str, namespace: str = "") -> str:
    """The path of all objects of a kind (in a namespace)."""
    group, plural, is_namespaced = _GROUPS[kind]
    if is_namespaced and namespace:
        return f"{group}/namespaces/{namespace}/{plural}"
    return f"{group}/{plural}"
