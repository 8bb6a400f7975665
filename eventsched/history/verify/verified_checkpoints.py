"""Verifies signed checkpoints: that a log still begins with the records it had when they were made.

Written from https://c2sp.org/signed-note, https://c2sp.org/tlog-checkpoint and
docs/verification.md. It shares no code with eventlog/checkpoints.py, which signs them.
"""

import json
import re
import sys
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

STANDARD_INPUT = Path("-")
"""The path that stands for standard input."""
Report = Callable[[int, str], None]
_SIGNATURE = "— "
"""The beginning of a signature's line: an em dash and a space."""
_ORIGIN = "eventsched/"
_SIZE = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)
_AT = "at "
_LEAST_LINES = 3
_HASH_BYTES, _KEY_HASH_BYTES = 32, 4


class Checkpoint(NamedTuple):
    """A checkpoint: at the time ``at`` (ISO 8601; "" if it says none), the stream had ``position``
    records and its last batch had this hash. ``key`` is the id of the key that signed it."""

    stream: str
    position: int
    hash: str
    at: str
    key: str

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"the checkpoint of {self.at}" if self.at else f"the checkpoint of {self.position}"


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


def read_checkpoints(path: Path, keys: Sequence["Ed25519PublicKey"]) -> list[Checkpoint]:
    """The checkpoints of a file or of STANDARD_INPUT: notes one after the other, log lines of the
    process that have one in their field ``checkpoint``, and checkpoints in the earlier JSON form.
    Raises CheckpointError, also for a signature by another key."""
    name = "standard input" if path == STANDARD_INPUT else str(path)
    try:
        if path == STANDARD_INPUT:
            lines = sys.stdin.buffer.read().decode().split("\n")
        else:
            lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "is not UTF-8 text"
        raise CheckpointError(name, f"cannot be read: {reason}") from problem
    checkpoints = []
    for number, parts in _parts(lines):
        where = f"{name}, line {number}"
        is_json = parts[0].startswith("{")
        checkpoints.append(_of_json(where, parts[0], keys) if is_json else _of(where, parts, keys))
    if not checkpoints:
        raise CheckpointError(name, "holds no checkpoint")
    return checkpoints


