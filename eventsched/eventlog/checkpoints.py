"""Signed checkpoints: where a stream's log ended at a time, to be stored outside the database.

The owner of the database can rewrite a log and compute a consistent chain of new hashes, but cannot
sign it. A checkpoint stored where the owner cannot write fixes the stream's name and every record
before its position. Checkpoints are signed notes (https://c2sp.org/signed-note) with the lines of
https://c2sp.org/tlog-checkpoint. docs/verification.md describes their use;
``history/verify/verified_checkpoints.py`` checks checkpoints with separate code.
"""

import base64
import os
import shutil
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from eventsched.eventlog.chain import Head
from eventsched.eventlog.signing_keys import (
    note_key_hash,
    origin,
    raw,
    read_private_key,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


class Signer:
    """Signs checkpoints with an Ed25519 key."""

    def __init__(self, key: "Ed25519PrivateKey") -> None:
        self._key, self._public = key, raw(key.public_key())

    @classmethod
    def read(cls, path: Path, where: str) -> "Signer":
        """The signer of a private key in a PEM file (PKCS #8, not encrypted). ``where`` names the
        option or field. Raises InputError if the file cannot be read or holds no such key."""
        return cls(read_private_key(path, where))

    def sign(self, stream: str, head: Head, at: int) -> str:
        """The checkpoint of a stream that ended at ``head`` at the time ``at`` (µs since 1970): a
        note of six lines."""
        name = origin(stream)
        time = datetime.fromtimestamp(at // 1_000_000, UTC)
        text = (
            f"{name}\n{head.next}\n{base64.b64encode(head.hash).decode()}\n"
            f"at {time:%Y-%m-%dT%H:%M:%SZ}\n"
        )
        signature = note_key_hash(name, self._public) + self._key.sign(text.encode())
        return f"{text}\n— {name} {base64.b64encode(signature).decode()}\n"


def replace_notes(path: Path, text: bytes) -> None:
    """Replaces a file of checkpoints as a whole, so that a crash leaves the earlier file rather
    than half a note. Raises OSError; the file is unchanged then."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        with temporary.open("wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, temporary)
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
