"""Texts that come from outside, as the log can hold them.

Postgres holds no U+0000 in text, and UTF-8 no half of a surrogate pair. A text is made storable
where it comes in, so that what is decided on is what a replay reads.
"""

import re

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
_REPLACED = rb"\1" + REPLACEMENT.encode()


def is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8: half of a surrogate pair cannot."""
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
    """The same for the texts in JSON."""
    return _NUL.sub(_REPLACED, body) if b"\\u0000" in body else body
