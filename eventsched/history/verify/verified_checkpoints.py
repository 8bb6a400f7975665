"""Signed checkpoints for verification: whether a log still is what it was when they were made.

Written from docs/verification.md; shares no code with what signs them.
"""

import json
from base64 import b64decode
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

Report = Callable[[int, str], None]


class Checkpoint(NamedTuple):
    """What a checkpoint says: the stream had ``position`` records at a time (ISO 8601), and the
    last batch this hash."""

    stream: str
    position: int
    hash: str
    at: str


class CheckpointError(Exception):
    """A checkpoint that cannot be used. ``where`` names the file and line."""

    def __init__(self, where: str, problem: str) -> None:
        self.where, self.problem = where, problem
        super().__init__(f"{where}: {problem}")


def read_public_key(path: Path) -> "Ed25519PublicKey":
    """The Ed25519 key of a PEM file. Raises CheckpointError."""
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    except ImportError:
        raise CheckpointError(str(path), "the package cryptography is missing") from None
    try:
        key = load_pem_public_key(path.read_bytes())
    except OSError as problem:
        raise CheckpointError(str(path), f"cannot be read: {problem.strerror}") from problem
    except ValueError as problem:
        raise CheckpointError(str(path), "holds no public key") from problem
    if not isinstance(key, Ed25519PublicKey):
        raise CheckpointError(str(path), "holds a key of another kind, not Ed25519")
    return key


def read_checkpoints(path: Path, key: "Ed25519PublicKey") -> list[Checkpoint]:
    """The checkpoints of a file, one JSON object a line; one of the process's log lines has it in
    its field ``checkpoint``. Raises CheckpointError, also for a signature that is not the key's."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "is no UTF-8 text"
        raise CheckpointError(str(path), f"cannot be read: {reason}") from problem
    found = [
        _checked(f"{path}, line {number}", line, key)
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]
    if not found:
        raise CheckpointError(str(path), "holds no checkpoint")
    return found


def _checked(where: str, line: str, key: "Ed25519PublicKey") -> Checkpoint:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    try:
        said: dict[str, Any] = json.loads(line)
        said = dict(said.get("checkpoint", said))
        signature = b64decode(said.pop("signature"), validate=True)
        if said["format"] != 1:
            raise CheckpointError(where, f"format {said['format']!r}, expected 1")
        found = Checkpoint(
            str(said["stream"]), int(said["position"]), str(said["hash"]), str(said["at"])
        )
        signed_by = str(said["key"])
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise CheckpointError(where, f"is no checkpoint ({problem!r})") from problem
    public = key.public_bytes(Encoding.Raw, PublicFormat.Raw)
    if signed_by != sha256(public).hexdigest()[:16]:
        raise CheckpointError(where, f"was signed by another key, {signed_by}")
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    try:
        key.verify(signature, text.encode())
    except InvalidSignature:
        raise CheckpointError(where, "the signature is wrong: it was changed") from None
    return found


class CheckpointCheck:
    """The checkpoints of one stream against its chain."""

    def __init__(self, checkpoints: Iterable[Checkpoint], report: Report) -> None:
        self._open = sorted(set(checkpoints), key=lambda found: found.position)
        self._report = report
        self._matched = 0

    def passed(self, end: int, digest: bytes) -> None:
        """A batch ends at ``end`` with that hash."""
        while self._open and self._open[0].position <= end:
            found = self._open.pop(0)
            if found.position < end:
                said = "no batch ends there any more"
            elif found.hash != digest.hex():
                said = f"the hash there is {digest.hex()} now, expected {found.hash}"
            else:
                self._matched = end
                continue
            self._report(
                found.position,
                f"{said}: records from {self._matched} on were written anew after the checkpoint "
                f"of {found.at}",
            )

    def finish(self, end: int) -> None:
        """The log ends at ``end``."""
        for found in self._open:
            self._report(
                end,
                f"the log ends at {end}, expected {found.position} or more by the checkpoint of "
                f"{found.at}: its end was cut off, or an older backup restored",
            )
