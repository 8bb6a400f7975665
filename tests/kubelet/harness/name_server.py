"""The cluster's names: answers for Services from what the API server has, at the machine's address
for its nodes. As much of DNS as the pods of the tests need: A records over UDP."""

import socket
import struct
import threading
from contextlib import suppress
from typing import Self

from tests.cluster.harness.client import ApiError, Client
from tests.waiting import joined

_SUFFIX = ".svc.cluster.local"
_A, _IN, _UNKNOWN = 1, 1, 3
_SECONDS = 5
"""How long an answer may be kept."""


class NameServer:
    """Answers for as long as the block lasts."""

    def __init__(self, client: Client, address: str) -> None:
        self._client = client
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((address, 53))
        self._socket.settimeout(0.2)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="name server", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        joined(self._thread)
        self._socket.close()
        self._client.close()

    def _serve(self) -> None:
        while not self._over.is_set():
            with suppress(OSError, ApiError, struct.error, IndexError, UnicodeDecodeError):
                question, asker = self._socket.recvfrom(512)
                self._socket.sendto(self._answer(question), asker)

    def _answer(self, question: bytes) -> bytes:
        name, end = _name(question)
        (kind,) = struct.unpack_from(">H", question, end)
        addresses = self.addresses(name)
        shown = addresses if addresses and kind == _A else []
        code = 0 if addresses is not None else _UNKNOWN
        head = question[:2] + struct.pack(">HHHHH", 0x8580 | code, 1, len(shown), 0, 0)
        records = [
            struct.pack(">HHHIH", 0xC00C, _A, _IN, _SECONDS, 4) + socket.inet_aton(address)
            for address in shown
        ]
        return b"".join([head, question[12 : end + 4], *records])

    def addresses(self, name: str) -> list[str] | None:
        """Of a Service, or of its pods if it is headless; None if there is no such name."""
        parts = name.lower().removesuffix(_SUFFIX).split(".")
        if not name.lower().endswith(_SUFFIX) or len(parts) != 2:
            return None
        service = self._client.find("Service", *parts)
        if service is None:
            return None
        if service["spec"]["clusterIP"] != "None":
            return [service["spec"]["clusterIP"]]
        endpoints = self._client.list(
            "discovery.k8s.io/v1/EndpointSlice",
            parts[1],
            labelSelector=f"kubernetes.io/service-name={parts[0]}",
        )
        return [
            address
            for each in endpoints
            for endpoint in each.get("endpoints") or ()
            if endpoint.get("conditions", {}).get("ready", True)
            for address in endpoint["addresses"]
        ]


def _name(question: bytes) -> tuple[str, int]:
    """The name that is asked for, and where it ends."""
    labels, place = [], 12
    while length := question[place]:
        labels.append(question[place + 1 : place + 1 + length].decode("ascii"))
        place += length + 1
    return ".".join(labels), place + 1
