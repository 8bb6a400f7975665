"""The bytes of vectors: what is packed is unpacked, and SQL reads the same from them."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from numpy.typing import NDArray

from eventsched.domain.records.verdicts import STORED_NO_NODE, DeltaPart, Detail
from eventsched.eventlog import vectors
from eventsched.eventlog.port import Batch, expand_deltas
from eventsched.eventlog.postgres.writer import PostgresEventLog
from tests.contract.test_eventlog import append, stored
from tests.properties.strategies import deterministic

EDGES = [0, 1, -1, 100, 127, 128, -128, -129, 255, 256, 32_767, 32_768, -32_768, -32_769, 65_535,
         2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63 - 1, -(2**63)]  # fmt: skip
SCORES = st.one_of(st.sampled_from(EDGES), st.integers(0, 100), st.integers(-(2**63), 2**63 - 1))


@st.composite
def columns(draw: st.DrawFn, number: int, dtype: Any, values: st.SearchStrategy[int]) -> Any:
    """A column of ``number`` values: often the same for all, often narrow."""
    if draw(st.booleans()):
        return np.full(number, draw(values), dtype=dtype)
    return np.array(draw(st.lists(values, min_size=number, max_size=number)), dtype=dtype)


def codes(number: int) -> st.SearchStrategy[NDArray[np.uint16]]:
    """Verdict codes."""
    found = st.one_of(st.integers(0, 65_535), st.sampled_from([0, 1, 127, 128, 32_768, 65_533]))
    return columns(number, np.uint16, found)


def scores(number: int, dtype: Any = None) -> st.SearchStrategy[NDArray[Any]]:
    """Raw scores: bytes or wide."""
    kinds = {
        np.uint8: columns(number, np.uint8, st.integers(0, 255)),
        np.int64: columns(number, np.int64, SCORES),
    }
    return st.one_of(*kinds.values()) if dtype is None else kinds[dtype]


@st.composite
def wholes(draw: st.DrawFn, most: int = 12) -> Detail:
    """A whole record; with normalised columns, sometimes."""
    size, number = draw(st.integers(0, most)), draw(st.integers(0, 4))
    own: tuple[Any, ...] = ()
    if number and draw(st.booleans()):
        own = tuple(
            draw(st.one_of(st.none(), columns(size, np.int64, SCORES))) for _ in range(number)
        )
    raws = tuple(draw(scores(size)) for _ in range(number))
    return Detail(size, None, draw(codes(size)), raws, own)


@st.composite
def deltas(draw: st.DrawFn, base: int, before: Detail) -> Detail:
    """A delta to the detail at a position, which is whole here: rows come, values change, columns
    stay as they are, or the decision has no scores."""
    size = before.size + draw(st.integers(0, 3))
    kinds = [] if draw(st.integers(0, 4)) == 0 else [each.dtype.type for each in _all(before)]

    def part(values: Callable[[int], st.SearchStrategy[NDArray[Any]]]) -> DeltaPart | None:
        if draw(st.booleans()):
            return None
        new = set(range(before.size, size)) if draw(st.booleans()) else set()
        old = draw(st.sets(st.integers(0, size - 1))) if size else set()
        rows = np.array(sorted(new | old), dtype=np.int32)
        return DeltaPart(rows, draw(values(len(rows))))

    raws = tuple(part(partial(scores, dtype=kind)) for kind in kinds)
    return Detail(size, base, part(codes), raws)


@st.composite
def partials(draw: st.DrawFn) -> Detail:
    """The vectors of some nodes."""
    size, number = draw(st.integers(0, 40)), draw(st.integers(0, 3))
    kept = draw(st.sets(st.integers(0, size - 1))) if size else set()
    rows = np.array(sorted(kept), dtype=np.int32)

    def part(values: NDArray[Any]) -> DeltaPart:
        return DeltaPart(rows, values[: len(rows)])

    raws = tuple(part(draw(scores(size))) for _ in range(number))
    own = tuple(draw(st.one_of(st.none(), columns(size, np.int64, SCORES).map(part))) for _ in raws)
    return Detail(size, None, draw(codes(size)), raws, own if draw(st.booleans()) else (), True)


def _all(detail: Detail) -> list[Any]:
    return [column for column in detail.scores if column is not None]


@st.composite
def chains(draw: st.DrawFn) -> list[Detail]:
    """Whole and partial records and deltas, each to an earlier one that is fit to be its base."""
    details = [draw(wholes())]
    expanded = [details[0]]
    for _ in range(draw(st.integers(0, 6))):
        bases = [
            at for at, each in enumerate(expanded) if not each.normalized and not each.is_partial
        ]
        base = draw(st.one_of(st.none(), st.sampled_from(bases))) if bases else None
        without_base = st.one_of(wholes(), partials())
        made = draw(without_base) if base is None else draw(deltas(base, expanded[base]))
        details.append(made)
        expanded.append(made.expand(None if base is None else expanded[base]))
    return details


def plain(detail: Detail) -> list[object]:
    """Everything that a detail says, dtypes included."""

    def column(found: NDArray[Any] | DeltaPart | None) -> object:
        if isinstance(found, DeltaPart):
            return column(found.rows), column(found.values)
        return None if found is None else (found.dtype.name, found.tolist())

    columns_found = [column(each) for each in (detail.codes, *detail.scores, *detail.normalized)]
    return [detail.size, detail.base, detail.is_partial, len(detail.scores), *columns_found]


@deterministic(100)
@given(chain=chains())
def test_what_is_packed_is_unpacked(chain: list[Detail]) -> None:
    """Deltas as deltas, columns that are left out as None, bytes as bytes."""
    for detail in chain:
        body = vectors.pack(detail)
        assert plain(vectors.unpack(body, detail.base)) == plain(detail)
        assert vectors.pack(vectors.unpack(body, detail.base)) == body


@pytest.mark.parametrize(
    ("raw", "size"),
    [
        (np.full(5000, 100, dtype=np.uint8), 1 + 1),
        (np.arange(5000, dtype=np.int64) % 128, 1 + 5000),
        (np.arange(5000, dtype=np.int64) % 129 - 128, 1 + 5000),
        (np.arange(5000, dtype=np.int64), 1 + 2 * 5000),
        (np.arange(5000, dtype=np.int64) * -7, 1 + 4 * 5000),
        (np.arange(5000, dtype=np.int64) << 32, 1 + 8 * 5000),
        (np.full(5000, -(2**63), dtype=np.int64), 1 + 8),
    ],
)  # fmt: skip
def test_columns_are_as_narrow_as_they_can_be(raw: NDArray[Any], size: int) -> None:
    """Or one value if all are equal."""
    detail = Detail(5000, None, np.zeros(5000, dtype=np.uint16), (raw,))
    body = vectors.pack(detail)
    assert len(body) == 8 + 2 + size
    assert plain(vectors.unpack(body, None)) == plain(detail)


@pytest.mark.parametrize(("size", "wide"), [(65_536, 2), (65_537, 4)])
def test_row_numbers_are_as_wide_as_the_vector_needs(size: int, wide: int) -> None:
    """Two bytes up to 65,536 rows."""
    rows = np.array([0, 300, size - 1], dtype=np.int32)
    detail = Detail(size, 7, None, (DeltaPart(rows, np.array([1, -2, 3])),))
    body = vectors.pack(detail)
    assert (body[1], len(body)) == (wide, 8 + 1 + 1 + 4 + 3 * wide + 3)
    assert plain(vectors.unpack(body, 7)) == plain(detail)


@pytest.mark.parametrize(
    ("size", "rows", "taken"),
    [
        (5000, 312, 2 * 312), (5000, 313, 625), (5001, 313, 626), (5001, 5001, 626), (16, 1, 2),
        (16, 2, 2), (8, 1, 1), (70_000, 2187, 4 * 2187), (70_000, 2188, 8750),
    ],
)  # fmt: skip
def test_many_rows_are_a_bitmap(size: int, rows: int, taken: int) -> None:
    """If that takes less space than the numbers; each column has its own rows."""
    named = np.arange(size - rows, size, dtype=np.int32)
    last = DeltaPart(np.array([size - 1], dtype=np.int32), np.array([5], dtype=np.uint8))
    detail = Detail(size, 7, DeltaPart(named, np.full(rows, 9, dtype=np.uint16)), (None, last))
    body = vectors.pack(detail)
    one = len(vectors.pack(Detail(size, 7, None, (None, last))))
    assert len(body) == one + 4 + taken + 1
    assert plain(vectors.unpack(body, 7)) == plain(detail)
    assert detail.stored_bytes == 4 * rows + 2 * rows + 4 + 1


@deterministic(100)
@given(chain=chains(), data=st.data())
def test_damaged_bytes_are_refused_or_something_else(
    chain: list[Detail], data: st.DataObject
) -> None:
    """Cut short, or longer: refused. Changed: refused, or read as other values; never any other
    error."""
    detail = data.draw(st.sampled_from(chain))
    body, base = vectors.pack(detail), detail.base
    with pytest.raises(ValueError):
        vectors.unpack(body[: data.draw(st.integers(0, len(body) - 1))], base)
    with pytest.raises(ValueError):
        vectors.unpack(body + b"\0", base)
    with pytest.raises(ValueError):
        vectors.unpack(body, 1 if base is None else None)
    at, value = data.draw(st.integers(0, len(body) - 1)), data.draw(st.integers(0, 255))
    changed = bytearray(body)
    changed[at] = value
    with suppress(ValueError):
        vectors.unpack(bytes(changed), base)


@pytest.fixture(scope="module")
def log(url: str) -> Iterator[PostgresEventLog]:
    """A log, not empty after the first example."""
    log = PostgresEventLog(url, "vectors")
    yield log
    log.close()


@pytest.fixture(scope="module")
def admin(url: str) -> Iterator[psycopg.Connection]:
    """A connection to read with."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@deterministic(40)
