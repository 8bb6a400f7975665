"""JSON Schemas of the answers that commands print with ``-o json`` as well. The one of explain is
docs/explain.schema.json, which the package has a copy of."""

import json
from importlib.resources import files
from typing import Any

_TEXT = {"type": "string"}
_NUMBER = {"type": "integer"}
_FLAG = {"type": "boolean"}
_CAUSES = ("score", "verdict", "draw", "other")
_TEXTS = {"type": "array", "items": _TEXT}
_NUMBERS_BY_NAME = {"type": "object", "additionalProperties": _NUMBER}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _object(
    properties: dict[str, Any], optional: dict[str, Any] | None = None, text: str = ""
) -> dict[str, Any]:
    return {
        "type": "object",
        **({"description": text} if text else {}),
        "properties": {**properties, **(optional or {})},
        "required": list(properties),
    }


def _list(name: str) -> dict[str, Any]:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{name}"}}


def _explanation() -> dict[str, Any]:
    """The schema of explain as components: what it defines within gets names of its own."""
    text = files("eventsched.api").joinpath("explain.schema.json").read_text(encoding="utf-8")
    schema = json.loads(text.replace("#/$defs/", "#/components/schemas/Explanation_"))
    within = schema.pop("$defs")
    schema.pop("$schema")
    return {"Explanation": schema, **{f"Explanation_{k}": v for k, v in within.items()}}


_SHARES = {"type": "object", "additionalProperties": {"type": "number"}}
_PLACE = {"stream": _TEXT, "position": _NUMBER, "now": _or_null(_TEXT)}
_NEXT = _or_null(_NUMBER)

