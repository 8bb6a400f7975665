"""The minimal scheduler's manifests, and its page."""

import os
import runpy
import subprocess
import sys

import pytest

from eventsched import __version__
from eventsched.eventlog.log_errors import ConflictError, FencedError

from .rendering import DEPLOY, built, of_kind, pod_spec, the
from .rights import EVERYWHERE, rights

EXAMPLE = DEPLOY.parent / "examples" / "minimal"
SCHEDULER = (EXAMPLE / "scheduler.py").read_text()


def test_it_renders() -> None:
    """It runs the program unchanged, and all names have the prefix."""
    objects = built(EXAMPLE)
    assert the(objects, "ConfigMap")["data"] == {"scheduler.py": SCHEDULER}
    assert all(each["metadata"]["name"].startswith("random-") for each in objects)
    (container,) = pod_spec(objects)["containers"]
    assert container["image"] == f"eventsched:{__version__}"
    (volume,) = pod_spec(objects)["volumes"]
    assert volume["configMap"]["name"] == the(objects, "ConfigMap")["metadata"]["name"]
    (binding,) = of_kind(objects, "ClusterRoleBinding")
    assert binding["subjects"] == [
        {
            "kind": "ServiceAccount",
            "name": pod_spec(objects)["serviceAccountName"],
            "namespace": "kube-system",
        }
    ]
    assert the(objects, "ServiceAccount")["metadata"]["name"] == "random-eventsched"
    assert rights(the(objects, "ClusterRole")["rules"]) == EVERYWHERE


def test_the_page_shows_the_program() -> None:
    """The page quotes the loop."""
    page = (DEPLOY.parent / "docs" / "minimal.md").read_text()
    shown = page.split("```python\n")[1].split("```")[0]
    assert shown in SCHEDULER


@pytest.mark.process
@pytest.mark.parametrize(
    ("address", "code", "message"),
    [
        (None, 2, "random: EVENTSCHED_DATABASE is not a URL; write postgresql://USER@HOST:PORT/"),
        ("mysql://log", 2, "random: EVENTSCHED_DATABASE names mysql, not Postgres; write "),
        ("postgresql://me@127.0.0.1:1/log", 3, "random: postgresql://me@127.0.0.1:1/log: "),
    ],
)
def test_a_wrong_address_is_reported_in_one_line(
    address: str | None, code: int, message: str
) -> None:
    """Exit codes as ``eventsched`` has them: 2 for bad input, 3 for an unreachable database."""
    environment = {key: value for key, value in os.environ.items() if key != "EVENTSCHED_DATABASE"}
    if address is not None:
        environment["EVENTSCHED_DATABASE"] = address
    environment["PYTHONPATH"] = str(DEPLOY.parent)
    done = subprocess.run(
        [sys.executable, EXAMPLE / "scheduler.py"],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    (line,) = done.stderr.splitlines()
    assert (done.returncode, done.stdout, line.startswith(message)) == (code, "", True), line


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (FencedError("random", 1, 2), "another writer has begun epoch 2"),
        (ConflictError(5, 6), "the head is at 6"),
    ],
)
def test_a_lost_stream_is_reported_in_one_line(
    error: Exception,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A second scheduler has opened the stream: the first one ends with code 3, no traceback."""

    def refused(*_: object) -> None:
        raise error

    monkeypatch.setenv("EVENTSCHED_DATABASE", "postgresql://me@127.0.0.1:1/log")
    program = runpy.run_path(str(EXAMPLE / "scheduler.py"))
    main = program["main"]
    monkeypatch.setitem(main.__globals__, "Logbook", refused)
    assert main() == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("random: ")
    assert message in line
    assert line.endswith("; run only one scheduler on a stream")
