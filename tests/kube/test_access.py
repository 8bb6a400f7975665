"""How a client finds its API server, and what it says when that does not work."""

import asyncio
import base64
import json
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from eventsched.cluster.kube.http.access import (
    KubeAccess,
    connect,
    from_kubeconfig,
    in_cluster,
    require_files,
)
from eventsched.cluster.kube.http.api import ApiClient
from eventsched.domain.errors import InputError, UnavailableError
from tests.cluster.harness.certificates import Authority
from tests.kube.guarded import SECRET, Clock, Guarded, plugin
from tests.kube.watched import run


@pytest.fixture
def server(tmp_path: Path) -> Guarded:
    return Guarded(tmp_path)


# --- where the configuration comes from ---------------------------------------------------


def test_a_missing_package_is_named_before_anything_is_reached(
    server: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = server.kubeconfig({"token": SECRET})
    monkeypatch.setitem(sys.modules, "kubernetes.aio.config", None)
    for kubeconfig, environ in ((path, {}), (None, {"KUBECONFIG": str(path)})):
        with pytest.raises(InputError, match=r"install 'eventsched\[cluster\]'"):
            require_files(kubeconfig, environ)
    require_files(None, {})  # a pod with a service account does not need it


def test_a_kubeconfig_by_name_by_variable_and_at_home(server: Guarded, tmp_path: Path) -> None:
    async def body() -> None:
        path = server.kubeconfig({"token": SECRET})
        home = tmp_path / "home" / ".kube" / "config"
        home.parent.mkdir(parents=True)
        home.write_text(path.read_text())
        for options in (
            {"kubeconfig": path, "environ": {"KUBECONFIG": "/nowhere"}},
            {"environ": {"KUBECONFIG": f"/nowhere:{path}"}},
            {"environ": {"HOME": str(tmp_path / "home")}},
            {"kubeconfig": path, "context": "x", "environ": {}},
        ):
            api = await connect(**options)
            assert api.access.server == server.url
            await api.close()
        assert server.users == [SECRET] * 4

    run(server.run(body))


def test_a_pod_has_its_service_account(server: Guarded, tmp_path: Path) -> None:
    async def body() -> None:
        token = tmp_path / "token"
        token.write_text(SECRET + "\n")
        host, _, port = server.url.removeprefix("https://").partition(":")
        environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        clock = Clock()
        authority = str(server.authority.certificate)
        access = KubeAccess(in_cluster(environ, str(token), authority), clock)
        await access.open()
        api = ApiClient(access)
        assert (await api.call("GET", "/version")).status == 200
        server.tokens = {"next"}
        token.write_text("next")
        clock.now += 61
        assert (await api.call("GET", "/version")).status == 200
        await api.close()
        assert server.users == [SECRET, "next"]

    run(server.run(body))


# --- what does not work -------------------------------------------------------------------


async def refused(kubeconfig: Path | None = None, **options: Any) -> InputError | UnavailableError:
    with pytest.raises((InputError, UnavailableError)) as caught:
        await connect(kubeconfig, **{"environ": {}, **options})
    assert SECRET not in str(caught.value)
    error: Any = caught.value
    return error


def jwt(ends: int) -> str:
    parts = (json.dumps(each).encode() for each in ({"alg": "RS256"}, {"exp": ends}))
    body = ".".join(base64.urlsafe_b64encode(each).decode().rstrip("=") for each in parts)
    return f"{body}.signature"


def test_no_configuration(tmp_path: Path) -> None:
    async def body() -> None:
        error = await refused(environ={"HOME": str(tmp_path)})
        assert "no --kubeconfig, no KUBECONFIG, no" in error.problem
        error = await refused(tmp_path / "none")
        assert error.problem == "does not exist"
        error = await refused(environ={"KUBECONFIG": str(tmp_path / "none")})
        assert isinstance(error, InputError)
        assert error.where.startswith("$KUBECONFIG")
        assert error.problem == "does not exist"

    run(body())


def test_a_context_that_is_not_there_is_named_with_those_that_are(
    server: Guarded, tmp_path: Path
) -> None:
    path = server.kubeconfig({"token": SECRET})
    places: list[dict[str, str]] = [{}, {"KUBECONFIG": str(path)}, {"HOME": str(tmp_path)}]
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(path.read_text())
    for environ in places:
        with pytest.raises(InputError, match=r"has no context y; choose one of: x$"):
            require_files(None if environ else path, environ, "y")
    path.write_text("[")  # loading the file reports that
    require_files(path, {}, "y")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"users: [{{token: {SECRET}", "malformed"),
        (f"token: {SECRET}", "cannot be used"),
        (f"[{SECRET}]", "cannot be used"),
        ("", "cannot be used"),
    ],
)
def test_a_malformed_kubeconfig(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    error = asyncio.run(refused(path))
    assert isinstance(error, InputError)
    assert problem in error.problem


def test_parts_of_a_kubeconfig_that_are_missing(server: Guarded, tmp_path: Path) -> None:
    async def body() -> None:
        error = await refused(server.kubeconfig({"token": SECRET}), context="y")
        assert error.problem == "has no context y"
        error = await refused(
            server.kubeconfig({"client-certificate": "/nowhere", "client-key": "/nowhere"})
        )
        assert "/nowhere" in error.problem
        (tmp_path / "bad.crt").write_text("no certificate")
        error = await refused(
            server.kubeconfig(
                {"token": SECRET}, **{"certificate-authority": str(tmp_path / "bad.crt")}
            )
        )
        assert error.where == "the kubeconfig's certificates"

    run(server.run(body))


def test_an_exec_plugin_that_fails(server: Guarded, tmp_path: Path) -> None:
    async def body() -> None:
        user = plugin(tmp_path, "import sys; sys.exit(1)")
        error = await refused(server.kubeconfig(user))
        assert error.problem == "its exec plugin gives no credentials"

    run(server.run(body))


def test_a_wrong_token_is_refused(server: Guarded, tmp_path: Path) -> None:
    async def body() -> None:
        server.tokens = set()
        error = await refused(server.kubeconfig({"token": SECRET}))
        assert isinstance(error, InputError)
        assert error.problem == "does not know who we are: Unauthorized"
        error = await refused(server.kubeconfig({"token": jwt(1_700_000_000)}))
        assert error.problem == (
            "does not know who we are: the token expired at 2023-11-14T22:13:20Z"
        )

    run(server.run(body))


def test_an_expired_client_certificate(server: Guarded, tmp_path: Path) -> None:
    async def body() -> None:
        # Go accepts it in the handshake and refuses its holder afterwards; Python refuses at once.
        certificate, key = server.authority.client("late", seconds=-60)
        user = {"client-certificate": str(certificate), "client-key": str(key)}
        access = KubeAccess(from_kubeconfig(str(server.kubeconfig(user))))
        await access.open()
        assert access.expired().startswith("the client certificate expired at ")

    run(server.run(body))


def test_a_server_that_is_not_trusted(server: Guarded, tmp_path: Path) -> None:
    async def body() -> None:
        (tmp_path / "other").mkdir()
        other = Authority(tmp_path / "other").certificate
        user = {"token": SECRET}
        path = server.kubeconfig(user, **{"certificate-authority": str(other)})
        error = await refused(path)
        assert isinstance(error, InputError)
        assert "its certificate is not accepted" in error.problem
        api = await connect(server.kubeconfig(user, **{"insecure-skip-tls-verify": True}))
        await api.close()

    run(server.run(body))


def test_a_server_that_does_not_answer(server: Guarded) -> None:
    async def body() -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            server.url = f"https://127.0.0.1:{unused.getsockname()[1]}"
            error = await refused(server.kubeconfig({"token": SECRET}))
        assert isinstance(error, UnavailableError)
        assert "does not answer: no connection" in error.problem

    run(server.run(body))


@pytest.mark.parametrize(
    ("status", "text", "kind", "problem"),
    [
        (200, "<html>", InputError, "does not answer as one: HTTP 200"),
        (404, "", InputError, "does not answer as one: HTTP 404"),
        (500, "", UnavailableError, "is not ready: HTTP 500"),
    ],
)
def test_answers_that_are_not_of_a_ready_api_server(
    server: Guarded, status: int, text: str, kind: type[Exception], problem: str
) -> None:
    async def body() -> None:
        server.answer = lambda: web.Response(status=status, text=text)
        error = await refused(server.kubeconfig({"token": SECRET}))
        assert (type(error), error.problem) == (kind, problem)

    run(server.run(body))


def test_a_client_that_only_reads_sends_nothing_else(server: Guarded) -> None:
    """That of a shadow."""

    async def body() -> None:
        path = server.kubeconfig({"token": SECRET})
        api = await connect(path, environ={}, reads_only=True)
        seen = len(server.users)
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            with pytest.raises(TypeError, match="this client only reads"):
                await api.call(method, "/version")
        assert len(server.users) == seen
        await api.call("GET", "/version")
        assert len(server.users) == seen + 1
        await api.close()

    run(server.run(body))


def test_connecting_succeeds_without_the_right_to_read_the_version(server: Guarded) -> None:
    async def body() -> None:
        server.answer = lambda: web.Response(status=403)
        api = await connect(server.kubeconfig({"token": SECRET}), environ={})
        assert (await api.call("GET", "/version")).status == 403
        await api.close()

    run(server.run(body))