def _parts(lines: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
    """The lines of each checkpoint, with the number of the first: one line of JSON, or a note up to
    its last signature. Blank lines between them are passed over."""
    end = 0
    while end < len(lines):
        begin = end
        end += 1
        if not lines[begin].strip():
            continue
        if not lines[begin].startswith("{"):
            while end < len(lines) and lines[end]:
                end += 1
            end += 1
            while end < len(lines) and lines[end].startswith(_SIGNATURE):
                end += 1
        yield begin + 1, lines[begin:end]


def _of(where: str, lines: Sequence[str], keys: Sequence["Ed25519PublicKey"]) -> Checkpoint:
    """The checkpoint of a note."""
    try:
        note = _read_note(lines, keys)
    except _NoteError as problem:
        raise CheckpointError(where, str(problem)) from problem
    return Checkpoint(note.stream, note.size, note.hash, note.at, _key_id(note.key))


def _of_json(where: str, line: str, keys: Sequence["Ed25519PublicKey"]) -> Checkpoint:
    """The checkpoint of a log line or of the earlier JSON form."""
    from cryptography.exceptions import InvalidSignature

    try:
        fields: Any = json.loads(line)
        fields = fields.get("checkpoint", fields)
        if isinstance(fields, str):
            return _of(where, fields.removesuffix("\n").split("\n"), keys)
        fields = dict(fields)
        signature = b64decode(fields.pop("signature"), validate=True)
        if fields["format"] != 1:
            raise CheckpointError(where, f"format {fields['format']!r}, expected 1")
        checkpoint = Checkpoint(
            str(fields["stream"]), int(fields["position"]), str(fields["hash"]),
            str(fields["at"]), str(fields["key"]),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise CheckpointError(where, f"is not a checkpoint ({problem!r})") from problem
    key = next((key for key in keys if _key_id(key) == checkpoint.key), None)
    if key is None:
        raise CheckpointError(where, f"was signed by another key, {checkpoint.key}")
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    try:
        key.verify(signature, text.encode())
    except InvalidSignature:
        raise CheckpointError(where, "the signature is wrong: it was changed") from None
    return checkpoint


def _key_id(key: "Ed25519PublicKey") -> str:
    return sha256(key.public_bytes_raw()).hexdigest()[:16]


class _Note(NamedTuple):
    """The content of a note, and the key whose signature was verified."""

    stream: str
    size: int
    hash: str
    at: str
    key: "Ed25519PublicKey"


class _NoteError(Exception):
    """A note that is malformed, or not signed by a known key."""


def _read_note(lines: Sequence[str], keys: Sequence["Ed25519PublicKey"]) -> _Note:
    """The content of a note of these lines, without their ends. At least one of the keys has to
    have signed it. Raises _NoteError."""
    blank = lines.index("") if "" in lines else len(lines)
    text, signatures = lines[:blank], lines[blank + 1 :]
    if len(text) < _LEAST_LINES or not signatures:
        raise _NoteError("is not a checkpoint: it has no signature, or fewer than three lines")
    origin, size, digest, *extensions = text
    stream = unquote(origin.removeprefix(_ORIGIN))
    if not origin.startswith(_ORIGIN) or origin != _ORIGIN + quote(stream, safe=""):
        raise _NoteError(f"is not a checkpoint of a stream: its origin is {origin!r}")
    if not _SIZE.fullmatch(size):
        raise _NoteError(f"is not a checkpoint: its size is {size!r}")
    key = _signer(origin, "".join(f"{line}\n" for line in text), signatures, keys)
    try:
        hashed = b64decode(digest, validate=True)
    except ValueError:
        hashed = b""
    if len(hashed) != _HASH_BYTES:
        raise _NoteError(f"is not a checkpoint: its hash is {digest!r}")
    at = next((line.removeprefix(_AT) for line in extensions if line.startswith(_AT)), "")
    return _Note(stream, int(size), hashed.hex(), at, key)


def _signer(
    name: str, text: str, signatures: Sequence[str], keys: Sequence["Ed25519PublicKey"]
) -> "Ed25519PublicKey":
    """The first of the known keys that signed the text. Signatures of others are ignored, as the
    specification says. Raises _NoteError, also if a known key's signature is wrong."""
    from cryptography.exceptions import InvalidSignature

    known = {_key_hash(name, key): key for key in keys}
    signed_by, others = None, []
    for line in signatures:
        signer, _, encoded = line.removeprefix(_SIGNATURE).partition(" ")
        try:
            content = b64decode(encoded, validate=True)
        except ValueError:
            content = b""
        if not line.startswith(_SIGNATURE) or len(content) <= _KEY_HASH_BYTES:
            raise _NoteError(f"is not a checkpoint: {line!r} is not a signature")
        key = known.get(content[:_KEY_HASH_BYTES]) if signer == name else None
        if key is None:
            others.append(f"{signer}+{content[:_KEY_HASH_BYTES].hex()}")
            continue
        try:
            key.verify(content[_KEY_HASH_BYTES:], text.encode())
        except InvalidSignature:
            raise _NoteError("the signature is wrong: it was changed") from None
        signed_by = signed_by or key
    if signed_by is None:
        raise _NoteError(f"was signed by another key, {', '.join(others)}")
    return signed_by


def _key_hash(name: str, key: "Ed25519PublicKey") -> bytes:
    return sha256(name.encode() + b"\n\x01" + key.public_bytes_raw()).digest()[:_KEY_HASH_BYTES]


class CheckpointCheck:
    """Compares the checkpoints of one stream with its chain."""

    def __init__(self, checkpoints: Iterable[Checkpoint], report: Report, begin: int = 0) -> None:
        """Checkpoints before position ``begin``, where the log begins, are left out."""
        own = (checkpoint for checkpoint in checkpoints if checkpoint.position >= begin)
        self._open = sorted(set(own), key=lambda checkpoint: checkpoint.position)
        self._report = report
        self.matched: list[Checkpoint] = []
        """Those that agree with the chain, in order of position."""

    def end_of_batch(self, end: int, digest: bytes) -> None:
        """Checks the checkpoints up to ``end``, where a batch with the hash ``digest`` ends."""
        while self._open and self._open[0].position <= end:
            checkpoint = self._open.pop(0)
            if checkpoint.position < end:
                problem = "no batch ends there any more"
            elif checkpoint.hash != digest.hex():
                problem = f"the hash there is {digest.hex()} now, expected {checkpoint.hash}"
            else:
                self.matched.append(checkpoint)
                continue
            matched = self.matched[-1].position if self.matched else 0
            self._report(
                checkpoint.position,
                f"{problem}: records from {matched} on were rewritten after {checkpoint.name}",
            )

    def finish(self, end: int) -> None:
        """Reports the checkpoints after the end of the log."""
        for checkpoint in self._open:
            self._report(
                end,
                f"the log ends at {end}, expected {checkpoint.position} or more by "
                f"{checkpoint.name}: its end was cut off, or an older backup restored",
            )
