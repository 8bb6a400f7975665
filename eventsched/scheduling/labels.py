"""What may be a label's key or value (upstream: apimachinery pkg/util/validation, IsQualifiedName
and IsValidLabelValue). Resource names follow the rule of keys."""

import re

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def is_key(text: str) -> bool:
    """Whether the text is a qualified name such as ``disk`` or ``example.com/disk``."""
    prefix, slash, name = text.rpartition("/")
    if slash and (len(prefix) > 253 or not _PREFIX.fullmatch(prefix)):
        return False
    return _NAME.fullmatch(name) is not None


def is_value(text: str) -> bool:
    """Whether the text can be a label's value."""
    return not text or _NAME.fullmatch(text) is not None
