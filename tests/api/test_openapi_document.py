"""Requests that Schemathesis makes from the OpenAPI document, right ones and wrong ones: each
answer has a documented status, type and shape, and what the document excludes is refused."""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from eventsched.api.application import OPENAPI, application
from eventsched.api.desk.asked import Desk, Operation
from eventsched.api.gates.gate import OpenGate
from eventsched.api.operations import EVENTS, OPERATIONS
from eventsched.api.what_if.what_if_operations import WHAT_IF, WHAT_IF_OPERATIONS
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import opened_streams
from tests.api.asking import Client
from tests.postgres.histories import TIGHT
from tests.unit.runtime.what_if.histories import MOST_ALLOCATED

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what it imports
    import schemathesis
    from schemathesis import GenerationMode
    from schemathesis.checks import load_all_checks
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    load_all_checks()

RIGHT, WRONG = 8, 5
"""Requests for each operation."""
PODS = """
apiVersion: v1
kind: Pod
metadata: {name: wanted}
spec: {containers: [{name: a, image: b, resources: {requests: {cpu: 100m}}}]}
"""


@pytest.fixture(scope="module")
def document(logs: str) -> Iterator[Any]:
    """The document of an API. Long polls and streams of events end at once."""
    with opened_streams(logs, None) as streams:
        api = application(Desk(streams, FoldedStates()), OpenGate(local_only=False))
        api.end()
        yield schemathesis.openapi.from_asgi(OPENAPI, api)


@pytest.fixture(scope="module")
def known(client: Client) -> dict[str, st.SearchStrategy[str]]:
    """Values that are in the log, by parameter."""
    decisions = client.get(f"/decisions?stream={TIGHT}&limit=30")["decisions"]
    pods = client.get(f"/pods?stream={TIGHT}&limit=30&ever=true")["pods"]
    failed = client.get(f"/decisions?stream={TIGHT}&outcome=unschedulable&limit=5")["decisions"]
    positions = [str(each["position"]) for each in (*decisions, *failed)]
    values: dict[str, list[str]] = {
        "stream": [TIGHT],
        "namespace": [pods[0]["namespace"]],
        "name": [each["name"] for each in pods],
        "pod": [each["name"] for each in pods],
        "node": [each["node"] for each in decisions if each["node"]],
        "plugin": [each["plugin"] for each in failed],
        "profile": ["default-scheduler"],
        "position": positions, "other": positions, "at": positions, "from": positions,
        "until": positions, "to": positions, "before": positions, "after": positions,
    }  # fmt: skip
    return {name: st.sampled_from(there) for name, there in values.items()}


def bounded(examples: int) -> settings:
    return settings(
        max_examples=examples, derandomize=True, database=None, deadline=None,
        phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck),
    )  # fmt: skip


@pytest.mark.parametrize(
    "operation",
    [*OPERATIONS, *WHAT_IF_OPERATIONS, EVENTS],
    ids=lambda each: each.path,
)
def test_answers_are_as_documented(
    document: Any, known: dict[str, st.SearchStrategy[str]], operation: Operation
) -> None:
    described = document[operation.path][operation.method]
    right = described.as_strategy(generation_mode=GenerationMode.POSITIVE)
    wrong = described.as_strategy(generation_mode=GenerationMode.NEGATIVE)

    @bounded(RIGHT // 2 if operation is WHAT_IF else RIGHT)  # each may need a process
    @given(right, st.data())
    def asks(case: Any, data: st.DataObject) -> None:
        for place, given_values in (("path", case.path_parameters), ("query", case.query)):
            for parameter in operation.parameters:
                is_wanted = parameter.name == "stream" or parameter.name in (given_values or {})
                if parameter.place == place and parameter.name in known and is_wanted:
                    given_values[parameter.name] = data.draw(known[parameter.name])
        if operation.method == "POST":
            likely = PODS if operation.path == "/try" else MOST_ALLOCATED
            case.body = data.draw(st.sampled_from((likely, case.body)))
        # A stream or a pod may be unknown, which is a 400 or 404.
        case.validate_response(case.call(), excluded_checks=[positive_data_acceptance])

    @bounded(WRONG)
    @given(wrong)
    def asks_wrongly(case: Any) -> None:
        case.validate_response(case.call())

    asks()
    if operation.parameters:
        asks_wrongly()
