"""``eventsched serve`` as a process: over HTTP and HTTPS, and what it refuses."""

import json
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from eventsched.cli.main import main
from eventsched.cli.serve import _announce
from tests.databases import ROOT
from tests.postgres.histories import ODD, TIGHT
from tests.waiting import next_line

COMMAND = ("-m", "eventsched")
BROKEN = (
    "import sys; from eventsched.cli.main import main; from eventsched.api.gates import gate\n"
    "async def visibility(self, request):\n"
    "    token = request.headers['authorization']\n"
    "    raise RuntimeError('broken')\n"
    "gate.OpenGate.visibility = visibility; sys.exit(main(sys.argv[1:]))"
)
"""A command whose gate fails with a token in a local variable."""


@contextmanager
def serving(
    *words: str,
    command: tuple[str, str] = COMMAND,
    errors: list[str] | None = None,
    python: Path | None = None,
) -> Iterator[str]:
    """The address of a server, which ends by SIGTERM. What it printed then is added to ``errors``.
    ``python`` is that of another environment."""
    process = subprocess.Popen(
        [python or sys.executable, *command, "serve", "--port", "0", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=ROOT if python is None else python.parent,
    )  # fmt: skip
    try:
        line = next_line(process, 120)
        assert line.startswith("serving http"), (line, process.communicate(timeout=60))
        yield line.split()[1]
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        printed = process.communicate(timeout=60)
        if errors is not None:
            errors += printed


def got(url: str, token: str = "") -> Any:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=60, context=context) as answer:
        return json.load(answer)


def test_it_answers_until_it_is_stopped(logs: str) -> None:
    with serving("--database", logs) as url:
        assert url.startswith("http://127.0.0.1:")
        assert [each["name"] for each in got(f"{url}/streams")["streams"]] == [ODD, TIGHT]
        assert got(f"{url}/decisions?stream={TIGHT}&limit=3")["decisions"]
        assert got(f"{url.removesuffix('v1')}openapi.json")["paths"]
        with pytest.raises(urllib.error.HTTPError) as refused:
            got(f"{url}/decisions")
        assert json.load(refused.value)["where"] == "stream"


def test_the_log_of_a_fault_has_no_token(logs: str) -> None:
    errors: list[str] = []
    with serving("--database", logs, command=("-c", BROKEN), errors=errors) as url:
        with pytest.raises(urllib.error.HTTPError) as failed:
            got(f"{url}/streams", "s3cret")
        assert failed.value.code == 500
        failed.value.close()
    out, logged = errors
    assert "RuntimeError: broken" in logged
    assert "Error" not in out
    assert "s3cret" not in out + logged


@pytest.mark.parametrize(("url", "warned"), [
    ("http://127.0.0.1:1/api/v1", False), ("http://127.0.0.2:1/api/v1", False),
    ("http://[::1]:1/api/v1", False), ("https://0.0.0.0:1/api/v1", False),
    ("http://0.0.0.0:1/api/v1", True), ("http://127.0.0.1.example:1/api/v1", True),
])  # fmt: skip
def test_a_warning_of_plain_http(
    url: str, warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    _announce(url)
    said = "warning: tokens and answers are not encrypted\n" if warned else ""
    assert capsys.readouterr() == (f"serving {url}\npages: {url.removesuffix('/api/v1')}/\n", said)


def test_it_stops_while_clients_wait(logs: str) -> None:
    """A stream of events ends, and a long poll is answered."""
    with ExitStack() as open_answers:
        with serving("--database", logs) as url:
            head = got(f"{url}/decisions?stream={TIGHT}")["head"]
            place = f"stream={TIGHT}&after={head}"
            events = open_answers.enter_context(
                urllib.request.urlopen(f"{url}/events?{place}", timeout=60)
            )
            assert events.readline() == b"retry: 2000\n"
            while events.readline() != b"event: head\n":
                pass
            host, _, path = url.removeprefix("http://").partition("/")
            poll = open_answers.enter_context(closing(HTTPConnection(host, timeout=60)))
            poll.request("GET", f"/{path}/decisions?{place}&wait=60s")
            got(f"{url}/decisions?{place}")  # by then the one before is being answered
        assert b"event: decision" not in events.read()
        answer = poll.getresponse()
        assert (answer.status, json.load(answer)["decisions"]) == (200, [])


def test_https_with_tokens(logs: str, tmp_path: Path) -> None:
    token = "a-token-that-is-long-enough"
    (tmp_path / "tokens").write_text(f"tokens: [{{name: a, token: {token}}}]")
    words = ("--bind-address", "0.0.0.0", "--tokens", str(tmp_path / "tokens"))
    with serving("--database", logs, *words) as url:
        assert url.startswith("https://0.0.0.0:")
        with pytest.raises(urllib.error.HTTPError, match="401"):
            got(f"{url}/streams")
        assert got(f"{url}/streams", token)["streams"]


def test_what_it_refuses(logs: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """In one line, before anything is served."""

    def refused(*words: str) -> str:
        assert main(["serve", *words]) == 2
        found = capsys.readouterr()
        assert found.out == ""
        return found.err

    assert refused("--database", logs, "--bind-address", "0.0.0.0") == (
        "eventsched serve: --bind-address: other machines reach 0.0.0.0, and no client needs a "
        "token; give --authorization delegated, --tokens FILE, or --no-tokens\n"
    )
    assert refused("--database", logs, "--port", "99999") == (
        "eventsched serve: --port: 99999 is not a port; choose one up to 65535\n"
    )
    for command in ("serve", "mcp"):
        missing = str(tmp_path / "missing.py")
        assert main([command, "--database", logs, "--plugin", missing]) == 2
        message = f"{missing}: is not there; name a .py file that holds a plugin\n"
        assert capsys.readouterr() == ("", f"eventsched {command}: {message}")
    assert refused() == (
        "eventsched serve: options: no database is named; give --data-dir FOLDER or --database URL "
        "(or set EVENTSCHED_DATABASE)\n"
    )
    assert main(["serve", "--database", "postgresql://a@127.0.0.1:1/b"]) == 3
