"""Making texts from outside storable in the log.

Postgres text cannot hold U+0000, and UTF-8 cannot hold half of a surrogate pair. Texts are made
storable as soon as they come in, so that a decision and its replay read the same text.
"""

import re

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
_REPLACED = rb"\1" + REPLACEMENT.encode()


def is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8, which half of a surrogate pair cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def without_nul(text: str) -> str:
    """The text with U+FFFD for each U+0000."""
    return text.replace("\0", REPLACEMENT) if "\0" in text else text


def json_without_nul(body: bytes) -> bytes:
    """The JSON text with U+FFFD for each escaped U+0000."""
    return _NUL.sub(_REPLACED, body) if b"\\u0000" in body else body
