"""Label keys, values and selectors: what is malformed, in upstream's words.

Held against the oracle for every text here (a pod with such an affinity term).
"""

import pytest

from eventsched.domain.objects import Requirement, Selector
from eventsched.domain.objects.labels import is_key, is_value, key_problem, value_problem
from eventsched.domain.objects.selectors import flaw

NAME = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("disk", ""),
        ("example.com/disk", ""),
        ("x" * 63, ""),
        ("x" * 64, "name part must be no more than 63 bytes"),
        ("", f"name part must be non-empty; name part {NAME}"),
        ("a b", f"name part {NAME}"),
        ("e/", f"name part must be non-empty; name part {NAME}"),
        ("/n", "prefix part must be non-empty"),
        ("Example/n", "prefix part a lowercase RFC 1123 subdomain must consist of"),
        ("y" * 254 + "/n", "prefix part must be no more than 253 bytes"),
        ("a/b/c", f"a valid label key {NAME} with an optional DNS subdomain prefix and '/' (e.g."),
    ],
)
def test_keys(text: str, begins: str) -> None:
    problem = key_problem(text)
    assert (problem == "") == (begins == "") == is_key(text)
    assert problem.startswith(begins)


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("", ""),
        ("a.b-c_d", ""),
        ("x" * 64, "must be no more than 63 bytes"),
        ("é" * 32, "must be no more than 63 bytes; a valid label must be an empty string or"),
        ("-", "a valid label must be an empty string or consist of alphanumeric characters"),
    ],
)
def test_values(text: str, begins: str) -> None:
    problem = value_problem(text)
    assert (problem == "") == (begins == "") == is_value(text)
    assert problem.startswith(begins)


def one(operator: str, *values: str, key: str = "a") -> Selector:
    """A selector of one expression."""
    return (Requirement(key=key, operator=operator, values=values),)


@pytest.mark.parametrize(
    ("selector", "said"),
    [
        (None, ""),
        ((), ""),
        (one("In", "x", ""), ""),
        (one("Gt", "3"), '"Gt" is not a valid label selector operator'),
        (one("NotIn"), "values: Invalid value: null: for 'in', 'notin' operators, values set can't"
                       " be empty"),
        (one("Exists", "x", "y"), 'values: Invalid value: ["x","y"]: values set must be empty for '
                                  "exists and does not exist"),
        (one("DoesNotExist", key="x" * 64),
         f'key: Invalid value: "{"x" * 64}": name part must be no more than 63 bytes'),
        (one("Exists", "x" * 64, key="y" * 64),
         f'[key: Invalid value: "{"y" * 64}": name part must be no more than 63 bytes, '
         f'values: Invalid value: ["{"x" * 64}"]: values set must be empty for exists and does not '
         f'exist, values[0][{"y" * 64}]: Invalid value: "{"x" * 64}": must be no more than 63 '
         "bytes]"),
    ],
)  # fmt: skip
def test_selectors(selector: Selector, said: str) -> None:
    assert flaw(selector) == said