@given(chain=chains())
def test_sql_expands_the_same_vectors(
    log: PostgresEventLog, admin: psycopg.Connection, chain: list[Detail]
) -> None:
    """Each column of each decision: codes as signed numbers, scores, normalised ones."""
    first = log.head
    details = {
        first + n: replace(each, base=None if each.base is None else first + each.base)
        for n, each in enumerate(chain)
    }
    append(log, Batch(stored(first, len(chain)), details))
    last = log.detail(log.head - 1)
    assert last is not None
    assert plain(last) == plain(_whole(log.head - 1, details))
    for at in details:
        detail = _whole(at, details)
        assert detail.codes is not None
        wanted = [detail.codes.view(np.int16), *detail.scores, *detail.normalized]
        for place, column in enumerate(wanted):
            query = "SELECT value FROM eventsched_log.vector(%s, %s, %s) ORDER BY ordinal"
            found = admin.execute(query, [log._number, at, place]).fetchall()
            values = [0] * detail.size if column is None else column.tolist()
            if detail.is_partial:
                values = [values[row] for row in _listed(details[at], place)]
            assert [value for (value,) in found] == values


def _listed(detail: Detail, place: int) -> list[int]:
    """The rows of a column of partial vectors."""
    column = [detail.codes, *detail.scores, *detail.normalized][place]
    if isinstance(column, DeltaPart):
        return [int(row) for row in column.rows]
    return [] if column is None else np.flatnonzero(column != STORED_NO_NODE).tolist()


