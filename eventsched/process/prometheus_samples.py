"""Asks a Prometheus server for the samples of a source, by prometheus-api-client.

Whatever goes wrong is a problem in words, never an exception: the log is told that there are no new
values, and why.
"""

import importlib
import re
from math import isfinite
from typing import Any, NamedTuple

from eventsched.domain.errors import InputError
from eventsched.domain.records import SamplesTaken
from eventsched.scheduling.framework.sampling import Sampling

TIMEOUT = 5
"""Seconds that a connection, or a silence of the server, may last."""
_MOST = 300
"""Characters of a problem."""


class Read(NamedTuple):
    """Values by node name, and what could not be read of the rest."""

    values: dict[str, float]
    problem: str


class Prometheus:
    """Asks for one source, again and again over one connection."""

    def __init__(self, sampling: Sampling) -> None:
        """Raises InputError where the package is not installed."""
        self._sampling = sampling
        package = package_of(sampling.source)
        self._broken: type[Exception] = package.exceptions.PrometheusApiClientException
        self._client = package.PrometheusConnect(url=sampling.address, timeout=TIMEOUT, retry=0)

    def __call__(self) -> SamplesTaken:
        """The values of now, with neither time nor age."""
        try:
            read = values_of(self._client.custom_query(self._sampling.query), self._sampling.label)
        except self._broken as refused:  # an answer other than 200
            read = Read({}, f"Prometheus refuses: {refused}")
        except OSError as away:  # requests' exceptions are of this kind
            read = Read({}, _why(away))
        except Exception:  # noqa: BLE001 - somebody else's bytes: whatever they do, sampling goes on
            read = Read({}, "the answer is none of Prometheus' kind: is it one that is there?")
        return SamplesTaken(
            source=self._sampling.source, values=read.values, problem=_brief(read.problem)
        )

    def close(self) -> None:
        """Gives the connection up."""
        self._client.close()


def package_of(source: str) -> Any:
    """The package prometheus_api_client. Raises InputError where it is not installed."""
    try:
        importlib.import_module("prometheus_api_client.prometheus_connect")
        return importlib.import_module("prometheus_api_client")
    except ModuleNotFoundError as lacking:
        raise InputError(
            f"the samples of {source}",
            f"need the package {lacking.name}",
            "install it: pip install 'eventsched[prometheus]'",
        ) from lacking


def values_of(results: list[dict[str, Any]], label: str) -> Read:
    """The numbers of an instant vector by the label that names the node; those of several series of
    a node are added up. Raises KeyError, TypeError or ValueError for what is no such vector."""
    values: dict[str, float] = {}
    nameless, odd = 0, set()
    for each in results:
        name, number = each["metric"].get(label, ""), float(each["value"][1])
        if not name:
            nameless += 1
        elif not isfinite(number):
            odd.add(name)
        else:
            values[name] = values.get(name, 0.0) + number
    said = []
    if not results:
        said.append("no series: is the device named as on the nodes, and are they scraped?")
    if nameless:
        said.append(f"{nameless} series have no label {label}")
    if odd:
        few = ", ".join(sorted(odd)[:3])
        said.append(f"{len(odd)} series hold no number, such as that of {few}")
    return Read(values, "; ".join(said))


def _why(away: OSError) -> str:
    """What requests says in words for people, without the whole address of the query."""
    name = type(away).__name__
    if "Timeout" in name:
        return f"Prometheus does not answer within {TIMEOUT} s"
    if "JSON" in name:
        return "the answer is no JSON: is that address Prometheus' own?"
    found = re.search(r"\[Errno -?\d+\] ([^'\")]+)", str(away))
    return f"Prometheus cannot be reached: {found[1] if found else name}"


def _brief(problem: str) -> str:
    problem = problem.encode(errors="backslashreplace").decode()
    return problem if len(problem) <= _MOST else f"{problem[: _MOST - 1]}…"
