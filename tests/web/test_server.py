"""The server as clients meet it: real sockets, real TLS, in one event loop with the scheduler."""

import asyncio
import json
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from eventsched import __version__
from eventsched.domain.errors import InputError, UnavailableError
from eventsched.process_log import output
from eventsched.web import pages
from eventsched.web.authorization import TOKEN_REVIEW, Reviews
from eventsched.web.http import certificates, https_server
from eventsched.web.http.https_server import Addresses, Options, require_free
from eventsched.web.metrics import Metrics
from tests.web.facts import Answer, Facts, Unread, ask, verifying

CONFIGURATION = {
    "componentconfig": {"kind": "KubeSchedulerConfiguration", "parallelism": 16},
    "eventsched": {
        "database": {"url": "postgresql://eventsched:hunter2@db/events"},
        "password": "hunter2",
    },
}


async def anybody(path: str, body: bytes) -> tuple[int, bytes]:
    """An API server that knows the token ``good``, whose user may do everything."""
    if path == TOKEN_REVIEW:
        known = json.loads(body)["spec"]["token"] == "good"
        return 201, json.dumps({"status": {"authenticated": known, "user": GOOD}}).encode()
    allowed = json.loads(body)["spec"]["user"] == "prometheus"
    return 201, json.dumps({"status": {"allowed": allowed}}).encode()


GOOD = {"username": "prometheus", "groups": ["system:authenticated"]}


@asynccontextmanager
async def running(
    facts: Facts | None = None,
    reviews: Callable[[str, bytes], Awaitable[tuple[int, bytes]]] | None = None,
    **options: Any,
) -> AsyncIterator[Addresses]:
    """A whole server on a free port."""
    facts = facts or Facts()
    metrics = Metrics()
    metrics.attach(facts)
    asked = Reviews(reviews) if reviews else None
    app = pages.application(facts, metrics, lambda: CONFIGURATION, asked)
    async with https_server.serving(
        Options(**{"port": 0, **options}), app, pages.public(facts)
    ) as addresses:
        yield addresses


def answers(
    *requests: tuple[str, str], facts: Facts | None = None, **running_with: Any
) -> list[Answer]:
    """What a server answers to (method, path), one after the other."""

    async def all_of_them() -> list[Answer]:
        async with running(facts, **running_with) as at:
            return [await ask(at.secure + path, method) for method, path in requests]

    return asyncio.run(all_of_them())


def test_a_probe_gets_ok_over_https() -> None:
    [answer] = answers(("GET", "/healthz"))
    assert (answer.status, answer.text) == (200, "ok")
    kept = ("content-type", "cache-control", "x-content-type-options", "server")
    assert {name: answer.headers.get(name) for name in kept} == {
        "content-type": "text/plain; charset=utf-8",
        "cache-control": "no-cache, private",
        "x-content-type-options": "nosniff",
        "server": None,
    }


def test_readiness_says_why() -> None:
    facts = Facts(readiness={"database": "unreachable for 3 s"})
    found = answers(
        ("GET", "/readyz"),
        ("GET", "/readyz?exclude=database&verbose"),
        ("GET", "/readyz/database"),
        ("GET", "/livez?verbose"),
        facts=facts,
    )
    assert [(answer.status, answer.text) for answer in found] == [
        (500, "[+]ping ok\n[-]database failed: unreachable for 3 s\nreadyz check failed\n"),
        (200, "[+]ping ok\n[+]database excluded: ok\nreadyz check passed\n"),
        (500, "internal server error: unreachable for 3 s\n"),
        (200, "[+]ping ok\nlivez check passed\n"),
    ]


