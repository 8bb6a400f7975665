"""Signed checkpoints: where a stream's log ended at a time, to be stored outside the database.

The owner of the database can rewrite a log and compute a consistent chain of new hashes, but cannot
sign it. A checkpoint stored where the owner cannot write fixes the stream's name and every record
before its position. docs/verification.md describes its use;
``history/verify/verified_checkpoints.py`` checks checkpoints with separate code.
"""

import base64
import json
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventsched.domain.errors import InputError
from eventsched.eventlog.chain import Head

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FORMAT = 1
_REMEDY = "make one: openssl genpkey -algorithm ed25519 -out FILE"


class Signer:
    """Signs checkpoints with an Ed25519 key."""

    def __init__(self, key: "Ed25519PrivateKey") -> None:
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        self._key = key
        public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.key_id = sha256(public).hexdigest()[:16]
        """The first 16 hex digits of the SHA-256 of the public key."""

    @classmethod
    def read(cls, path: Path, where: str) -> "Signer":
        """The signer of a private key in a PEM file (PKCS #8, not encrypted). ``where`` names the
        option or field. Raises InputError if the file cannot be read or holds no such key."""
        try:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
            from cryptography.hazmat.primitives.serialization import load_pem_private_key
        except ImportError:
            raise InputError(
                where, "the package cryptography is missing", "install 'eventsched[cluster]'"
            ) from None
        try:
            key = load_pem_private_key(path.read_bytes(), None)
        except OSError as problem:
            message = f"{path} cannot be read: {problem.strerror}"
            raise InputError(where, message, _REMEDY) from problem
        except (ValueError, TypeError) as problem:
            message = f"{path} holds no private key that can be read"
            raise InputError(where, message, _REMEDY) from problem
        if not isinstance(key, Ed25519PrivateKey):
            raise InputError(where, f"{path} holds a key of another kind", _REMEDY)
        return cls(key)

    def sign(self, stream: str, head: Head, at: int, schema: str) -> dict[str, Any]:
        """The checkpoint of a stream that ended at ``head`` at the time ``at`` (µs since 1970);
        ``schema`` is the database's revision."""
        checkpoint: dict[str, Any] = {
            "format": FORMAT,
            "stream": stream,
            "position": head.next,
            "hash": head.hash.hex(),
            "at": f"{datetime.fromtimestamp(at // 1_000_000, UTC):%Y-%m-%dT%H:%M:%SZ}",
            "schema": schema,
            "key": self.key_id,
        }
        signature = self._key.sign(encoded(checkpoint).encode())
        return {**checkpoint, "signature": base64.b64encode(signature).decode()}


def encoded(checkpoint: dict[str, Any]) -> str:
    """Canonical JSON: sorted keys, no white space, UTF-8."""
    return json.dumps(checkpoint, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
