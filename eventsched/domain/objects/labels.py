"""Which texts may be a label's key or value, and upstream's messages for those that may not.

Upstream: apimachinery pkg/api/validate/content (IsLabelKey, IsLabelValue, IsDNS1123Subdomain).
Resource names follow the rule of keys.
"""

import re

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_ANY_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_NAME, _LONGEST_PREFIX = 63, 253

_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character"
)
_OF_NAMES = (
    f"{_RULE} (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_OF_KEYS = (
    f"a valid label key {_OF_NAMES} with an optional DNS subdomain prefix and '/' "
    "(e.g. 'example.com/MyName')"
)
_OF_VALUES = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    "or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_OF_PREFIXES = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def is_key(text: str) -> bool:
    """Whether the text is a qualified name such as ``disk`` or ``example.com/disk``."""
    prefix, slash, name = text.rpartition("/")
    if slash and not is_subdomain(prefix):
        return False
    return _NAME.fullmatch(name) is not None


def is_subdomain(text: str) -> bool:
    """Whether the text can be a label key's prefix, or the name of a node."""
    return len(text) <= _LONGEST_PREFIX and _PREFIX.fullmatch(text) is not None


def is_value(text: str) -> bool:
    """Whether the text can be a label's value."""
    return not text or _NAME.fullmatch(text) is not None


def key_problem(text: str) -> str:
    """Why a text cannot be a label's key; "" if it can."""
    if is_key(text):
        return ""
    parts = text.split("/")
    if len(parts) > 2:
        return _OF_KEYS
    problems: list[str] = []
    if len(parts) == 2 and not parts[0]:
        problems.append("prefix part must be non-empty")
    elif len(parts) == 2:
        problems += [f"prefix part {problem}" for problem in _prefix_problems(parts[0])]
    name = parts[-1]
    if not name:
        problems.append("name part must be non-empty")
    elif _bytes(name) > _LONGEST_NAME:
        problems.append(f"name part must be no more than {_LONGEST_NAME} bytes")
    if not _ANY_NAME.fullmatch(name):
        problems.append(f"name part {_OF_NAMES}")
    return "; ".join(problems)


def value_problem(text: str) -> str:
    """Why a text cannot be a label's value; "" if it can."""
    if is_value(text):
        return ""
    problems = []
    if _bytes(text) > _LONGEST_NAME:
        problems.append(f"must be no more than {_LONGEST_NAME} bytes")
    if not _ANY_NAME.fullmatch(text):
        problems.append(_OF_VALUES)
    return "; ".join(problems)


def _prefix_problems(prefix: str) -> list[str]:
    problems = []
    if _bytes(prefix) > _LONGEST_PREFIX:
        problems.append(f"must be no more than {_LONGEST_PREFIX} bytes")
    if not _PREFIX.fullmatch(prefix):
        problems.append(_OF_PREFIXES)
    return problems


def _bytes(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))
