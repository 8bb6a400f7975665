"""Stands in for the volume controller: binds each volume to the claim that it is reserved for."""

import http.client
import threading
from contextlib import suppress
from typing import Any

from tests.cluster.harness.client import MERGE, ApiError, Client, Object
from tests.cluster.harness.plane import ADMIN, ControlPlane
from tests.waiting import joined

TURN = 0.25
"""Seconds between two looks."""
_DONE = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}


class VolumeBinder:
    """Looks at the claims of a namespace in a thread of its own, from ``start`` until ``close``."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._client, self._namespace = plane.client(ADMIN), namespace
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="volumes", daemon=True)

    def start(self) -> None:
        """From now on."""
        self._thread.start()

    def close(self) -> None:
        """Stops it."""
        self._over.set()
        if self._thread.is_alive():
            joined(self._thread)
        self._client.close()

    def _run(self) -> None:
        while not self._over.wait(TURN):
            # The API server is down, or another client was faster.
            with suppress(OSError, http.client.HTTPException, ApiError):
                self._look()

    def _look(self) -> None:
        for each in self._client.list("PersistentVolume"):
            found = each["spec"].get("claimRef", {})
            phase = each.get("status", {}).get("phase")
            if phase == "Bound":
                continue
            if phase != "Available":
                offer(self._client, each["metadata"]["name"])
            elif found.get("namespace") == self._namespace:
                bind(self._client, self._namespace, found["name"], each["metadata"]["name"])


def offer(client: Client, name: str) -> None:
    """Says that a volume is there to be had."""
    _write(client, "PersistentVolume", name, {"status": {"phase": "Available"}}, "status")


def bind(client: Client, namespace: str, claim: str, volume: str) -> None:
    """Binds a claim to the volume that was promised to it."""
    bound: Object = {"metadata": {"annotations": _DONE}, "spec": {"volumeName": volume}}
    done = {"status": {"phase": "Bound"}}
    _write(client, "PersistentVolumeClaim", claim, bound, namespace=namespace)
    _write(client, "PersistentVolumeClaim", claim, done, "status", namespace)
    _write(client, "PersistentVolume", volume, done, "status")


def _write(
    client: Client, kind: str, name: str, patch: Any, part: str = "", namespace: str | None = None
) -> None:
    client.patch(kind, name, patch, namespace, subresource=part, content_type=MERGE)
