"""Tests against a real control plane: ``make test-cluster``. Without one they are skipped.

Every worker of pytest-xdist has one control plane, which its tests use one after the other:

- ``plane``: etcd and kube-apiserver alone; swept after the test;
- ``controllers``: the same with the controller manager and kwok for as long as the module lasts, so
  that deployments roll out and pods run;
- ``own_plane``: a fresh one for a test that stops its servers;
- ``postgres``: a Postgres server for this test alone;
- ``schedulers``: ``eventsched run`` beside ``plane``, on a database of the test's own;
- ``upstream``: kube-scheduler beside ``plane``, under another name.
"""

import ssl
import traceback
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.harness.binaries import MissingProgramError, Programs, find
from tests.cluster.harness.demos import DEFAULT
from tests.cluster.harness.manifests import UPSTREAM
from tests.cluster.harness.own_postgres import OwnPostgres, own_postgres, template
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.scheduler import Schedulers
from tests.cluster.harness.servers import Server
from tests.databases import database, one_server

__all__ = ["database", "one_server"]

_planes: list[ControlPlane] = []

LIMIT = 1800
"""Seconds that a test may take here, with the start of the servers that it needs."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives tests of this folder their limit."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LIMIT))


@pytest.fixture(scope="session", autouse=True)
def _resets() -> Iterator[None]:
    """A connection that is reset before its TLS begins is closed: Python itself forgets the socket
    that it was about to make of it (ssl.py, SSLSocket._create)."""
    original = ssl.SSLSocket._create  # type: ignore[attr-defined]

    def create(cls: type[ssl.SSLSocket], *given: Any, **more: Any) -> ssl.SSLSocket:
        try:
            made: ssl.SSLSocket = original.__func__(cls, *given, **more)
        except OSError as error:
            for frame, _ in traceback.walk_tb(error.__traceback__):
                if frame.f_code is original.__func__.__code__ and "self" in frame.f_locals:
                    frame.f_locals["self"].close()
            raise
        return made

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ssl.SSLSocket, "_create", classmethod(create))
        yield


@pytest.fixture(scope="session")
def programs() -> Programs:
    """The programs of a control plane."""
    try:
        return find()
    except MissingProgramError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def _plane(programs: Programs) -> Iterator[ControlPlane]:
    with ControlPlane(programs) as plane:
        _planes.append(plane)
        yield plane
        _planes.remove(plane)


@pytest.fixture
def plane(_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The worker's control plane."""
    yield _plane
    _plane.sweep()


@pytest.fixture(scope="module")
def _controllers(_plane: ControlPlane) -> Iterator[ControlPlane]:
    with ExitStack() as stack:
        for start in (_plane.start_controller_manager, _plane.start_kwok):
            try:
                stack.callback(_plane.discard, start())
            except MissingProgramError as missing:
                pytest.skip(str(missing))
        yield _plane


@pytest.fixture
def controllers(_controllers: ControlPlane, plane: ControlPlane) -> ControlPlane:
    """The worker's control plane with the controller manager and kwok."""
    return plane


@pytest.fixture
def own_plane(programs: Programs) -> Iterator[ControlPlane]:
    """A control plane for this test alone."""
    with ControlPlane(programs) as plane:
        _planes.append(plane)
        yield plane
        _planes.remove(plane)


@pytest.fixture
def namespace(plane: ControlPlane) -> Iterator[str]:
    """An empty namespace of the worker's control plane."""
    with plane.namespace() as name:
        yield name


@pytest.fixture(scope="session")
def _template() -> Iterator[Path]:
    with template() as made:
        yield made


@pytest.fixture
def postgres(_template: Path) -> Iterator[OwnPostgres]:
    """A Postgres server for this test alone, with the schema."""
    with own_postgres(_template) as server:
        yield server


@pytest.fixture
def schedulers(plane: ControlPlane, database: str) -> Iterator[Schedulers]:
    """Replicas of the scheduler; afterwards their logs are looked at."""
    with Schedulers(plane, database) as made:
        yield made


@pytest.fixture
def upstream(plane: ControlPlane) -> Iterator[Server]:
    """kube-scheduler for the pods of the scheduler ``upstream``."""
    yield from _kube_scheduler(plane, UPSTREAM)


@pytest.fixture
def default_scheduler(plane: ControlPlane) -> Iterator[Server]:
    """kube-scheduler for the pods that name no scheduler."""
    yield from _kube_scheduler(plane, DEFAULT)


def _kube_scheduler(plane: ControlPlane, name: str) -> Iterator[Server]:
    try:
        server = plane.start_kube_scheduler({"profiles": [{"schedulerName": name}]})
    except MissingProgramError as missing:
        pytest.skip(str(missing))
    yield server
    if server in plane.servers:
        plane.discard(server)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Logs are shown from here on."""
    for each in _planes:
        each.mark_logs()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure shows the ends of the servers' logs."""
    report = yield
    if report.failed:
        for plane in _planes:
            for name, text in plane.logs().items():
                report.sections.append((f"log of {name}", text))
    return report
