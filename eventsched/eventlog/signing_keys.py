"""Ed25519 keys that sign checkpoints, as PEM files, and their names in signed notes.

A key's name in a note is the note's origin, so one key file serves every stream. See
https://c2sp.org/signed-note for key ids and docs/verification.md for the use.
"""

import base64
import os
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from eventsched.domain.errors import InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

_ED25519 = b"\x01"
"""The signature type of Ed25519 in signed notes."""
_REMEDY = "make one: eventsched keys generate FILE"


def origin(stream: str) -> str:
    """The first line of a stream's notes, and the key's name in them. Characters of the stream's
    name that a key's name may not have are percent-encoded."""
    return f"eventsched/{quote(stream, safe='')}"


def note_key_hash(name: str, public: bytes) -> bytes:
    """The four bytes that stand for a key in a note: of its name and its 32 bytes."""
    return sha256(name.encode() + b"\n" + _ED25519 + public).digest()[:4]


def verifier_key(name: str, public: bytes) -> str:
    """A public key in the text form of verifiers of signed notes."""
    key = base64.b64encode(_ED25519 + public).decode()
    return f"{name}+{note_key_hash(name, public).hex()}+{key}"


def key_id(public: bytes) -> str:
    """A name of the key that does not depend on the stream: the first 16 hex digits of the SHA-256
    of its 32 bytes."""
    return sha256(public).hexdigest()[:16]


def raw(key: "Ed25519PublicKey") -> bytes:
    """The 32 bytes of a public key."""
    return key.public_bytes_raw()


def pem(key: "Ed25519PublicKey") -> str:
    """A public key as a PEM block."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def generate(path: Path) -> "Ed25519PublicKey":
    """Writes a new private key to a file that only its owner may read (mode 0600), and returns the
    public key. Raises InputError if the file exists or cannot be written."""
    _require_cryptography(str(path))
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    key = Ed25519PrivateKey.generate()
    content = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InputError(str(path), "exists", "name a new file") from None
    except OSError as problem:
        message = f"cannot be written: {problem.strerror}"
        raise InputError(str(path), message, "name a file in a folder of yours") from problem
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as problem:
        path.unlink(missing_ok=True)
        message = f"cannot be written: {problem.strerror}"
        raise InputError(str(path), message, "make room, and try again") from problem
    return key.public_key()


def read_private_key(path: Path, where: str) -> "Ed25519PrivateKey":
    """The key of a PEM file (PKCS #8, not encrypted). ``where`` names the option or field. Raises
    InputError if the file cannot be read or holds no such key."""
    _require_cryptography(where)
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    content = _content(path, where)
    try:
        key = load_pem_private_key(content, None)
    except (ValueError, TypeError) as problem:
        message = f"{path} holds no private key that can be read"
        raise InputError(where, message, _REMEDY) from problem
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(where, f"{path} holds a key of another kind", _REMEDY)
    return key


def read_public_key(path: Path) -> "Ed25519PublicKey":
    """The public key of a PEM file that holds it or its private key. Raises InputError."""
    where = str(path)
    _require_cryptography(where)
    content = _content(path, where)
    if b"PRIVATE KEY-----" in content:
        return read_private_key(path, where).public_key()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(content)
    except ValueError as problem:
        raise InputError(where, "holds no key that can be read", _REMEDY) from problem
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(where, "holds a key of another kind", _REMEDY)
    return key


def _content(path: Path, where: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        message = f"{path} cannot be read: {problem.strerror}"
        raise InputError(where, message, _REMEDY) from problem


def _require_cryptography(where: str) -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise InputError(
            where, "the package cryptography is missing", "install 'eventsched[cluster]'"
        ) from None
