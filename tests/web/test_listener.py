"""Every port limits clients that hold connections. Each stage has a deadline, connections count
from their acceptance on, and a fixed order decides which one is dropped first."""

import asyncio
import gc
import os
import resource
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from eventsched.web.http import descriptors, listener
from eventsched.web.http.descriptors import MAX_CONNECTIONS, RESERVED_DESCRIPTORS
from tests.kube import skipping_time
from tests.web.ports import KINDS, Streams, answer, ended, leave, listening

HALF_HEAD = b"POST /filter HTTP/1.1\r\nHost: x\r\nX-Slow: "
SECURE = [kind for kind in KINDS if kind.endswith("https")]
every_port = pytest.mark.parametrize("kind", KINDS)


@every_port
def test_a_client_that_sends_requests_keeps_its_connection_while_others_only_hold_theirs(
    kind: str,
) -> None:
    """On a plain port half-sent headers pushed kube-scheduler's kept connection out."""

    async def story() -> list[bytes]:
        async with listening(kind, most=8) as port:
            asking = await port.connect()
            statuses = [await answer(asking, port.whole)]
            others: list[Streams] = []
            for number in range(40):
                others.append(await port.connect())
                others[-1][1].write((b"", HALF_HEAD, port.half_body)[number % 3])
            statuses.append(await answer(asking, port.whole))
            fresh = await port.connect()
            statuses.append(await answer(fresh, port.whole))
            dropped = await asyncio.gather(*map(ended, others[:30]))
            leave(asking, fresh, *others)
            return [*statuses, *dropped]

    received = asyncio.run(story())
    assert received[:3] == [b"200"] * 3
    # Some pages are refused before their body has come.
    assert {data[9:12] for data in received[3:]} <= {b"", b"404"}


@pytest.mark.parametrize("kind", SECURE)
def test_connections_before_their_handshake_count(kind: str) -> None:
    """They are dropped, oldest first, and a client that sends requests is not."""

    async def story() -> tuple[list[bytes], list[bytes]]:
        async with listening(kind, most=8) as port:
            asking = await port.connect()
            statuses = [await answer(asking, port.whole)]
            silent = [await port.knock() for _ in range(60)]
            dropped = await asyncio.gather(*map(ended, silent[:50]))
            statuses.append(await answer(asking, port.whole))
            fresh = await port.connect()
            statuses.append(await answer(fresh, port.whole))
            leave(asking, fresh, *silent)
            return statuses, dropped

    assert asyncio.run(story()) == ([b"200"] * 3, [b""] * 50)


