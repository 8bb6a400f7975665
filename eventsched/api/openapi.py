"""The OpenAPI document, made from the operations."""

from collections.abc import Sequence
from typing import Any

import msgspec

from eventsched import __version__
from eventsched.api.arrow import ARROW_TYPE
from eventsched.api.desk.asked import Operation
from eventsched.api.event_streams import EVENTS_TYPE
from eventsched.api.operations import EVENTS
from eventsched.api.parameters import Parameter
from eventsched.api.problems import PROBLEM_TYPE, ProblemDetails
from eventsched.api.schemas import SCHEMAS
from eventsched.api.text_answers import TEXT_TYPE, TEXTS
from eventsched.api.what_if.what_if_operations import WHAT_IF

_REF = "#/components/schemas/{name}"
_FAILURES = {
    "400": "A parameter is unknown, missing or wrong, or nothing of that kind is there",
    "401": "The bearer token is missing or unknown",
    "403": "The client may not see this",
    "404": "There is no such path or pod",
    "405": "The path does not take this method: see its entry in paths",
    "413": "The request is too large",
    "500": "The answer could not be made",
    "503": "The log cannot be read now, or too many requests are under way",
}


def openapi_document(operations: Sequence[Operation]) -> dict[str, Any]:
    """The document for these operations."""
    shapes = [each.answer for each in operations if not isinstance(each.answer, str)]
    _, schemas = msgspec.json.schema_components([*shapes, ProblemDetails], ref_template=_REF)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "eventsched",
            "version": __version__,
            "summary": "Questions to the log of a scheduler",
            "description": "The log is not written to. Positions count the records of a "
            "stream; times are ISO 8601 in UTC.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/api/v1"}],
        "security": [{}, {"bearer": []}],
        "paths": {each.path: {each.method.lower(): _operation(each)} for each in operations},
        "components": {
            "schemas": {**schemas, **SCHEMAS},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "responses": {
                status: {
                    "description": text,
                    "content": {
                        PROBLEM_TYPE: {"schema": {"$ref": _REF.format(name="ProblemDetails")}}
                    },
                }
                for status, text in _FAILURES.items()
            },
        },
    }


def _operation(operation: Operation) -> dict[str, Any]:
    answer = operation.answer
    name = answer if isinstance(answer, str) else answer.__name__
    is_kept = operation.method == "GET" and operation is not EVENTS
    unchanged = {"description": "As the ETag of If-None-Match says, nothing has changed"}
    header = _CONDITION if is_kept else _LAST_ID
    return {
        "summary": operation.summary,
        "operationId": _identifier(operation.path),
        "parameters": [
            *map(_parameter, operation.parameters),
            *([header] if operation.method == "GET" else ()),
        ],
        **({"requestBody": _body(operation)} if operation.body else {}),
        "responses": {
            "200": {
                "description": "The answer",
                **({"headers": {"ETag": _ETAG}} if is_kept else {}),
                "content": _content(operation, {"$ref": _REF.format(name=name)}),
            },
            **({"304": unchanged} if is_kept else {}),
            **{status: {"$ref": f"#/components/responses/{status}"} for status in _FAILURES},
        },
    }


def _content(operation: Operation, schema: dict[str, Any]) -> dict[str, Any]:
    if operation is EVENTS:
        return {EVENTS_TYPE: {"schema": {"type": "string"}}}
    content: dict[str, Any] = {"application/json": {"schema": schema}}
    if operation is WHAT_IF:
        content[EVENTS_TYPE] = {"schema": {"type": "string"}}
    if operation.arrow is not None:
        content[ARROW_TYPE] = {"schema": {"type": "string", "format": "binary"}}
    if operation.path in TEXTS:
        content[TEXT_TYPE] = {"schema": {"type": "string"}}
    return content


def _body(operation: Operation) -> dict[str, Any]:
    return {
        "required": operation is not WHAT_IF,
        "description": operation.body,
        "content": {"application/yaml": {"schema": {"type": "string"}}},
    }


_ETAG = {"schema": {"type": "string"}, "description": "For If-None-Match"}
_LAST_ID = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "the id of the last event that the client has; instead of after",
    "schema": EVENTS.parameters[-1].schema,
}
_CONDITION = {
    "name": "If-None-Match",
    "in": "header",
    "description": "the ETag of an answer that the client has",
    "schema": {"type": "string"},
}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "description": parameter.text,
        "required": parameter.required,
        "schema": parameter.schema,
    }


def _identifier(path: str) -> str:
    words = [word.strip("{}").replace("-", "_") for word in path.split("/") if word]
    return "_".join(words)
