"""Secrets in text that people read: tokens, passwords and private keys become ``***``.

Masking takes too much rather than too little. It is a last resort: no code should log a secret.
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
"""Without any of these nothing is masked: most text is done with here."""
_RULES = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END[A-Z -]*|\Z)", re.DOTALL), MASK),
    # scheme://user:password@host; a password may hold what should have been escaped, @ and / too.
    (re.compile(r"(://[^\s:/@]*):[^\s\"'<>]*@"), rf"\1:{MASK}@"),
    (re.compile(rf"(?i)([\"']{_NAMES}[\"']\s*:\s*)(\"(?:[^\"\\]|\\.)*\"|'[^']*')"), rf'\1"{MASK}"'),
    (re.compile(r"(?i)\b(authorization\s*[:=]\s*)(?:\w+\s+)?[^\s\"',]+"), rf"\1{MASK}"),
    # Of a libpq conninfo, a URL's query, an environment: password='a b', sslpassword=x, token=x.
    (re.compile(rf"(?i)\b({_NAMES}\s*=\s*)('[^']*'|\"[^\"]*\"|[^\s&;,\"']+)"), rf"\1{MASK}"),
    (re.compile(r"(?i)\b(bearer)\s+(?=\S*[\d._~+/=-])[\w.~+/=-]{6,}"), rf"\1 {MASK}"),
    (re.compile(r"\beyJ[\w-]{6,}\.[\w-]+(?:\.[\w-]*)?"), MASK),
)
_SECRET_KEY = re.compile(rf"(?i){_NAMES}|[\w.-]*key-?data")


def masked(text: str) -> str:
    """The text without its secrets."""
    if _SUSPECT.search(text):
        for pattern, instead in _RULES:
            text = pattern.sub(instead, text)
    return text


def masked_value(value: Any) -> Any:
    """The same for a JSON-like value: its strings, at any depth, and values of keys that are
    named like a secret (``password``, ``token``…). Other objects become their text."""
    if type(value) is str:
        return masked(value)
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, Mapping):
        return {
            key: MASK if each and is_secret(str(key)) and isinstance(each, str | bytes)
            else masked_value(each)
            for key, each in value.items()
        }  # fmt: skip
    if isinstance(value, list | tuple):
        return [masked_value(each) for each in value]
    return masked(str(value))


@lru_cache(maxsize=512)
def is_secret(key: str) -> bool:
    """Whether the value of a key is a secret, by the key's name."""
    return _SECRET_KEY.fullmatch(key) is not None
