"""A leader's checkpoints: when one is signed, and where it goes."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from structlog.testing import capture_logs

from eventsched.domain.errors import InputError
from eventsched.eventlog.chain import Head
from eventsched.eventlog.checkpoints import Signer, replace_notes
from eventsched.eventlog.signing_keys import key_id, raw
from eventsched.history.verify.verified_checkpoints import Checkpoint, read_checkpoints
from eventsched.process import settings
from eventsched.runtime.live import checkpoint_signing
from eventsched.runtime.live.checkpoint_signing import Checkpointer
from eventsched.scheduling.config.decoding import RuleError

KEY = Ed25519PrivateKey.generate()


class Observer:
    """Keeps what a checkpointer reports."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.failures = 0

    def checkpoint_signed(self, note: str) -> None:
        """A checkpoint was signed."""
        self.notes.append(note)

    def checkpoint_unwritten(self) -> None:
        """A checkpoint could not be written."""
        self.failures += 1


def checkpointer(
    folder: Path | None, times: list[float], observer: Observer | None = None
) -> Checkpointer:
    """A checkpointer of stream s that signs every 10 s; each call takes the next of ``times``."""
    return Checkpointer(
        Signer(KEY), "s", every=10, folder=folder, clock=lambda: 86_400_000_000,
        monotonic=lambda: times.pop(0), observer=observer,
    )  # fmt: skip


def test_once_an_interval(tmp_path: Path) -> None:
    """A log line each, and a file of all."""

    async def run() -> list[dict[str, Any]]:
        made = checkpointer(tmp_path, [100, 105, 111])
        with capture_logs() as logs:
            for position in (5, 6, 7):
                made.committed(Head(position, bytes([position]) * 32))
                await made.close()
        return [dict(each) for each in logs]

    logs = asyncio.run(run())
    public = KEY.public_key()
    signed = [
        Checkpoint("s", position, bytes([position]).hex() * 32, "1970-01-02T00:00:00Z",
                   key_id(raw(public)))
        for position in (5, 7)
    ]  # fmt: skip
    assert read_checkpoints(tmp_path / "s.checkpoints", [public]) == signed
    lines = tmp_path / "lines"
    lines.write_text("".join(json.dumps(each) + "\n" for each in logs))
    assert read_checkpoints(lines, [public]) == signed


def test_a_file_keeps_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole checkpoints only: what a crash left of one is dropped."""
    monkeypatch.setattr(checkpoint_signing, "_MAX_KEPT", 3)
    file = tmp_path / "s.checkpoints"

    async def run(*positions: int) -> None:
        made = checkpointer(tmp_path, [100.0 * position for position in positions])
        for position in positions:
            made.committed(Head(position, bytes(32)))
            await made.close()

    asyncio.run(run(1, 2))
    file.write_text(file.read_text() + "eventsched/s\n3\n")
    asyncio.run(run(4))
    assert [each.position for each in read_checkpoints(file, [KEY.public_key()])] == [1, 2, 4]
    asyncio.run(run(5, 6))
    assert [each.position for each in read_checkpoints(file, [KEY.public_key()])] == [4, 5, 6]
    assert [each.name for each in tmp_path.iterdir()] == [file.name]


def test_a_folder_that_is_gone_is_logged(tmp_path: Path) -> None:
    """And counted. The log goes on: later checkpoints are signed and written."""
    observer, folder = Observer(), tmp_path / "gone"

    async def run() -> list[Any]:
        made = checkpointer(folder, [100, 200], observer)
        with capture_logs() as logs:
            made.committed(Head(5, bytes(32)))
            await made.close()
            folder.mkdir()
            made.committed(Head(6, bytes(32)))
            await made.close()
        return logs

    logs = asyncio.run(run())
    assert [each["event"] for each in logs] == [
        "checkpoint",
        "a checkpoint cannot be written",
        "checkpoint",
    ]
    assert observer.failures == 1
    assert observer.notes == [each["checkpoint"] for each in logs if "checkpoint" in each]
    assert (folder / "s.checkpoints").read_text() == observer.notes[1]


def test_a_file_is_replaced_or_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "checkpoints"
    file.write_text("first\n")
    file.chmod(0o640)
    replace_notes(file, b"first\nsecond\n")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("first\nsecond\n", 0o640)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        replace_notes(file, b"third\n")
    assert file.read_text() == "first\nsecond\n"
    assert list(tmp_path.iterdir()) == [file]


def test_the_settings_are_checked() -> None:
    """A folder needs a key, an interval is above zero."""
    with pytest.raises(RuleError):
        settings.CheckpointSettings(to="/somewhere")
    with pytest.raises(RuleError):
        settings.CheckpointSettings(key="k", every="0s")


def test_keys_that_cannot_sign(tmp_path: Path) -> None:
    """No file, no key."""
    with pytest.raises(InputError, match=r"checkpoints\.key.*cannot be read"):
        Signer.read(tmp_path / "none", "checkpoints.key")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(InputError, match="holds no private key"):
        Signer.read(tmp_path / "text", "checkpoints.key")
