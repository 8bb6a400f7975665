"""extender/v1 as it comes over the wire, and what is answered in its form."""

import json
from typing import Any

import pytest

from eventsched.cluster.extenders import served_requests
from eventsched.cluster.extenders.wire_format import WrongShapeError
from eventsched.domain.records import ExtenderInquired, ExtenderReplied, Victims
from eventsched.domain.records.extender_records import BIND, FILTER, PREEMPT, PRIORITIZE

POD = {"metadata": {"uid": "p1", "name": "web", "namespace": "shop"}, "spec": {"priority": 3}}
NAMES = ["n0", "n1", "n2"]


def node(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"a": "b"}}, "status": {"x": 1}}


def exchanged(verb: str, body: dict[str, Any], **reply: Any) -> tuple[int, Any]:
    """The answer to a request about n0 to n2 and n9, where the reply says so much."""
    asked = served_requests.parse_request(verb, json.dumps(body).encode())
    inquired = ExtenderInquired(number=1, uid="p1", verb=verb, nodes="0-2", strange=("n9",))
    replied = ExtenderReplied(number=1, uid="p1", verb=verb, **reply)
    status, answer = served_requests.answer(asked, inquired, replied, NAMES)
    return status, json.loads(answer) if status == 200 else answer.decode()


REFUSED = {
    "FailedNodes": {"n9": "node(s) are not known to the extender (yet)", "n1": "busy"},
    "FailedAndUnresolvableNodes": {"n2": "never"},
    "Error": "",
}


def test_names_are_answered_with_names() -> None:
    body = {"Pod": POD, "Nodes": None, "NodeNames": [*NAMES, "n9"]}
    reply = {"failed": {"busy": "1"}, "unresolvable": {"never": "2"}}
    assert exchanged(FILTER, body, **reply) == (
        200, {"Nodes": None, "NodeNames": ["n0"], **REFUSED}
    )  # fmt: skip
    assert exchanged(FILTER, body, problem="oh") == (200, {"Error": "oh"})


def test_whole_nodes_are_answered_with_whole_nodes() -> None:
    items = [node(name) for name in (*NAMES, "n9")]
    body = {"Pod": POD, "Nodes": {"metadata": {}, "items": items}, "NodeNames": None}
    reply = {"failed": {"busy": "1"}, "unresolvable": {"never": "2"}}
    nodes = {"metadata": {}, "items": [node("n0")]}
    assert exchanged(FILTER, body, **reply) == (
        200, {"Nodes": nodes, "NodeNames": None, **REFUSED}
    )  # fmt: skip


def test_every_host_has_a_score() -> None:
    body = {"Pod": POD, "NodeNames": [*NAMES, "n9"]}
    given = [{"Host": "n0", "Score": 0}, {"Host": "n1", "Score": 4}, {"Host": "n2", "Score": 10}]
    assert exchanged(PRIORITIZE, body, scores=((4, "1"), (10, "2"))) == (
        200, [*given, {"Host": "n9", "Score": 0}]
    )  # fmt: skip
    assert exchanged(PRIORITIZE, body, problem="oh") == (500, "oh")


@pytest.mark.parametrize(
    "candidates",
    [
        {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "v"}], "NumPDBViolations": 1}}},
        {"NodeNameToVictims": {"n1": {"Pods": [{"metadata": {"uid": "v"}}],
                                      "NumPDBViolations": 1}}},
    ],
)  # fmt: skip
def test_victims_come_whole_or_as_uids(candidates: dict[str, Any]) -> None:
    asked = served_requests.parse_request(PREEMPT, json.dumps({"Pod": POD, **candidates}).encode())
    victims = {"n1": Victims(uids=("v",), violations=1)}
    assert (asked.uid, asked.nodes, asked.candidates) == ("p1", ["n1"], victims)
    kept = {"n1": {"Pods": [{"UID": "v"}], "NumPDBViolations": 1}}
    assert exchanged(PREEMPT, {"Pod": POD, **candidates}, victims=victims) == (
        200, {"NodeNameToMetaVictims": kept}
    )  # fmt: skip


def test_bind() -> None:
    body = {"PodName": "web", "PodNamespace": "shop", "PodUID": "p1", "Node": "n1"}
    asked = served_requests.parse_request(BIND, json.dumps(body).encode())
    assert (asked.uid, asked.node) == ("p1", "n1")
    assert exchanged(BIND, body) == (200, {"Error": ""})
    assert exchanged(BIND, body, problem="oh") == (200, {"Error": "oh"})


def test_the_pod_is_read_where_it_is_needed() -> None:
    uid = "7b0f6c1e-3f62-4a8e-9b57-0d6f3f0a8c11"
    pod = {**POD, "metadata": {"uid": uid, "name": "web", "namespace": "shop"}}
    asked = served_requests.parse_request(
        FILTER, json.dumps({"Pod": pod, "NodeNames": []}).encode()
    )
    sent = asked.parsed_pod()
    assert (sent.uid, sent.full_name, sent.priority) == (uid, "shop/web", 3)


@pytest.mark.parametrize(
    ("verb", "body", "said"),
    [
        (FILTER, b"<html>", "the request to filter is not JSON: "),
        (FILTER, b"", "the request to filter is not JSON: "),
        (FILTER, b"[]", "the request to filter has the wrong shape: "),
        (FILTER, b"{}", "missing required field `Pod`"),
        (PRIORITIZE, b'{"Pod": {}, "NodeNames": []}', "its Pod has no metadata.uid"),
        (PRIORITIZE, b'{"Pod": {}, "NodeNames": 3}', "$.NodeNames"),
        (PREEMPT, b'{"Pod": null}', "the request to preempt has the wrong shape: "),
        (BIND, b'{"Node": "n1"}', "missing required field `PodUID`"),
    ],
)
def test_other_requests_are_told_what_is_wrong(verb: str, body: bytes, said: str) -> None:
    with pytest.raises(WrongShapeError) as wrong:
        served_requests.parse_request(verb, body)
    assert said in str(wrong.value)
