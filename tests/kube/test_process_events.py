"""Events about the scheduler itself: on which object, and what if they cannot be written."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
import structlog

from eventsched.cluster.kube.calls.process_events import ProcessEvents
from eventsched.cluster.kube.http.refusals import Refusals
from tests.kube.scripted import (
    CUT,
    DONE,
    NOT_FOUND,
    RecordedRequest,
    ScriptedAnswer,
    failure,
    serving,
)

POD = "GET /api/v1/namespaces/ours/pods/host"
LEASE = "GET /apis/coordination.k8s.io/v1/namespaces/leases-here/leases/sched"
SHOWN = ScriptedAnswer(200, {"metadata": {"uid": "u1"}})


def announced(
    folder: Path, *script: ScriptedAnswer, lease: bool = True, in_pod: bool = True
) -> tuple[list[RecordedRequest], list[Any]]:
    """The requests for one Event, and the log lines."""
    file = folder / "namespace"
    if in_pod:
        file.write_text("ours\n")

    async def run() -> list[RecordedRequest]:
        async with serving(script) as (server, api):
            events = ProcessEvents(
                api,
                Refusals(lambda: 0.0),
                "host",
                ("leases-here", "sched") if lease else None,
                str(file),
            )
            await events.announce("Warning", "ConfigurationRefused", "x" * 2000)
            return server.asked

    with structlog.testing.capture_logs() as lines:
        return asyncio.run(run()), lines


def test_an_event_is_about_the_pod(tmp_path: Path) -> None:
    (look, create), lines = announced(tmp_path, SHOWN, DONE)
    assert look.what == POD
    assert create.what == "POST /apis/events.k8s.io/v1/namespaces/ours/events"
    body = create.body
    assert re.fullmatch(r"host\.[0-9a-f]{16}", body["metadata"]["name"])
    assert body["metadata"]["namespace"] == "ours"
    assert body["regarding"] == {
        "apiVersion": "v1", "kind": "Pod", "namespace": "ours", "name": "host", "uid": "u1",
    }  # fmt: skip
    assert (body["type"], body["reason"]) == ("Warning", "ConfigurationRefused")
    assert (body["reportingController"], body["action"]) == ("eventsched", "Reloading")
    assert len(body["note"]) == 1024
    assert lines == []


@pytest.mark.parametrize("in_pod", [True, False])
def test_outside_a_pod_it_is_about_the_lease(tmp_path: Path, in_pod: bool) -> None:
    """Also on the network of the node, where the host's name is not the pod's."""
    looks = (NOT_FOUND, SHOWN) if in_pod else (SHOWN,)
    requests, _ = announced(tmp_path, *looks, DONE, in_pod=in_pod)
    assert requests[-2].what == LEASE
    regarding = requests[-1].body["regarding"]
    assert (regarding["apiVersion"], regarding["kind"]) == ("coordination.k8s.io/v1", "Lease")
    assert (regarding["namespace"], regarding["name"]) == ("leases-here", "sched")


def test_without_either_there_is_none(tmp_path: Path) -> None:
    requests, _ = announced(tmp_path, NOT_FOUND, lease=False)
    assert [request.what for request in requests] == [POD]


@pytest.mark.parametrize("answer", [failure(403, "Forbidden", "no rights"), CUT])
def test_an_event_that_is_not_written_is_logged(tmp_path: Path, answer: ScriptedAnswer) -> None:
    _, lines = announced(tmp_path, SHOWN, answer)
    assert "an Event was not written" in [line["event"] for line in lines]