def test_readiness_of_a_standby_names_the_leader() -> None:
    facts = Facts(readiness={"term": "", "log": ""}, remarks={"term": "standing by, b leads"})
    found = answers(("GET", "/readyz?verbose"), ("GET", "/readyz"), facts=facts)
    assert [(each.status, each.text) for each in found] == [
        (200, "[+]ping ok\n[+]term ok: standing by, b leads\n[+]log ok\nreadyz check passed\n"),
        (200, "ok"),
    ]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/nothing", 404),
        ("GET", "/metrics/", 404),
        ("GET", "/readyz/nothing", 404),
        ("GET", "/healthz/../metrics", 404),
        ("POST", "/healthz", 405),
        ("DELETE", "/metrics", 405),
        ("GET", "/debug/flags/v", 405),
        ("HEAD", "/healthz", 200),
    ],
)
def test_unknown_paths_and_wrong_verbs(method: str, path: str, status: int) -> None:
    assert answers((method, path))[0].status == status


def test_the_configuration_without_its_secrets() -> None:
    [answer] = answers(("GET", "/configz"))
    assert answer.headers["content-type"] == "application/json"
    assert json.loads(answer.text) == {
        "componentconfig": CONFIGURATION["componentconfig"],
        "eventsched": {
            "database": {"url": "postgresql://eventsched:***@db/events"},
            "password": "***",
        },
    }


def test_undecodable_objects_are_listed() -> None:
    """To clients that are authorized."""
    objects = [
        Unread("Pod", "shop/web", "effect 'Sometimes', which is not known", False),
        Unread("Node", "n1", "password=hunter2", True),
    ]
    facts = Facts(undecodable=objects)
    [answer] = answers(("GET", "/debug/undecodable"), facts=facts)
    assert json.loads(answer.text) == [
        {**objects[0]._asdict()},
        {**objects[1]._asdict(), "reason": "password=***"},
    ]
    [refused] = answers(("GET", "/debug/undecodable"), facts=facts, reviews=anybody)
    assert refused.status == 403


def test_the_version() -> None:
    [answer] = answers(("GET", "/version"))
    assert json.loads(answer.text)["version"] == __version__


def test_the_log_level_changes_at_run_time() -> None:
    before = output.level()

    async def change() -> list[tuple[Answer, str]]:
        async with running() as at:
            url = at.secure + "/debug/flags/v"
            levels = ("debug", "2", "4", "loud", "x" * 10_000)
            return [(await ask(url, "PUT", body=level), output.level()) for level in levels]

    try:
        found = asyncio.run(change())
    finally:
        output.set_level(before)
    assert [(answer.status, level) for answer, level in found] == [
        (200, "debug"),
        (200, "info"),
        (200, "debug"),
        (400, "debug"),
        (413, "debug"),
    ]
    assert found[0][0].text == "the log level is debug now\n"
    assert "write one of debug, info, warning, error" in found[3][0].text


def test_metrics_in_the_format_that_is_asked_for() -> None:
    async def scrape() -> list[Answer]:
        async with running() as at:
            url = at.secure + "/metrics"
            openmetrics = "application/openmetrics-text; version=1.0.0"
            return [await ask(url), await ask(url, Accept=openmetrics)]

    plain, openmetrics = asyncio.run(scrape())
    assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "\neventsched_log_head_records 0.0\n" in plain.text
    assert openmetrics.headers["content-type"].startswith("application/openmetrics-text")
    assert openmetrics.text.endswith("# EOF\n")


@pytest.mark.parametrize(
    ("path", "token", "status"),
    [
        ("/healthz", "", 200),
        ("/readyz/ping", "", 200),
        ("/metrics", "", 403),
        ("/metrics", "bad", 401),
        ("/metrics", "good", 200),
        ("/configz", "", 403),
        ("/version", "", 403),
        ("/nothing", "", 403),
        ("/nothing", "good", 404),
        ("//healthz", "", 403),
        ("/healthz/../metrics", "good", 404),
    ],
)
def test_all_pages_but_health_require_authorization(path: str, token: str, status: int) -> None:
    async def one() -> Answer:
        async with running(reviews=anybody) as at:
            headers: dict[str, Any] = {"Authorization": f"Bearer {token}"} if token else {}
            return await ask(at.secure + path, **headers)

    assert asyncio.run(one()).status == status


