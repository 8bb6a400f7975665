"""Queries a Prometheus server for the samples of a source, through prometheus-api-client.

A failure is returned as a text, never raised: the log records that there are no new values, and
why.
"""

import importlib
import re
from math import isfinite
from typing import Any, NamedTuple

from eventsched.domain.errors import InputError
from eventsched.domain.records import SamplesTaken
from eventsched.scheduling.framework.sampling import Sampling

TIMEOUT = 5
"""Seconds to connect, and to wait for each part of an answer."""
_MOST = 300
"""The length of a problem's text, at most."""


class Read(NamedTuple):
    """Values by node name, and why other values could not be read."""

    values: dict[str, float]
    problem: str


class Prometheus:
    """Queries the samples of one source repeatedly over one connection."""

    def __init__(self, sampling: Sampling) -> None:
        """Raises InputError if the package is not installed."""
        self._sampling = sampling
        package = package_of(sampling.source)
        self._broken: type[Exception] = package.exceptions.PrometheusApiClientException
        self._client = package.PrometheusConnect(url=sampling.address, timeout=TIMEOUT, retry=0)

    def __call__(self) -> SamplesTaken:
        """The current values, without time and age."""
        try:
            read = values_of(self._client.custom_query(self._sampling.query), self._sampling.label)
        except self._broken as refused:  # an answer other than 200
            read = Read({}, f"Prometheus refuses: {refused}")
        except OSError as error:  # requests' exceptions are of this kind
            read = Read({}, _why(error))
        except Exception:  # noqa: BLE001 - no answer of a server may end sampling
            read = Read({}, "the answer is none of Prometheus' kind: is it one that is there?")
        return SamplesTaken(
            source=self._sampling.source, values=read.values, problem=_brief(read.problem)
        )

    def close(self) -> None:
        """Closes the connection."""
        self._client.close()


def package_of(source: str) -> Any:
    """The package prometheus_api_client. Raises InputError if it is not installed."""
    try:
        importlib.import_module("prometheus_api_client.prometheus_connect")
        return importlib.import_module("prometheus_api_client")
    except ModuleNotFoundError as missing:
        raise InputError(
            f"the samples of {source}",
            f"need the package {missing.name}",
            "install it: pip install 'eventsched[prometheus]'",
        ) from missing


def values_of(results: list[dict[str, Any]], label: str) -> Read:
    """The values of an instant vector, by the label that names the node. The series of one node are
    summed. Raises KeyError, TypeError or ValueError for anything else."""
    values: dict[str, float] = {}
    nameless, odd = 0, set()
    for series in results:
        name, number = series["metric"].get(label, ""), float(series["value"][1])
        if not name:
            nameless += 1
        elif not isfinite(number):
            odd.add(name)
        else:
            values[name] = values.get(name, 0.0) + number
    problems = []
    if not results:
        problems.append("no series: is the device named as on the nodes, and are they scraped?")
    if nameless:
        problems.append(f"{nameless} series have no label {label}")
    if odd:
        few = ", ".join(sorted(odd)[:3])
        problems.append(f"{len(odd)} series hold no number, such as that of {few}")
    return Read(values, "; ".join(problems))


def _why(error: OSError) -> str:
    """A readable text for an exception of requests, without the query's whole URL."""
    name = type(error).__name__
    if "Timeout" in name:
        return f"Prometheus does not answer within {TIMEOUT} s"
    if "JSON" in name:
        return "the answer is no JSON: is that address Prometheus' own?"
    errno_text = re.search(r"\[Errno -?\d+\] ([^'\")]+)", str(error))
    return f"Prometheus cannot be reached: {errno_text[1] if errno_text else name}"


def _brief(problem: str) -> str:
    problem = problem.encode(errors="backslashreplace").decode()
    return problem if len(problem) <= _MOST else f"{problem[: _MOST - 1]}…"
