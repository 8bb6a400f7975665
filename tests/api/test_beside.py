"""The process that serves the API beside a scheduler: it follows the file with the database's
address, and ends with the scheduler."""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from eventsched.domain.errors import UnavailableError
from eventsched.eventlog.address_file import AddressFile
from eventsched.process import api_child
from eventsched.process.sections.api_settings import ApiSettings
from eventsched.process.service_plan import ServiceOptions
from eventsched.process.settings import Settings
from eventsched.runtime.assembly import assemble
from tests.cluster.harness.plane import free_ports
from tests.postgres.histories import ODD, TIGHT
from tests.waiting import LIMIT
from tests.web.facts import ask

UNREACHABLE = "postgresql://nobody@127.0.0.1:1/nothing"


@pytest.fixture
def port() -> int:
    """A port that nothing listens on, and that no client gets for a connection meanwhile."""
    return free_ports(1)[0]


async def streams(port: int) -> Any:
    """Names of the streams that the API has; None while it does not answer with them."""
    with suppress(OSError):
        answer = await ask(f"https://127.0.0.1:{port}/api/v1/streams")
        if answer.status == 200:
            return [each["name"] for each in json.loads(answer.text)["streams"]]
    return None


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Waits for a condition. Raises TimeoutError."""
    async with asyncio.timeout(LIMIT):
        while not await condition():
            await asyncio.sleep(0.05)


def test_it_follows_the_address_in_a_file(
    logs: str, database: str, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that is unreachable, one with two streams, one with none."""
    monkeypatch.setattr(api_child, "_LOOK_SECONDS", 0.1)
    monkeypatch.setattr(api_child, "_FIRST_PAUSE", 0.1)
    file = tmp_path / "url"
    settings = Settings(api=ApiSettings(port=port, authorization="off"))
    job = ServiceOptions(assemble(None), settings, AddressFile(file, UNREACHABLE), None, ())

    async def served() -> None:
        with capture_logs() as lines:

            async def was_logged(event: str) -> bool:
                return any(line["event"] == event for line in lines)

            async with api_child.api_beside(job):
                await until(lambda: was_logged("the API is not served"))
                for url, names in ((logs, [ODD, TIGHT]), (database, [])):
                    file.write_text(url)

                    async def are_served(names: list[str] = names) -> bool:
                        return bool(await streams(port) == names)

                    await until(are_served)
                assert await was_logged("the API follows the database's address")
        assert await streams(port) is None

    asyncio.run(served())


def test_a_port_that_is_taken_is_refused_before_anything_starts(port: int) -> None:
    settings = Settings(api=ApiSettings(port=port))
    api_child.require_free(settings)
    with (
        closing(socket.create_server(("127.0.0.1", port))),
        pytest.raises(UnavailableError, match=r"api\.port"),
    ):
        api_child.require_free(settings)
