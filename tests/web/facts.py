"""A scheduler's facts, made up; and a client that speaks HTTP for real."""

import asyncio
import http.client
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

from eventsched.runtime.live.log_housekeeping import HousekeepingStatus
from eventsched.runtime.symptoms.long_waits import LongWaitCounts
from tests.waiting import LIMIT


@dataclass
class WatchFacts:
    """One watch (eventsched.web.status.WatchStatus)."""

    events: int = 0
    relists: int = 0
    reconnects: int = 0
    lag: float = 0.0
    undecodable: int = 0


class Unread(NamedTuple):
    """An object that is passed over (eventsched.web.status.UndecodableStatus)."""

    resource: str
    name: str
    reason: str
    kept: bool


@dataclass
class Facts:
    """A scheduler that stands by (eventsched.web.status.ProcessStatus)."""

    liveness: Mapping[str, str] = field(default_factory=dict)
    readiness: Mapping[str, str] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)
    lease: str = ""
    leading: bool = False
    epoch: int = 0
    log_head: int = 0
    log_lag: int = 0
    queues: Mapping[str, int] = field(default_factory=dict)
    unschedulable: Mapping[tuple[str, str], int] = field(default_factory=dict)
    oldest_waiting: Mapping[tuple[str, str], float] = field(default_factory=dict)
    long_waits: LongWaitCounts = field(default_factory=lambda: LongWaitCounts({}, {}))
    preemption_anomalies: Mapping[str, int] = field(default_factory=dict)
    nodes: int = 0
    pods: int = 0
    reservations: int = 0
    open_binds: int = 0
    open_evictions: int = 0
    overcommitted_nodes: int = 0
    reports_waiting: int = 0
    reports_dropped: int = 0
    reports_refused: int = 0
    divergences: Mapping[str, int] = field(default_factory=dict)
    database_size: int | None = None
    housekeeping: HousekeepingStatus | None = None
    undecodable: Sequence[Unread] = ()
    watches: Mapping[str, WatchFacts] = field(default_factory=dict)


class Answer(NamedTuple):
    """What a server said; the names of headers are in lower case."""

    status: int
    text: str
    headers: dict[str, str]


def trusting() -> ssl.SSLContext:
    """A client that takes any certificate, as kubelets do for probes."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def verifying(certificate: str) -> ssl.SSLContext:
    """A client that trusts one certificate (PEM) and nothing else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=certificate)
    return context


async def ask(
    url: str,
    method: str = "GET",
    body: str | None = None,
    tls: ssl.SSLContext | None = None,
    **headers: str,
) -> Answer:
    """One request on a connection of its own."""
    return await asyncio.to_thread(_ask, url, method, body, tls or trusting(), headers)


def _ask(
    url: str, method: str, body: str | None, tls: ssl.SSLContext, headers: dict[str, str]
) -> Answer:
    where = urlsplit(url)
    assert where.hostname is not None
    connection: http.client.HTTPConnection
    if where.scheme == "https":
        connection = http.client.HTTPSConnection(
            where.hostname, where.port, context=tls, timeout=LIMIT
        )
    else:
        connection = http.client.HTTPConnection(where.hostname, where.port, timeout=LIMIT)
    try:
        target = where.path + (f"?{where.query}" if where.query else "")
        connection.request(method, target, body, headers)
        response = connection.getresponse()
        told = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, response.read().decode(), told)
    finally:
        connection.close()