@pytest.mark.parametrize("stage", ["handshake", "nothing", "headers", "body", "next headers"])
def test_each_stage_has_a_deadline(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for a client that keeps sending, a byte at a time; on all kinds of ports together. The
    deadlines are passed over, so that they need not be shorter than a busy machine takes."""
    if stage == "handshake":
        monkeypatch.setattr(listener, "HANDSHAKE_SECONDS", 2.0)
    monkeypatch.setattr(listener, "TRANSFER_SECONDS", 2.0)

    async def story(kind: str) -> bytes:
        async with listening(kind) as port:
            streams = await (port.knock() if stage == "handshake" else port.connect())
            if stage == "next headers":
                assert await answer(streams, port.whole) == b"200"
            begun = {"body": port.half_body, "nothing": b"", "handshake": b""}
            streams[1].write(begun.get(stage, HALF_HEAD))
            writing = asyncio.create_task(_dribble(streams[1], "headers" in stage))
            received = await ended(streams)
            writing.cancel()
            leave(streams)
            return received

    async def stories() -> list[bytes]:
        return await asyncio.gather(*map(story, KINDS))

    received = dict(zip(KINDS, skipping_time.run(stories()), strict=True))
    assert all(data[9:12] in (b"", b"404", b"408") for data in received.values()), received


async def _dribble(writer: asyncio.StreamWriter, goes_on: bool) -> None:
    while goes_on:
        await asyncio.sleep(0.2)
        writer.write(b"x")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in SECURE])
def test_a_client_that_does_not_read_is_dropped(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It sends many requests and reads no answer."""
    monkeypatch.setattr(listener, "TRANSFER_SECONDS", 0.3)
    before = _descriptors()

    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with listening(kind) as port:
            with socket.socket() as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                client.setblocking(False)
                await loop.sock_connect(client, ("127.0.0.1", port.number))
                with pytest.raises(ConnectionError):
                    await asyncio.wait_for(_send_repeatedly(client, port.whole * 50), 60)

    asyncio.run(story())
    assert _descriptors() == before


async def _send_repeatedly(client: socket.socket, requests: bytes) -> None:
    while True:
        await asyncio.get_running_loop().sock_sendall(client, requests)


def _descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


@every_port
def test_no_connection_outlives_the_server(kind: str) -> None:
    """Whatever its stage."""
    before = _descriptors()

    async def story() -> list[bytes]:
        async with listening(kind) as port:
            connections = [await port.knock(), await port.connect(), await port.connect()]
            connections[1][1].write(HALF_HEAD)
            assert await answer(connections[2], port.whole) == b"200"
        received = await asyncio.gather(*map(ended, connections))
        leave(*connections)
        return received

    assert asyncio.run(story()) == [b""] * 3
    assert _descriptors() == before


def test_a_process_without_descriptors_accepts_again_when_there_are_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A connection that never sent a request is dropped, so that other requests are answered."""
    monkeypatch.setattr(listener, "_ACCEPT_PAUSE", 0.01)
    real = socket.socket.accept
    failures = iter([OSError(24, "Too many open files")] * 3)

    def accept(self: socket.socket) -> object:
        if (failure := next(failures, None)) is not None:
            raise failure
        return real(self)

    async def story() -> list[bytes]:
        async with listening("extender over http") as port:
            idle, asking = await port.connect(), await port.connect()
            statuses = [await answer(asking, port.whole)]
            monkeypatch.setattr(socket.socket, "accept", accept)
            fresh = await port.connect()
            statuses += [await answer(fresh, port.whole), await ended(idle)]
            statuses.append(await answer(asking, port.whole))
            leave(idle, asking, fresh)
            return statuses

    assert asyncio.run(story()) == [b"200", b"200", b"", b"200"]


# --- the share of the process's descriptors -------------------------------------------------------


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Pairs of soft and hard limit of an invented process; the last pair is in force."""
    pairs = [(1024, 4096)]

    def change(_: int, to: tuple[int, int]) -> None:
        pairs.append(to)

    monkeypatch.setattr(resource, "getrlimit", lambda _: pairs[-1])
    monkeypatch.setattr(resource, "setrlimit", change)
    return pairs


def test_the_soft_limit_is_raised_as_far_as_needed(limits: list[tuple[int, int]]) -> None:
    shares = descriptors.shared(ports=2, requests=128)
    assert shares == (
        RESERVED_DESCRIPTORS + 128 + 2 * MAX_CONNECTIONS,
        RESERVED_DESCRIPTORS + 128,
        MAX_CONNECTIONS,
    )
    assert limits[-1] == (shares.limit, 4096)
    limits.append((10**6, 10**6))
    assert descriptors.shared(2, 128)[1:] == shares[1:]
    assert limits[-1] == (10**6, 10**6)


@pytest.mark.parametrize(("limit", "ports"), [(1024, 1), (1024, 3), (256, 3), (64, 2), (2, 3)])
def test_clients_share_what_is_left(limit: int, ports: int, limits: list[tuple[int, int]]) -> None:
    """Of a low limit half is reserved for the scheduler."""
    limits.append((limit, limit))
    shares = descriptors.shared(ports, 128)
    assert shares.limit == limit
    assert shares.reserved >= min(RESERVED_DESCRIPTORS + 128, limit // 2)
    assert shares.connections == max(1, min(MAX_CONNECTIONS, (limit - shares.reserved) // ports))
    assert shares.are_few == (limit < 2 * RESERVED_DESCRIPTORS)


def test_a_limit_that_may_not_be_raised_holds(
    limits: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int, to: tuple[int, int]) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert descriptors.shared(3, 128).limit == 1024


NUMBER = 1200


@pytest.mark.process
@pytest.mark.parametrize("stage", ["before the handshake", "with half a head"])
def test_so_many_clients_leave_descriptors_for_the_api_server_and_the_database(
    stage: str,
) -> None:
    """A process of 1,024 descriptors serves three ports, which have 1,200 clients. It goes on to
    open connections of its own, and answers on every port."""
    _room_for(NUMBER)
    with socket.create_server(("127.0.0.1", 0), backlog=256) as server:
        command = [sys.executable, "-m", "tests.web.crowded", str(server.getsockname()[1])]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            cwd=Path(__file__).parents[2],
        ) as process:  # fmt: skip
            assert process.stdin is not None
            assert process.stdout is not None
            ports = [int(word) for word in process.stdout.readline().split()]
            assert len(ports) == 3
            sent = b"" if stage == "before the handshake" else HALF_HEAD
            clients = [_client(port, sent) for port in ports for _ in range(NUMBER // len(ports))]
            process.stdin.write("\n")
            process.stdin.flush()
            outcome = process.stdout.readline().strip()
            for client in clients:
                client.close()
            process.stdin.close()
            assert (outcome, process.wait(60)) == ("150 connections, answers 200 200 200", 0)


def _room_for(number: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < number + 100:
        pytest.skip(f"the hard limit of open files is {hard}; this test needs {number + 100}")
    if soft < number + 100:
        resource.setrlimit(resource.RLIMIT_NOFILE, (number + 100, hard))


def _client(port: int, sent: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=20)
    if sent:
        with suppress(ConnectionError):  # it was dropped already
            client.send(sent)
    return client
