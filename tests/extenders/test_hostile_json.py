"""JSON of extenders and of schedulers that no library should write."""

import pytest

from eventsched.cluster.extenders import client, served_requests, wire_format
from eventsched.domain.errors import InputError
from eventsched.domain.records.extender_records import BIND, FILTER
from eventsched.scheduling.config.sections import ExtenderSection

NESTED = b"[" * 3_000 + b"]" * 3_000


def test_an_answer_that_is_nested_too_deeply_is_a_failed_call() -> None:
    server = object.__new__(client._Server)
    server.configured = ExtenderSection(url_prefix="http://x")
    answer = ("application/json", b'{"Error":"","x":%b}' % NESTED)
    with pytest.raises(client.FailedError, match="the answer is no JSON"):
        server.read(BIND, answer, wire_format.bind_error)


@pytest.mark.parametrize(
    "spec", [b'{"nodeName":"\xff"}', b'{"priority":%b}' % (b"9" * 5_000), b'{"x":%b}' % NESTED]
)
def test_a_pod_that_cannot_be_read_is_the_clients_error(spec: bytes) -> None:
    pod = served_requests.ExtenderRequest(
        FILTER, "u", b'{"metadata":{"name":"a","uid":"u"},"spec":%b}' % spec
    )
    with pytest.raises(InputError, match="is not JSON"):
        pod.parsed_pod()
