"""What is named for nodes that PreFilter left out."""

import pytest

from eventsched.domain.records.exclusions import bare_reason


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("0/6 nodes are available: persistentvolumeclaim \"c\" not found. not found",
         "persistentvolumeclaim \"c\" not found"),
        ("0/6 nodes are available: no room. Ask again. preemption: 0/6 nodes are available: 6 x.",
         "no room. Ask again"),
        ("0/6 nodes are available: no room.", "no room"),
        ("0/6 nodes are available: no room. no new claims to deallocate, preemption: x", "no room"),
        ("Insufficient cpu", "Insufficient cpu"),
        ("0/6 nodes are available:", "0/6 nodes are available:"),
        ("", ""),
    ],
)  # fmt: skip
def test_the_reason_in_the_message_of_an_attempt_that_pre_filter_ended(
    message: str, reason: str
) -> None:
    assert bare_reason(message) == reason
