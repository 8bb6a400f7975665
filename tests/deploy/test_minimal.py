"""The minimal scheduler's manifests, and its page."""

import os
import subprocess
import sys

import pytest

from eventsched import __version__

from .rendering import DEPLOY, built, of_kind, pod_spec, the
from .rights import EVERYWHERE, rights

EXAMPLE = DEPLOY.parent / "examples" / "minimal"
SCHEDULER = (EXAMPLE / "scheduler.py").read_text()


def test_it_renders() -> None:
    """With the program as it is, and names that are nobody else's."""
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
    """Its loop, line by line."""
    page = (DEPLOY.parent / "docs" / "minimal.md").read_text()
    shown = page.split("```python\n")[1].split("```")[0]
    assert shown in SCHEDULER


@pytest.mark.process
@pytest.mark.parametrize(
    ("address", "code", "said"),
    [
        (None, 2, "random: EVENTSCHED_DATABASE is not a URL; write postgresql://USER@HOST:PORT/"),
        ("mysql://log", 2, "random: EVENTSCHED_DATABASE names mysql, not Postgres; write "),
        ("postgresql://me@127.0.0.1:1/log", 3, "random: postgresql://me@127.0.0.1:1/log: "),
    ],
)
def test_a_wrong_address_is_told_in_one_line(address: str | None, code: int, said: str) -> None:
    """With the exit codes of ``eventsched``: 2 for what cannot be right, 3 for what is away."""
    environment = {key: value for key, value in os.environ.items() if key != "EVENTSCHED_DATABASE"}
    if address is not None:
        environment["EVENTSCHED_DATABASE"] = address
    environment["PYTHONPATH"] = str(DEPLOY.parent)
    done = subprocess.run(
        [sys.executable, EXAMPLE / "scheduler.py"],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    (line,) = done.stderr.splitlines()
    assert (done.returncode, done.stdout, line.startswith(said)) == (code, "", True), line
