"""Vectors of decisions, unpacked and expanded by the code of verification."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventsched.domain.records.verdicts import (
    DeltaPart,
    Detail,
    Normalization,
    ScoreColumn,
    column_digest,
    detail_digest,
    normalized,
    parameters_of,
)
from eventsched.eventlog import vectors
from eventsched.history.verify.verified_decisions import normalized as verified
from eventsched.history.verify.verified_log import Packed
from eventsched.history.verify.verified_vectors import Expander, LostError, VectorError
from tests.properties.strategies import deterministic


def column(data: st.DataObject, size: int, *, narrow: bool) -> Any:
    """Scores of that many rows."""
    if narrow:
        return np.array(data.draw(values(size, 0, 255)), dtype=np.uint8)
    reach = data.draw(st.sampled_from([1, 127, 128, 40_000, 2**40]))
    return np.array(data.draw(values(size, -reach, reach)), dtype=np.int64)


def values(size: int, least: int, most: int) -> st.SearchStrategy[list[int]]:
    """That many numbers."""
    return st.lists(st.integers(least, most), min_size=size, max_size=size)


@deterministic(100)
@given(data=st.data(), kept=st.sampled_from([0, 300, 10**9]))
def test_details_expand_to_what_was_packed(data: st.DataObject, kept: int) -> None:
    stored: dict[int, Packed] = {}
    expander = Expander(stored.get, cache_bytes=kept)
    wholes: list[Detail] = []
    narrow = data.draw(st.lists(st.booleans(), max_size=3))
    for seq in range(data.draw(st.integers(1, 8))):
        bases = [n for n, each in enumerate(wholes) if len(each.scores) == len(narrow)]
        base = data.draw(st.sampled_from([None, *bases]))
        detail = drawn(data, narrow, None if base is None else wholes[base], base)
        whole: Any = detail.expand(None if base is None else wholes[base])
        wholes.append(whole)
        stored[seq] = Packed(seq, base, vectors.pack(detail))
        assert whole.codes is not None
        digests = [column_digest(each) for each in whole.scores if each is not None]
        found = expander.expand(stored[seq], whole.size)
        assert found.digest() == detail_digest(column_digest(whole.codes), digests)
        codes, numbers = np.unique(whole.codes, return_counts=True)
        counts = dict(zip(codes.tolist(), numbers.tolist(), strict=True))
        assert found.census.codes == counts.keys()
        assert found.census.feasible == counts.get(0, 0)


def drawn(data: st.DataObject, narrow: list[bool], base: Detail | None, at: int | None) -> Detail:
    """A whole detail, or a delta to one."""
    code = st.sampled_from([0, 1, 2, 300, 65_533, 65_535])
    if base is None:
        size = data.draw(st.integers(0, 6))
        codes = np.array(data.draw(st.lists(code, min_size=size, max_size=size)), dtype=np.uint16)
        columns = [column(data, size, narrow=each) for each in narrow]
        return Detail(size, None, codes, tuple(columns))
    size = base.size + data.draw(st.integers(0, 2))
    scores = data.draw(st.sampled_from([narrow, []]))
    parts: list[DeltaPart | None] = []
    for each in (None, *scores):
        rows = sorted(data.draw(st.sets(st.integers(0, size - 1)))) if size else []
        number = len(rows)
        if each is None:
            found = data.draw(st.lists(code, min_size=number, max_size=number))
            new: Any = np.array(found, np.uint16)
        else:
            new = column(data, number, narrow=each)
        is_changed = data.draw(st.booleans())
        parts.append(DeltaPart(np.array(rows, np.int32), new) if is_changed else None)
    return Detail(size, at, parts[0], tuple(parts[1:]))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("", "less than a header"),
        ("03 00 01000000 01 00 01 00", "format 3"),
        ("02 00 02000000 01 00 11 00", "row numbers of 0 bytes in a partial record"),
        ("02 02 02000000 01 00 00", "column 0 is missing"),
        ("01 02 01000000 01 00 01 01000000 0000 00", "row numbers of 2 bytes in a whole record"),
        ("01 00 ffffffff 01 00 11 00", "only 2 exist"),
        ("01 00 02000000 03 00 11 00 11 00 11 00", "3 columns, 0 of them scores"),
        ("01 00 02000000 01 00 03 00", "column 0 is of kind 3"),
        ("01 00 02000000 01 00 91 00", "column 0 is of kind 145"),
        ("01 00 02000000 01 00 51 02000000 03 00", "column 0 is of kind 81"),
        ("01 00 02000000 01 00 01 00", "too few for column 0"),
        ("01 00 02000000 01 00", "column 0 is of kind -1"),
        ("01 00 02000000 01 00 11 00 00", "11 bytes, expected 10"),
        ("01 00 02000000 01 00 31 00", "column 0 cannot be of bytes"),
        ("01 00 02000000 02 01 11 00 31 ff", "values that are not unsigned bytes"),
        ("01 00 02000000 02 01 11 00 21 00 ff", "values that are not unsigned bytes"),
        ("01 00 02000000 02 01 11 00 22 0000 0001", "values that are not unsigned bytes"),
    ],
)
def test_layouts_that_are_wrong(body: str, said: str) -> None:
    packed = Packed(5, None, bytes.fromhex(body))
    with pytest.raises(VectorError, match=said):
        Expander(lambda _: None).expand(packed, 2)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("01 00 0a000000 01 00 11 00", "row numbers of 0 bytes in a delta"),
        ("01 03 0a000000 01 00 00", "row numbers of 3 bytes in a delta"),
        ("01 02 0a000000 03 01 00 00 00", "3 columns, 1 of them scores"),
        ("01 02 0a000000 03 02 00 00 00", "2 score columns, but its base has 1"),
        ("01 02 0a000000 02 01 00 91 01000000 0100 05", "column 1 is of kind 145"),
        ("01 02 0a000000 02 01 00 01 0100", "too few for column 1"),
        ("01 02 0a000000 02 01 00 01 03000000 0100 05", "too few for 3 rows of column 1"),
        ("01 02 0a000000 02 01 00 41 03000000 07", "too few for 3 rows of column 1"),
        ("01 02 0a000000 02 01 00 01 01000000 0a00 05", "that are not below 10"),
        ("01 04 0a000000 02 01 00 01 01000000 ffffffff 05", "that are not below 10"),
        ("01 02 0a000000 02 01 00 01 02000000 0300 0300 05 06", "that do not ascend"),
        ("01 02 0a000000 02 01 00 51 03000000 0304 05", "that are not below 10"),
        ("01 02 0a000000 02 01 00 51 02000000 0700 05", "3 rows in the bitmap of column 1, exp"),
        ("01 02 0a000000 02 01 00 01 01000000 0100", "too few for column 1"),
        ("01 02 0a000000 02 01 00 01 01000000 0100 05 00", "expected 17"),
        ("01 02 0a000000 02 01 00 31 01000000 0100 05", "column 1 is of another type than in"),
        ("01 02 0a000000 02 01 31 01000000 0100 05 00", "column 0 cannot be of bytes"),
        ("01 02 09000000 02 01 00 00", "9 rows, expected 10"),
        ("02 02 0a000000 02 01 00 00", "a partial record with a base"),
    ],
)
def test_deltas_that_are_wrong(body: str, said: str) -> None:
    """To a base of ten rows and one column of scores."""
    base = Detail(10, None, np.zeros(10, np.uint16), (np.arange(10),))
    stored = {4: Packed(4, None, vectors.pack(base))}
    expander = Expander(stored.get)
    with pytest.raises(VectorError, match=said):
        expander.expand(Packed(5, 4, bytes.fromhex(body)), 10)
    with pytest.raises(LostError, match="position 3"):
        expander.expand(Packed(6, 3, bytes.fromhex("01 02 0a000000 01 00 00")), 10)


def test_nothing_builds_on_partial_vectors() -> None:
    """They are read as docs/log-format.md has it: rows that are not listed are not kept."""
    body = bytes.fromhex("02 02 0a000000 02 01 41 03000000 0502 000005 41 02000000 0500 07 08")
    packed = Packed(4, None, body)
    expander = Expander({4: packed}.get)
    found = expander.expand(packed, 10)
    assert found.is_partial
    assert found.codes.tolist() == [0, 65_535, 0, *[65_535] * 6, 5]
    assert found.columns[1] is not None
    assert found.columns[1].tolist() == [7, 0, 8, 0, 0, 0, 0, 0, 0, 0]
    assert vectors.pack(vectors.unpack(body, None)) == body
    with pytest.raises(VectorError, match="a delta to vectors that are partial"):
        expander.expand(Packed(5, 4, bytes.fromhex("01 02 0a000000 02 01 00 00")), 10)


def test_a_bitmap_says_rows_from_its_lowest_bit_on() -> None:
    """As docs/log-format.md has it, written by hand."""
    base = Detail(10, None, np.zeros(10, np.uint16), (np.arange(10),))
    stored = {4: Packed(4, None, vectors.pack(base))}
    body = bytes.fromhex("01 02 0a000000 02 01 51 03000000 0b00 01 41 03000000 0103 f1f2f3")
    found = Expander(stored.get).expand(Packed(5, 4, body), 10)
    assert found.codes.tolist() == [1, 1, 0, 1, 0, 0, 0, 0, 0, 0]
    assert found.columns[1] is not None
    assert found.columns[1].tolist() == [-15, 1, 2, 3, 4, 5, 6, 7, -14, -13]
    assert vectors.pack(vectors.unpack(body, 4)) == body


@pytest.mark.parametrize("kind", sorted({*Normalization} - {Normalization.OWN}))
@deterministic(100)
@given(raw=st.lists(st.integers(0, 500), min_size=1))
def test_normalised_scores_are_found_by_the_same_rules(kind: Normalization, raw: list[int]) -> None:
    values = np.array(raw) % (101 if kind is Normalization.IDENTITY else 501)
    values -= kind is Normalization.SPREAD  # -1 stands for a node that is left out
    column = ScoreColumn(
        plugin="p", weight=1, normalization=kind, parameters=parameters_of(kind, values)
    )
    expected = [verified(kind.value, int(each), list(column.parameters)) for each in values]
    assert normalized(column, values).tolist() == expected
