"""What a leader seals."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from eventsched.runtime.live import log_housekeeping
from eventsched.runtime.live.log_housekeeping import Retention, keep_house
from eventsched.runtime.live.request_source import StimulusReceiver


class _SameThread:
    """Calls at once what a worker calls in its thread."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    def stop(self) -> None:
        """Has no thread to stop."""


@pytest.mark.parametrize(
    ("retention", "needs_archive"),
    [
        (Retention(), True),
        (Retention(needs_archive=False), True),
        (Retention(records_age=1e9), True),
        (Retention(records_age=1e9, needs_archive=False), False),
    ],
)
def test_without_an_archive_only_what_may_be_dropped_is_sealed(
    monkeypatch: pytest.MonkeyPatch, retention: Retention, needs_archive: bool
) -> None:
    """So a default installation never seals until it has an archive."""
    asked = []

    def next_seal(where: str, stream: str, *, needs_archive: bool) -> None:
        asked.append(needs_archive)
        raise asyncio.CancelledError

    for name in ("prune", "make_partitions"):
        monkeypatch.setattr(log_housekeeping, name, lambda *_, **__: [])
    monkeypatch.setattr(log_housekeeping, "unarchived_since", lambda *_: None)
    monkeypatch.setattr(log_housekeeping, "next_seal", next_seal)
    monkeypatch.setattr(log_housekeeping, "Worker", _SameThread)
    monkeypatch.setattr(log_housekeeping, "_AFTER", 0.0)
    leader = cast(StimulusReceiver, None)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(keep_house("postgresql:///log", "s", retention, leader, lambda: 0))
    assert asked == [needs_archive]
