"""Tokens and certificates that are replaced while a scheduler runs."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from eventsched.cluster.kube.http import access
from eventsched.cluster.kube.http.access import Credentials, KubeAccess, from_kubeconfig, in_cluster
from eventsched.cluster.kube.http.api import ApiClient
from tests.kube.guarded import SECRET, Clock, Guarded, counting_plugin, opened
from tests.kube.watched import run, until


@pytest.fixture
def server(tmp_path: Path) -> Guarded:
    return Guarded(tmp_path)


def test_a_token_file_is_read_every_minute(server: Guarded, tmp_path: Path) -> None:
    async def body() -> None:
        file, clock = tmp_path / "token", Clock()
        file.write_text("one")
        server.tokens = {"one", "two"}
        api = await opened(server.kubeconfig({"tokenFile": str(file)}), clock)
        await api.call("GET", "/version")
        file.write_text("two")
        clock.now = 59.0
        await api.call("GET", "/version")
        clock.now = 61.0
        await api.call("GET", "/version")
        file.unlink()
        clock.now = 122.0
        await api.call("GET", "/version")
        await api.close()
        assert server.users == ["one", "one", "two", "two"]

    run(server.run(body))


def test_a_token_that_was_replaced_early_is_read_after_401(server: Guarded, tmp_path: Path) -> None:
    async def body() -> None:
        file = tmp_path / "token"
        file.write_text("one")
        server.tokens = {"one"}
        api = await opened(server.kubeconfig({"tokenFile": str(file)}), Clock())
        await api.call("GET", "/version")
        file.write_text("two")
        server.tokens = {"two"}
        answers = await asyncio.gather(*(api.call("GET", "/version") for _ in range(3)))
        await api.close()
        assert {each.status for each in answers} == {200}
        assert sorted(server.users)[-3:] == ["two"] * 3

    run(server.run(body))


def test_client_certificates_are_replaced(server: Guarded, tmp_path: Path) -> None:
    async def body() -> None:
        certificate, key = server.authority.client("first", name="client")
        clock = Clock()
        user = {"client-certificate": str(certificate), "client-key": str(key)}
        api = await opened(server.kubeconfig(user), clock)
        first = api.access.tls
        await api.call("GET", "/version")
        clock.now = 61.0
        await api.call("GET", "/version")
        assert api.access.tls is first
        server.authority.client("second", name="client")
        clock.now = 122.0
        await api.call("GET", "/version")
        await api.close()
        assert server.users == ["first", "first", "second"]

    run(server.run(body))


def test_an_exec_plugin_runs_again_when_its_token_is_refused(
    server: Guarded, tmp_path: Path
) -> None:
    async def body() -> None:
        server.tokens = {"token-1", "token-2"}
        clock = Clock()
        api = await opened(server.kubeconfig(counting_plugin(tmp_path)), clock)
        await api.call("GET", "/version")
        clock.now = 61.0  # a token without an end is kept until it is refused
        await api.call("GET", "/version")
        server.tokens = {"token-2"}
        assert (await api.call("GET", "/version")).status == 200
        await api.close()
        assert server.users == ["token-1", "token-1", "token-1", "token-2"]

    run(server.run(body))


def test_an_exec_plugin_that_hangs_delays_no_request(
    server: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests are sent with the old credentials; the late result is used once it comes."""
    monkeypatch.setattr(access, "REREAD_TIMEOUT", 0.05)

    async def body() -> None:
        server.tokens = {"token-1", "token-2"}
        clock = Clock()
        made = KubeAccess(from_kubeconfig(str(server.kubeconfig(counting_plugin(tmp_path)))), clock)
        await made.open()
        api = ApiClient(made)
        load, ends, loads = made._load, asyncio.Event(), 0

        async def hanging() -> Credentials:
            nonlocal loads
            loads += 1
            await ends.wait()
            return await load()

        made._load = hanging
        server.tokens = {"token-2"}
        for _ in range(3):
            clock.now += 61
            assert (await api.call("GET", "/version")).status == 401
        assert loads == 1
        ends.set()
        await until(lambda: made.authorization == "Bearer token-2")
        assert (await api.call("GET", "/version")).status == 200
        await api.close()

    run(server.run(body))


def test_a_deleted_token_file_leaves_the_old_token_in_use(
    server: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the file is deleted between two reads of it."""

    async def body() -> None:
        token = tmp_path / "token"
        token.write_text(SECRET)
        host, _, port = server.url.removeprefix("https://").partition(":")
        environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        clock = Clock()
        made = KubeAccess(in_cluster(environ, str(token), str(server.authority.certificate)), clock)
        await made.open()
        api = ApiClient(made)
        read = Path.read_text

        def gone(self: Path, *more: Any) -> str:
            if self == token:
                raise FileNotFoundError(str(self))
            return read(self, *more)

        monkeypatch.setattr(Path, "read_text", gone)
        clock.now += 61
        assert (await api.call("GET", "/version")).status == 200
        await api.close()

    run(server.run(body))


def test_an_exec_plugin_is_not_run_for_each_refusal(server: Guarded, tmp_path: Path) -> None:
    async def body() -> None:
        server.tokens = set()
        clock = Clock()
        api = await opened(server.kubeconfig(counting_plugin(tmp_path)), clock)
        for _ in range(3):
            assert (await api.call("GET", "/version")).status == 401
        clock.now = 6.0
        assert (await api.call("GET", "/version")).status == 401
        await api.close()
        assert (tmp_path / "count").read_text() == "3"

    run(server.run(body))


def test_an_exec_plugin_runs_again_before_its_token_ends(server: Guarded, tmp_path: Path) -> None:
    async def body() -> None:
        server.tokens = {"token-1", "token-2"}
        clock = Clock()
        user = counting_plugin(tmp_path, "2026-01-01T00:00:00Z")
        api = await opened(server.kubeconfig(user), clock)
        await api.call("GET", "/version")
        clock.now = 61.0
        await api.call("GET", "/version")
        await api.close()
        assert server.users == ["token-1", "token-2"]

    run(server.run(body))