def test_a_refusal_is_a_status_object() -> None:
    [answer] = answers(("GET", "/metrics"), reviews=anybody)
    assert json.loads(answer.text) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'forbidden: User "system:anonymous" cannot get path "/metrics"',
        "reason": "Forbidden",
        "code": 403,
    }


def test_the_plain_port_has_health_and_nothing_else() -> None:
    async def both() -> list[int]:
        async with running(plain_health_port=0) as at:
            paths = ("/healthz", "/readyz", "/livez/ping", "/metrics", "/configz")
            return [(await ask(at.plain + path)).status for path in paths]

    assert asyncio.run(both()) == [200, 200, 200, 404, 404]


def test_configured_certificates_are_used_and_rotated(tmp_path: Path) -> None:
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    def write() -> str:
        made = certificates.self_signed(["localhost"], datetime.now(UTC))
        cert.write_bytes(made[0])
        key.write_bytes(made[1])
        return made[0].decode()

    async def rotate() -> list[int]:
        first = write()
        statuses = []
        async with running(cert_file=cert, key_file=key) as at:
            url = at.secure.replace("127.0.0.1", "localhost") + "/healthz"
            statuses.append((await ask(url, tls=verifying(first))).status)
            second = write()
            statuses.append((await ask(url, tls=verifying(second))).status)
            with pytest.raises(ssl.SSLCertVerificationError):
                await ask(url, tls=verifying(first))
        return statuses

    assert asyncio.run(rotate()) == [200, 200]


def test_each_port_can_be_left_out() -> None:
    async def at(**options: Any) -> Addresses:
        async with running(**options) as addresses:
            return addresses

    assert asyncio.run(at(port=None)) == Addresses("", "")
    only = asyncio.run(at(port=None, plain_health_port=0))
    assert (only.secure, only.plain.startswith("http://127.0.0.1:")) == ("", True)


def test_a_port_that_is_in_use_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UnavailableError, match=f"serving.port {port} on 127.0.0.1: is taken"):
            answers(("GET", "/healthz"), port=port)
        with pytest.raises(UnavailableError, match=r"choose another one \(--secure-port\)"):
            require_free(Options("127.0.0.1", port, None, None, None))
        with pytest.raises(UnavailableError, match=r"serving.plainHealthPort .* another one, or"):
            require_free(Options("127.0.0.1", None, None, None, port))
    require_free(Options("127.0.0.1", port, None, None, None))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bind_address": "192.0.2.1"}, "serving.port 0 on 192.0.2.1: cannot be listened on"),
        ({"bind_address": "no such.host"}, "on no such.host: cannot be listened on"),
        ({"port": 70_000}, "serving.port: 70000 is not a port"),
        ({"plain_health_port": 70_000}, "serving.plainHealthPort: 70000 is not a port"),
        ({"cert_file": Path("tls.crt")}, "names only one of certFile and keyFile"),
    ],
)
def test_invalid_options_are_reported(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        answers(("GET", "/healthz"), **options)


def test_the_server_installs_no_signal_handlers() -> None:
    async def handlers() -> list[Any]:
        async with running():
            return [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]

    expected = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]
    inside = asyncio.run(handlers())
    assert inside[0] == expected[0]
    assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)] == expected


def test_an_open_request_is_finished_when_the_server_ends() -> None:
    begun, leave = asyncio.Event(), asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        await leave.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    async def story() -> Answer:
        async with https_server.serving(Options(port=0), slow, slow) as at:
            asking = asyncio.create_task(ask(at.secure))
            await begun.wait()
            ending = asyncio.create_task(_when_closed(at, leave))
        await ending
        return await asking

    assert asyncio.run(asyncio.wait_for(story(), 20)).text == "done"


async def _when_closed(at: Addresses, leave: asyncio.Event) -> None:
    """Lets the request end once the port accepts no more connections."""
    port = int(at.secure.rsplit(":", 1)[1])
    async with asyncio.timeout(20):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                leave.set()
                return
            writer.close()
            await asyncio.sleep(0.01)
