"""The executor that a user names: ``processes``, ``dask``, ``dask://HOST:PORT``, ``ray`` or
``ray://HOST:PORT``."""

import socket
from urllib.parse import urlsplit

from eventsched.domain.errors import InputError
from eventsched.runtime.executors.process_executor import ProcessExecutor
from eventsched.runtime.executors.task_executor import TaskExecutor

PROCESSES = "processes"
_FORMS = "write processes, dask, dask://HOST:PORT, ray or ray://HOST:PORT"
_CONNECT_SECONDS = 5.0
"""The time that a cluster has to accept a connection."""


def executor_of(name: str) -> TaskExecutor:
    """The executor of a name. With an address it is a cluster that is there already, without one a
    cluster on this machine for the time of a run. Raises InputError for another name, a package
    that is missing, and an address at which nothing accepts connections."""
    if name == PROCESSES:
        return ProcessExecutor()
    kind, mark, _ = name.partition("://")
    if kind not in {"dask", "ray"}:
        raise InputError(f"--executor {name}", "is not known", _FORMS)
    address = _answering(name) if mark else ""
    # Imported here: the packages are optional, and Ray alone takes seconds.
    if kind == "dask":
        from eventsched.runtime.executors.dask_executor import DaskExecutor

        return DaskExecutor(address)
    from eventsched.runtime.executors.ray_executor import RayExecutor

    return RayExecutor(address)


def _answering(name: str) -> str:
    """HOST:PORT of a name. The libraries wait half a minute for what a connection shows at once."""
    where = f"--executor {name}"
    try:
        parts = urlsplit(name)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port or parts.netloc != name.partition("://")[2]:
        raise InputError(where, "does not name a host and a port", _FORMS)
    try:
        socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
    except OSError as problem:
        raise InputError(
            where,
            f"does not answer ({problem.strerror or problem})",
            "check the address, and that the cluster runs",
        ) from problem
    return parts.netloc
