"""Every stored input of the fuzz targets passes: each was once a fault, or is a valid document."""

import pytest

from tests.fuzz.run import FOLDER, fuzz_one_of, inputs
from tests.fuzz.targets import TARGETS, is_choices

LARGEST = 300 * 1024
"""Bytes of all stored inputs."""
LIMIT = 120
"""Seconds after which an input counts as one that never ends; each takes less than one."""
INPUTS = [(target, path) for target in TARGETS for path in inputs(target)]


@pytest.mark.timeout(LIMIT)
@pytest.mark.parametrize(
    ("target", "name"),
    [(target, path.relative_to(FOLDER).as_posix()) for target, path in INPUTS],
)
def test_the_input_passes(target: str, name: str) -> None:
    fuzz_one_of(target)((FOLDER / name).read_bytes())


@pytest.mark.parametrize("target", TARGETS)
def test_choices_of_every_document_pass(target: str) -> None:
    """A few changes of each valid document, without a fuzzer."""
    fuzz_one = fuzz_one_of(target)
    for number in range(40):
        data = bytes(
            [1, number, 1, number * 7 % 256, number * 13 % 256, number % 8, number * 5 % 256]
        )
        assert is_choices(data)
        fuzz_one(data)


def test_the_corpus_is_small() -> None:
    assert sum(path.stat().st_size for _, path in INPUTS) < LARGEST


def test_every_target_has_inputs() -> None:
    assert {target for target, _ in INPUTS} == set(TARGETS)
