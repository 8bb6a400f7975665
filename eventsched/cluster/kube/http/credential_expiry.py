"""Whether credentials have expired. A server that refuses them does not say so."""

import base64
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from cryptography import x509


class _Claims(msgspec.Struct):
    exp: float | None = None


def of_certificate(file: str | None) -> str:
    """``the client certificate expired at …``, or ""."""
    if not file:
        return ""
    try:
        certificate = x509.load_pem_x509_certificate(Path(file).read_bytes())
    except (OSError, ValueError):
        return ""
    return _expired("client certificate", certificate.not_valid_after_utc.timestamp())


def of_token(authorization: str | None) -> str:
    """``the token expired at …`` if it is a JWT that has expired, or ""."""
    parts = (authorization or "").partition(" ")[2].split(".")
    if len(parts) != 3:
        return ""
    try:
        body = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        ends = msgspec.json.decode(body, type=_Claims).exp
    except (ValueError, msgspec.DecodeError):
        return ""
    return _expired("token", ends)


def _expired(credential: str, ends: float | None) -> str:
    if ends is None or ends > time.time():
        return ""
    return f"the {credential} expired at {datetime.fromtimestamp(ends, UTC):%Y-%m-%dT%H:%M:%SZ}"