SCHEMAS: dict[str, Any] = {
    **_explanation(),
    "Landing": _object(
        {"lands": _FLAG, "failedPlugins": _TEXTS, "reasons": _TEXTS, "behind": _NUMBER},
        text="Whether the pod lands on the node, and if not, what refuses it or how far behind the "
        "best node it is",
    ),
    "Change": _object(
        {"kind": _TEXT, "text": _TEXT},
        text="A change of the pod, the node or a weight; further fields depend on its kind",
    ),
    "Remedies": _object(
        {
            "stream": _TEXT, "pod": _TEXT, "attempt": _NUMBER, "seq": _NUMBER, "node": _TEXT,
            "landing": {"$ref": "#/components/schemas/Landing"},
            "shortfall": _or_null(
                _object({
                    "points": _NUMBER, "best": _TEXT,
                    "scores": {
                        "type": "array",
                        "items": _object({
                            "plugin": _TEXT, "score": _NUMBER, "best": _NUMBER,
                            "difference": _NUMBER,
                        }),
                    },
                })
            ),
            "givenUp": _or_null(_TEXT),
            "remedies": {"type": "array", "items": _list("Change")},
            "stuck": _or_null({"$ref": "#/components/schemas/Landing"}),
            "decisions": _NUMBER, "extendersAsked": _FLAG,
        },
        text="Changes with which the attempt at position seq lands on the node, and of which no "
        "part can be left out, with few pods to remove; "
        "shortfall: how many points a feasible node is short of the best one, by plugin (scores "
        "times weights); stuck: the refusal that no known change ends",
    ),
    "WorkloadGroup": _object(
        {
            "pods": _NUMBER, "state": _TEXT, "states": _NUMBERS_BY_NAME, "tried": _FLAG,
            "plugin": _or_null(_TEXT), "code": _or_null(_TEXT), "reason": _or_null(_TEXT),
            "since": _TEXT, "deleting": _NUMBER, "examples": _TEXTS, "helps": _or_null(_TEXT),
        },
        text="Pods that wait for the same reason",
    ),
    "Workload": _object(
        {
            "stream": _TEXT, "kind": _TEXT, "namespace": _TEXT, "name": _TEXT, "owners": _TEXTS,
            "pods": _NUMBER, "placed": _NUMBER,
            "nodes": {"type": "array", "items": _object({"node": _TEXT, "pods": _NUMBER})},
            "groups": _list("WorkloadGroup"), "next_step": _or_null(_TEXT),
        },
        {
            "minimum": _NUMBER, "why": _TEXT,
            "members": {
                "type": "array", "items": _object({"pod": _TEXT, "node": _or_null(_TEXT)}),
            },
        },
        text="A workload's pods: on which nodes, why the others wait, and what to do; of a pod "
        "group also how many it needs, why it is not bound, and its first 1,000 members",
    ),
    "Differences": _object(
        {
            "stream": _TEXT, "from": _NUMBER, "to": _NUMBER, "counts": _NUMBERS_BY_NAME,
            "differences": _list("Difference"), "next": _NEXT,
        },
        text="A page of what differs between the states at two positions; counts are of all",
    ),
    "Difference": _object(
        {
            "kind": _TEXT, "name": _TEXT, "change": {"enum": ["added", "removed", "changed"]},
            "fields": {
                "type": "array",
                "items": _object({"field": _TEXT, "before": {}, "after": {}}),
            },
        },
        {"place": _TEXT},
        text="An object that is in one state only, or in another form",
    ),
    "TriedPod": _object(
        {
            "namespace": _TEXT, "name": _TEXT, "node": _TEXT, "evicts": _TEXTS,
            "message": _TEXT,
        },
        {
            "score": _NUMBER, "runner_up": _TEXT, "runner_up_score": _NUMBER, "feasible": _NUMBER,
            "evaluated": _NUMBER, "ties": _NUMBER, "nominated": _FLAG,
        },
        text="Where a pod would go (node: empty if nowhere), and who would have to leave for it",
    ),
    "Trial": _object(
        {
            "stream": _TEXT, "position": _NUMBER, "placed": _NUMBER, "pending": _NUMBER,
            "pods": _list("TriedPod"), "warnings": _TEXTS,
        },
        {
            "more": _object({"fit": _NUMBER, "at_least": _FLAG, "message": _TEXT}),
            "nodes_to_add": {"type": "array", "items": _object(
                {"like": _TEXT, "number": _NUMBER, "there_are": _NUMBER, "in_its_zone": _NUMBER,
                 "allocatable": _NUMBERS_BY_NAME}
            )},
            "no_node_helps": _TEXTS, "missing_labels": _TEXTS, "refusals": _TEXTS,
            "waiting_besides": _NUMBER, "waiting_placed": _NUMBER, "text": _TEXT,
        },
        text="What would come of pods; more: how many more of them fit without evictions; "
        "nodes_to_add: with which all would (there_are: nodes of that shape in all zones); "
        "missing_labels: those of nodeSelectors that no shape of nodes has; refusals: why pods "
        "have no node; waiting_besides: other pods that wait; waiting_placed: how many of them "
        "would not wait with these nodes, which have room for them, too",
    ),
    "WhatIfSide": _object(
        {
            "decisions": _NUMBER, "placed": _NUMBER, "pending": _NUMBER,
            "waited": {**_SHARES, "description": "seconds: p50, p99, mean, max"},
            "preemptions": _NUMBER, "evicted": _NUMBER,
            "utilization": {"type": "object", "additionalProperties": _SHARES},
            "fragmentation": _SHARES, "spread": _SHARES, "empty_nodes": _TEXTS,
            "unused_nodes": _TEXTS,
            "samples": {"type": "array", "items": _object(
                {"seconds": {"type": "number"}, "requested": _SHARES, "waiting": _NUMBER}
            )},
        },
        text="A side of the range; shares are from 0 to 1, by resource (docs/what-if.md)",
    ),
    "WhatIfLife": _object(
        {"node": _TEXT, "waited": _or_null({"type": "number"}), "evicted": _FLAG},
        text="Where a pod was placed last (node: empty if nowhere), after how many seconds",
    ),
    "WhatIfPod": _object(
        {
            "namespace": _TEXT, "name": _TEXT, "priority": _NUMBER,
            "before": {"$ref": "#/components/schemas/WhatIfLife"},
            "after": {"$ref": "#/components/schemas/WhatIfLife"},
            "reason": _object(
                {"plugin": _TEXT, "text": _TEXT, "position": _NUMBER, "cause": {"enum": [*_CAUSES]}}
            ),
        },
        text="A pod that differs, and why it was decided otherwise; position: the decision's in "
        "history, -1 if none is comparable",
    ),
    "WhatIf": _object(
        {
            "stream": _TEXT, "rules": _TEXT, "loop": {"enum": ["closed"]}, "first": _NUMBER,
            "end": _NUMBER, "moved": _NUMBER, "differing": _NUMBER,
            "causes": _object(dict.fromkeys(_CAUSES, _NUMBER)),
            "before": {"$ref": "#/components/schemas/WhatIfSide"},
            "after": {"$ref": "#/components/schemas/WhatIfSide"},
            "differences": _list("WhatIfPod"), "warnings": _TEXTS,
            "stored": _or_null(_object({"stream": _TEXT, "records": _NUMBER, "origin": _TEXT})),
        },
        text="What happened and what would have: both sides, and the first of the pods that "
        "differ; moved: pods on another node; causes: the pods that differ by the cause of it: "
        "other scores, a verdict, a draw among equally good nodes. As events: `progress` with done "
        "and total records, then `result` with this, or `problem`",
    ),
    "StatePod": _object(
        {
            "namespace": _TEXT, "name": _TEXT, "uid": _TEXT, "state": _TEXT, "node": _TEXT,
            "nominated_node": _TEXT, "priority": _NUMBER, "requests": _NUMBERS_BY_NAME,
            "scheduler_name": _TEXT, "attempts": _NUMBER, "failures": _NUMBER, "errors": _NUMBER,
            "deleting": _FLAG,
        },
        {
            "since": _or_null(_TEXT), "rejected_by": _TEXTS, "backoff_until": _or_null(_TEXT),
            "gates": _TEXTS, "evicted_for": _TEXT,
            "waits_for": {"type": "object", "additionalProperties": _TEXT},
        },
        text="A pod as the scheduler believed it to be",
    ),
    "StateNode": _object(
        {
            "name": _TEXT, "unschedulable": _FLAG, "taints": _TEXTS,
            "labels": {"type": "object", "additionalProperties": _TEXT},
            "allocatable": _NUMBERS_BY_NAME, "requested": _NUMBERS_BY_NAME, "pods": _TEXTS,
            "nominated": _TEXTS,
        },
        text="A node as the scheduler believed it to be",
    ),
    "State": {
        "description": "The state before the record at position: numbers, one object, or a page",
        "anyOf": [
            _object({
                **_PLACE, "nodes": _NUMBER, "pods": _NUMBER, "pods_by_state": _NUMBERS_BY_NAME,
                "resources": {
                    "type": "object",
                    "additionalProperties": {"$ref": "#/components/schemas/ResourceTotal"},
                },
                "objects": _NUMBERS_BY_NAME,
            }),
            _object({
                **_PLACE, "node": {"$ref": "#/components/schemas/StateNode"},
                "pods": _list("StatePod"),
            }),
            _object({**_PLACE, "pod": {"$ref": "#/components/schemas/StatePod"}}),
            _object({**_PLACE, "pods": _list("StatePod"), "next": _NEXT}),
            _object({**_PLACE, "nodes": _list("StateNode"), "next": _NEXT}),
        ],
    },
}  # fmt: skip
