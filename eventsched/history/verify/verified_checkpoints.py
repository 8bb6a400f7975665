"""Verifies signed checkpoints: that a log still begins with the records it had when they were made.

Written from docs/verification.md. It shares no code with eventlog/checkpoints.py, which signs them.
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
    """A checkpoint: at the time ``at`` (ISO 8601), the stream had ``position`` records and its last
    batch had this hash."""

    stream: str
    position: int
    hash: str
    at: str


class CheckpointError(Exception):
    """An unusable checkpoint. ``where`` names the file and line."""

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
    """The checkpoints of a file, one JSON object per line; log lines of the process have it in
    their field ``checkpoint``. Raises CheckpointError, also for a signature by another key."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "is not UTF-8 text"
        raise CheckpointError(str(path), f"cannot be read: {reason}") from problem
    checkpoints = [
        _parse(f"{path}, line {number}", line, key)
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]
    if not checkpoints:
        raise CheckpointError(str(path), "holds no checkpoint")
    return checkpoints


def _parse(where: str, line: str, key: "Ed25519PublicKey") -> Checkpoint:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    try:
        fields: dict[str, Any] = json.loads(line)
        fields = dict(fields.get("checkpoint", fields))
        signature = b64decode(fields.pop("signature"), validate=True)
        if fields["format"] != 1:
            raise CheckpointError(where, f"format {fields['format']!r}, expected 1")
        checkpoint = Checkpoint(
            str(fields["stream"]), int(fields["position"]), str(fields["hash"]), str(fields["at"])
        )
        signed_by = str(fields["key"])
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise CheckpointError(where, f"is not a checkpoint ({problem!r})") from problem
    public = key.public_bytes(Encoding.Raw, PublicFormat.Raw)
    if signed_by != sha256(public).hexdigest()[:16]:
        raise CheckpointError(where, f"was signed by another key, {signed_by}")
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    try:
        key.verify(signature, text.encode())
    except InvalidSignature:
        raise CheckpointError(where, "the signature is wrong: it was changed") from None
    return checkpoint


class CheckpointCheck:
    """Compares the checkpoints of one stream with its chain."""

    def __init__(self, checkpoints: Iterable[Checkpoint], report: Report) -> None:
        self._open = sorted(set(checkpoints), key=lambda checkpoint: checkpoint.position)
        self._report = report
        self._matched = 0

    def end_of_batch(self, end: int, digest: bytes) -> None:
        """Checks the checkpoints up to ``end``, where a batch with the hash ``digest`` ends."""
        while self._open and self._open[0].position <= end:
            checkpoint = self._open.pop(0)
            if checkpoint.position < end:
                problem = "no batch ends there any more"
            elif checkpoint.hash != digest.hex():
                problem = f"the hash there is {digest.hex()} now, expected {checkpoint.hash}"
            else:
                self._matched = end
                continue
            self._report(
                checkpoint.position,
                f"{problem}: records from {self._matched} on were rewritten after the "
                f"checkpoint of {checkpoint.at}",
            )

    def finish(self, end: int) -> None:
        """Reports the checkpoints after the end of the log."""
        for checkpoint in self._open:
            self._report(
                end,
                f"the log ends at {end}, expected {checkpoint.position} or more by the checkpoint "
                f"of {checkpoint.at}: its end was cut off, or an older backup restored",
            )