def _whole(at: int, details: dict[int, Detail]) -> Detail:
    found = expand_deltas(at, details.get)
    assert found is not None
    return found


def test_sql_reads_bitmaps(log: PostgresEventLog, admin: psycopg.Connection) -> None:
    """With dense values and with one for all; after a column of a list and one without change."""
    size = 1003
    raws = tuple(np.arange(size, dtype=np.int64) * each for each in (1, 2, 3, 4))
    base = Detail(size, None, np.zeros(size, dtype=np.uint16), raws)
    third, most = np.arange(1, size, 3, dtype=np.int32), np.arange(7, size, dtype=np.int32)
    parts = (
        None, DeltaPart(third, np.full(len(third), -300)), DeltaPart(np.array([1002], np.int32),
                                                               raws[3][:1]),
        DeltaPart(most, most.astype(np.int64) - 500),
    )  # fmt: skip
    first = log.head
    delta = Detail(size, first, DeltaPart(third, third.astype(np.uint16)), parts)
    append(log, Batch(stored(first, 2), {first: base, first + 1: delta}))
    expanded = delta.expand(base)
    assert plain(_whole(first + 1, {first: base, first + 1: delta})) == plain(expanded)
    assert isinstance(expanded.codes, np.ndarray)
    for place, column in enumerate([expanded.codes, *expanded.scores]):
        query = "SELECT value FROM eventsched_log.vector(%s, %s, %s) ORDER BY ordinal"
        found = admin.execute(query, [log._number, first + 1, place]).fetchall()
        assert [value for (value,) in found] == column.tolist()


def test_sql_reads_wide_row_numbers(log: PostgresEventLog, admin: psycopg.Connection) -> None:
    """Of more than 65,536 rows."""
    size = 70_000
    raw = np.arange(size, dtype=np.int64) - 5
    base = Detail(size, None, np.zeros(size, dtype=np.uint16), (raw,))
    rows = np.array([1, 66_000, size], dtype=np.int32)
    first = log.head
    delta = Detail(size + 1, first, None, (DeltaPart(rows, np.array([2**40, -(2**40), 9])),))
    append(log, Batch(stored(first, 2), {first: base, first + 1: delta}))
    query = (
        "SELECT value FROM eventsched_log.vector(%s, %s, 1)"
        " WHERE ordinal IN (0, 1, 65535, 66000, 69999, 70000) ORDER BY ordinal"
    )
    found = [value for (value,) in admin.execute(query, [log._number, first + 1]).fetchall()]
    assert found == [-5, 2**40, 65_530, -(2**40), 69_994, 9]
    detail = log.detail(first + 1)
    assert detail is not None
    (expanded,) = detail.scores
    assert isinstance(expanded, np.ndarray)
    assert found == expanded[[0, 1, 65_535, 66_000, 69_999, 70_000]].tolist()
