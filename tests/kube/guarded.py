"""An API server with TLS that looks at who asks, and ways to say who one is."""

import ssl
import stat
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from eventsched.cluster.kube.http.access import KubeAccess, from_kubeconfig
from eventsched.cluster.kube.http.api import ApiClient
from tests.cluster.harness.certificates import Authority

SECRET = "s3cr3t-t0k3n"


class Guarded:
    """An API server with TLS that knows some tokens, and every client with a certificate. ``users``
    lists who asked, by token or by name."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self.tokens = {SECRET}
        self.users: list[str] = []
        self.answer: Callable[[], web.Response] = lambda: web.json_response(
            {"gitVersion": "v1.36.3"}
        )
        self.url = ""
        self._folder = folder

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answers a client with a known certificate or token; others get 401."""
        assert request.transport is not None
        peer = request.transport.get_extra_info("peercert")
        names = dict(part[0] for part in peer["subject"]) if peer else {}
        token = request.headers.get("Authorization", "").partition(" ")[2]
        self.users.append(names.get("commonName") or token)
        if not names and token not in self.tokens:
            return web.json_response({"kind": "Status", "message": "Unauthorized"}, status=401)
        return self.answer()

    async def run(self, body: Callable[[], Awaitable[None]]) -> None:
        """Serves while ``body`` runs."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*self.authority.serving())
        context.load_verify_locations(self.authority.certificate)
        context.verify_mode = ssl.CERT_OPTIONAL
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self.handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        self.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        try:
            await body()
        finally:
            await runner.cleanup()

    def kubeconfig(self, user: dict[str, Any], **cluster: Any) -> Path:
        """A kubeconfig for a user section."""
        where = {"server": self.url, "certificate-authority": str(self.authority.certificate)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": where | cluster}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path = self._folder / "kubeconfig"
        path.write_text(yaml.safe_dump(content))
        return path


class Clock:
    """Minutes that pass when a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


async def opened(path: Path, clock: Clock) -> ApiClient:
    access = KubeAccess(from_kubeconfig(str(path)), clock)
    await access.open()
    return ApiClient(access)


def plugin(folder: Path, script: str) -> dict[str, Any]:
    """A user section with an exec plugin that runs a Python script."""
    path = folder / "plugin"
    path.write_text(f"#!{sys.executable}\n{script}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": str(path), "interactiveMode": "Never"}}


def counting_plugin(folder: Path, expiry: str = "") -> dict[str, Any]:
    """A plugin that gives ``token-1``, then ``token-2`` …"""
    return plugin(
        folder,
        f"""import json, pathlib
file = pathlib.Path({str(folder / "count")!r})
count = int(file.read_text()) + 1 if file.exists() else 1
file.write_text(str(count))
status = {{"token": f"token-{{count}}"}}
if {expiry!r}:
    status["expirationTimestamp"] = {expiry!r}
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
                   "status": status}}))
""",
    )
