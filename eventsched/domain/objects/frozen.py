"""The base of stored values, and their canonical bytes."""

from typing import Any

import msgspec

from eventsched.domain.objects.texts import json_without_nul


class Frozen(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """Base of all stored values. Fields with default values are left out of the stored bytes, so a
    new field with a default does not change the bytes of older records. They hold what JSON can
    hold, so none refers to itself, and the garbage collector does not look at them (gc=False)."""


def canonical(value: Any) -> bytes:
    """Canonical JSON bytes: fields in declared order, map keys sorted, no white space. U+0000
    becomes U+FFFD, because Postgres text cannot hold it. Raises ValueError for half a surrogate
    pair."""
    body = msgspec.json.encode(value, order="deterministic")
    if b"\\u0000" not in body:
        return body
    body = json_without_nul(body)
    if isinstance(value, msgspec.Struct):  # the replacement may have changed the order of map keys
        value = msgspec.json.decode(body, type=type(value))
        return msgspec.json.encode(value, order="deterministic")
    return body
