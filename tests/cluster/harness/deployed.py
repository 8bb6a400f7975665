"""Overlays of ``deploy/``, applied to a real API server."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.cluster.harness.client import Answer, ApiError, Object
from tests.cluster.harness.plane import ControlPlane
from tests.deploy.rendering import (
    rendered,
)


def path_of(plane: ControlPlane, each: Object, name: str | None = None) -> str:
    """An object's URL."""
    metadata = each["metadata"]
    kind = f"{each['apiVersion']}/{each['kind']}"
    return plane.admin.path(kind, name or metadata["name"], metadata.get("namespace"))


def applied(plane: ControlPlane, each: Object, **params: object) -> Answer:
    """Server-side apply that takes no unknown field."""
    asked = {"fieldManager": "tests", "fieldValidation": "Strict", **params}
    answer = plane.admin.call(
        "PATCH", path_of(plane, each), each, "application/apply-patch+yaml", **asked
    )
    if answer.status >= 300:
        raise ApiError(answer)
    return answer


@contextmanager
def deployed(plane: ControlPlane, overlay: str) -> Iterator[list[Object]]:
    """The overlay's objects, there for as long as the block runs; the namespace stays."""
    objects = rendered(overlay)
    try:
        for each in objects:
            applied(plane, each)
        yield objects
    finally:
        for each in reversed(objects):
            if each["kind"] != "Namespace":
                with suppress(ApiError):
                    plane.admin.call("DELETE", path_of(plane, each))
