"""ETags of responses, and whether a request names one (RFC 9110, 8.8.3 and 13.1.2)."""

from hashlib import blake2b


def entity_tag(body: bytes) -> str:
    """The ETag of a body."""
    return f'"{blake2b(body, digest_size=16).hexdigest()}"'


def names_tag(header: str | None, tag: str) -> bool:
    """Whether an If-None-Match names the ETag. Tags are compared as weak ones, because compressing
    proxies make them so."""
    if header is None:
        return False
    named = [part.strip().removeprefix("W/") for part in header.split(",")]
    return tag in named or "*" in named
