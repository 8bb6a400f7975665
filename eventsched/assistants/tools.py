"""The five tools: the question of each, its arguments, and the positions that its answer rests on.

The arguments are parameters of the API, and the answers are those of its operations.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from eventsched.api.desk.asked import Asked
from eventsched.api.operations import OPERATIONS
from eventsched.api.parameters import Parameter, values_of
from eventsched.domain.errors import InputError
from eventsched.domain.workload_kinds import GROUP, SHORT_KINDS
from eventsched.history.explain.evidence import uid_key
from eventsched.questions.past.last_attempts import attempts_of
from eventsched.questions.streams import LoggedStream

LIMIT, MOST_ITEMS = 20, 50
"""Items of a page, unless the arguments say otherwise, and at most."""
_MANIFESTS = "manifests"
_POD = "pod"
_MAKE: dict[str, Callable[[Asked], Any]] = {row.path: row.make for row in OPERATIONS}
_OF_WORDS = ("width", "full", "wide", "bars", "colours", "text")
"""Parameters of answers in words, which no tool gives."""
_PARAMETERS = {row.path: row.parameters for row in OPERATIONS}


class Tool(NamedTuple):
    """A tool. ``make`` gives the answer, ``positions`` the records that an answer is about. One
    with a ``body`` takes manifests, too."""

    name: str
    text: str
    parameters: tuple[Parameter, ...]
    make: Callable[[Asked], dict[str, Any]]
    positions: Callable[[LoggedStream, Mapping[str, Any]], list[int]]
    body: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        properties = {
            each.name: {"description": each.text, **each.schema} for each in self.parameters
        }
        required = [each.name for each in self.parameters if each.required]
        if self.body:
            text = "manifests of pods or workloads, as YAML or JSON"
            properties[_MANIFESTS] = {"type": "string", "description": text, "minLength": 1}
            required.append(_MANIFESTS)
        return {
            "type": "object", "properties": properties, "required": required,
            "additionalProperties": False,
        }  # fmt: skip

    def read(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
        """The value of each parameter, and the manifests. Raises InputError."""
        given = dict(arguments)
        body = b""
        if self.body:
            manifests = given.pop(_MANIFESTS, "")
            if not isinstance(manifests, str) or not manifests:
                raise InputError(_MANIFESTS, "is missing", "give the pods to try, as YAML")
            body = manifests.encode(errors="replace")
        words = [(name, _word(name, value)) for name, value in given.items() if value is not None]
        return values_of(self.parameters, {}, words), body


def _word(name: str, value: Any) -> str:
    """An argument as a request of the API has it."""
    if isinstance(value, bool | int):
        return json.dumps(value)
    if isinstance(value, str):
        return value
    raise InputError(name, f"is of type {type(value).__name__}", "give a text or a number")


def _parameters(path: str, *without: str) -> tuple[Parameter, ...]:
    """The parameters of an operation as arguments, with smaller pages."""
    found = []
    for parameter in _PARAMETERS[path]:
        if parameter.name == "limit":
            found.append(parameter._replace(most=MOST_ITEMS, default=LIMIT))
        elif parameter.name not in (*_OF_WORDS, *without):
            found.append(parameter._replace(place="query"))
    return tuple(found)


def _made(path: str, asked: Asked) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(_MAKE[path](asked))
    return document


# --- queue ------------------------------------------------------------------------------------


def _queue(asked: Asked) -> dict[str, Any]:
    queued = _made("/queue", asked)
    if asked.values["at"] is not None:
        return queued
    now = _made("/now", asked._replace(values={**asked.values, "nodes": False}))
    names = ("states", "reasons", "decisions_per_second", "waits", "log", "leader")
    return {**queued, **{name: now[name] for name in names}}


def _queue_positions(stream: LoggedStream, answer: Mapping[str, Any]) -> list[int]:
    """The last attempts of the pods that are shown. The rest of the answer is about the state,
    which all records before its position made."""
    uids = (each["uid"] for each in answer["pods"])
    return _attempts_of(stream, uids, answer["position"])


def _attempts_of(stream: LoggedStream, uids: Iterable[str], end: int) -> list[int]:
    """The last attempts of pods before a position."""
    keys = dict.fromkeys(map(uid_key, uids), 0)
    return sorted(found.seq for found in attempts_of(stream, keys, end).values())


def _attempts_of_named(stream: LoggedStream, names: Iterable[str], end: int) -> list[int]:
    """The same of the newest pods of names (``namespace/name``)."""
    evidence = stream.evidence()
    pods = [pod for name in sorted(set(names)) for pod in evidence.pods(name)[-1:]]
    return _attempts_of(stream, (pod.uid for pod in pods), end)


# --- decisions, explain, why_not, try -------------------------------------------------------------


def _decisions(asked: Asked) -> dict[str, Any]:
    return _made("/decisions", asked)


def _decision_positions(_: LoggedStream, answer: Mapping[str, Any]) -> list[int]:
    return [each["position"] for each in answer["decisions"]]


def _explain(asked: Asked) -> dict[str, Any]:
    values = asked.values
    if values["kind"] == _POD:
        return _made("/pods/{namespace}/{name}/explain", asked)
    for name in ("uid", "attempt", "node"):
        if values[name] is not None:
            remedy = f"leave it out, or take kind {_POD}"
            raise InputError(name, f"is for a pod, not for a {values['kind']}", remedy)
    return _made("/workloads/{namespace}/{kind}/{name}/explain", asked)


def _explain_positions(stream: LoggedStream, answer: Mapping[str, Any]) -> list[int]:
    """All records of a pod that the answer has. Of a workload, the last attempts of the pods that
    it names."""
    if "attempts" not in answer:
        names = (name for group in answer["groups"] for name in group["examples"])
        return _attempts_of_named(stream, names, stream.log.head.next)
    parts = (*answer["moves"], *answer["attempts"], *answer["events"])
    return sorted({answer["seq"], *(part["seq"] for part in parts)})


def _why_not(asked: Asked) -> dict[str, Any]:
    return _made("/pods/{namespace}/{name}/why-not", asked)


def _why_not_positions(_: LoggedStream, answer: Mapping[str, Any]) -> list[int]:
    return [answer["seq"]]


def _try(asked: Asked) -> dict[str, Any]:
    return _made("/try", asked)


def _try_positions(stream: LoggedStream, answer: Mapping[str, Any]) -> list[int]:
    """The last attempts of the pods that would have to leave. Pods that are tried have none."""
    victims = (name for tried in answer["pods"] for name in tried["evicts"])
    return _attempts_of_named(stream, victims, answer["position"])


_KIND = Parameter(
    "kind", "what the name is of", values=(_POD, *SHORT_KINDS.values(), GROUP), default=_POD
)

TOOLS = (
    Tool(
        "queue",
        "What waits, and why: pods by state with the one that waits longest, the top reasons, and "
        "each waiting pod in order with what it waits for and an estimate of the rest of its wait. "
        "With `at` those of the past. Begin here if pods are pending and none is named.",
        _parameters("/queue"), _queue, _queue_positions,
    ),
    Tool(
        "decisions",
        "Finds decisions, the newest first: attempts to place pods, with outcome, node and the "
        "refusal of most nodes. Filters by namespace, pod, owner, reason, plugin, node, outcome, "
        "and time.",
        _parameters("/decisions", "wait"), _decisions, _decision_positions,
    ),
    Tool(
        "explain",
        "Why a pod is on its node, or on none: one reason and the next step in `summary`, then its "
        "queue moves and attempts with refusals and scores. Also of pods that are gone, and of a "
        "workload's pods (`kind`).",
        (_KIND, *_parameters("/pods/{namespace}/{name}/explain")), _explain, _explain_positions,
    ),
    Tool(
        "why_not",
        "A change (of the pod, the node, other pods or a weight) with which a pod lands on a node, "
        "and of which no part can be left out, proved by deciding the attempt again.",
        _parameters("/pods/{namespace}/{name}/why-not"), _why_not, _why_not_positions,
    ),
    Tool(
        "try",
        "Where pods would go if they were submitted now, or at a position or time of the past: how "
        "many more fit, who would have to leave, which nodes to add. Nothing is submitted.",
        _parameters("/try"), _try, _try_positions, body=True,
    ),
)  # fmt: skip
