"""Secrets in text that people read: tokens, passwords and private keys become ``***``.

Masking prefers to hide too much. It is a last resort: no code should log a secret.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

MASK = "***"

_NAMES = r"[\w.-]*(?:password|passwd|secret|token|api_?key|authorization)"
_SUSPECT = re.compile(
    r"://|eyJ|bearer|passw|secret|token|api_?key|authorization|PRIVATE KEY", re.IGNORECASE
)
"""Text without any of these is not masked. This quick check is enough for most text."""
_RULES = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END[A-Z -]*|\Z)", re.DOTALL), MASK),
    # scheme://user:password@host; the password may contain unescaped characters, even @ and /.
    (re.compile(r"(://[^\s:/@]*):[^\s\"'<>]*@"), rf"\1:{MASK}@"),
    (re.compile(rf"(?i)([\"']{_NAMES}[\"']\s*:\s*)(\"(?:[^\"\\]|\\.)*\"|'[^']*')"), rf'\1"{MASK}"'),
    (re.compile(r"(?i)\b(authorization\s*[:=]\s*)(?:\w+\s+)?[^\s\"',]+"), rf"\1{MASK}"),
    # In a libpq conninfo, a URL's query or an environment: password='a b', sslpassword=x, token=x.
    (re.compile(rf"(?i)\b({_NAMES}\s*=\s*)('[^']*'|\"[^\"]*\"|[^\s&;,\"']+)"), rf"\1{MASK}"),
    (re.compile(r"(?i)\b(bearer)\s+(?=\S*[\d._~+/=-])[\w.~+/=-]{6,}"), rf"\1 {MASK}"),
    (re.compile(r"\beyJ[\w-]{6,}\.[\w-]+(?:\.[\w-]*)?"), MASK),
)
_SECRET_KEY = re.compile(rf"(?i){_NAMES}|[\w.-]*key-?data")


def masked(text: str) -> str:
    """The text without its secrets."""
    if _SUSPECT.search(text):
        for pattern, replacement in _RULES:
            text = pattern.sub(replacement, text)
    return text


def masked_value(value: Any) -> Any:
    """Masks a JSON-like value: its strings at any depth, and every value whose key names a secret
    (``password``, ``token``…). Other objects become their masked text."""
    if type(value) is str:
        return masked(value)
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, Mapping):
        return {
            key: MASK if item and is_secret(str(key)) and isinstance(item, str | bytes)
            else masked_value(item)
            for key, item in value.items()
        }  # fmt: skip
    if isinstance(value, list | tuple):
        return [masked_value(item) for item in value]
    return masked(str(value))


@lru_cache(maxsize=512)
def is_secret(key: str) -> bool:
    """Whether a key names a secret, so that its value is masked."""
    return _SECRET_KEY.fullmatch(key) is not None
