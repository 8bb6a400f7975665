"""The process that serves the HTTP API beside a scheduler.

A process of its own: its answers take no time of the scheduler's event loop, nor its GIL. It reads
the database over connections of its own that only read. It ends with the scheduler, also when that
is killed: then the pipe at its standard input is closed. The pipe also says what to serve, so that
no password is in a command line. If it ends, it is started again.
"""

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import structlog

from eventsched.eventlog.address_file import Address
from eventsched.process.service_plan import ServiceOptions
from eventsched.process.settings import Settings
from eventsched.web.http import https_server
from eventsched.web.http.certificates import Certificates, Files, SelfMade, own_names
from eventsched.web.http.https_server import Place

MODULE = "eventsched.api.child_process"
PORT = "api.port"
"""What messages call the port."""
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
"""Seconds before it is started again; each time twice as long."""
_STEADY_SECONDS = 60.0
"""Seconds after which a process that ended is not counted as one that fails at its start."""
_LOOK_SECONDS = 5.0
"""Seconds between two looks whether the file with the database's address has changed."""
_END_SECONDS = 8.0
"""Seconds that answers under way get when the scheduler ends."""

logger = structlog.stdlib.get_logger(__name__)


class ApiOrder(msgspec.Struct, frozen=True):
    """What the process is to serve: settings of the scheduler, and the database's address."""

    database: str
    settings: Settings
    kubeconfig: str | None
    plugins: tuple[str, ...]


def require_free(settings: Settings) -> None:
    """Raises InputError or UnavailableError if the API's port cannot be bound, or its certificates
    cannot be used."""
    if settings.api.port:
        https_server.require_place_free(place_of(settings))


def place_of(settings: Settings) -> Place:
    """Where the API is served. Raises InputError for certificates that cannot be used."""
    serving, ca_file = settings.serving, settings.api.client_ca_file
    source: Files | SelfMade = SelfMade(own_names(serving.bind_address))
    if serving.cert_file:
        source = Files(Path(serving.cert_file), Path(serving.key_file))
    certificates = Certificates(source, Path(ca_file) if ca_file else None)
    return Place(serving.bind_address, settings.api.port, PORT, certificates)


@asynccontextmanager
async def api_beside(job: ServiceOptions) -> AsyncIterator[None]:
    """Serves the API while the block runs, if the settings want that."""
    if not job.settings.api.port:
        yield
        return
    task = asyncio.create_task(_supervised(job))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _supervised(job: ServiceOptions) -> None:
    """Starts the process again and again, until it is cancelled."""
    loop, pause = asyncio.get_running_loop(), _FIRST_PAUSE
    while True:
        began = loop.time()
        problem = await _one_process(job)
        if not problem:
            logger.info("the API follows the database's address")
            continue
        if loop.time() - began > _STEADY_SECONDS:
            pause = _FIRST_PAUSE
        logger.warning("the API is not served", problem=problem, again_in=pause)
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


async def _one_process(job: ServiceOptions) -> str:
    """Runs the process until it ends, and says why it has; "" if the address has changed."""
    address = _address(job.address)
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", MODULE, stdin=PIPE, stdout=DEVNULL, start_new_session=True
        )
    except OSError as error:
        return f"no process for it: {error}"
    try:
        await _order(process, job, address)
        code = await _ended(process, job.address, address)
    finally:
        await _stop(process)
    return "" if code is None else f"its process ended with {code}"


async def _order(process: Process, job: ServiceOptions, address: str) -> None:
    """Says what to serve."""
    kubeconfig = None if job.kubeconfig is None else str(job.kubeconfig)
    order = ApiOrder(address, job.settings, kubeconfig, tuple(map(str, job.plugins)))
    assert process.stdin is not None
    with suppress(OSError):  # it has ended already
        process.stdin.write(msgspec.json.encode(order) + b"\n")
        await process.stdin.drain()


async def _ended(process: Process, current: Address, address: str) -> int | None:
    """The exit code; None if the process runs with an address that has changed."""
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_SECONDS):
                return await process.wait()
        if _address(current) != address:
            return None


async def _stop(process: Process) -> None:
    """Ends the process by closing its standard input, or kills it."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def _address(address: Address) -> str:
    return address if isinstance(address, str) else address.read()
