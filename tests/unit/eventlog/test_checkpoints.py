"""A leader's checkpoints: when one is signed, and where it goes."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from structlog.testing import capture_logs

from eventsched.domain.errors import InputError
from eventsched.eventlog.chain import Head
from eventsched.eventlog.checkpoints import Signer
from eventsched.history.verify.verified_checkpoints import (
    Checkpoint,
    read_checkpoints,
    read_public_key,
)
from eventsched.process import settings
from eventsched.runtime.live.checkpoint_signing import Checkpointer
from eventsched.scheduling.config.decoding import RuleError

KEY = Ed25519PrivateKey.generate()


def checkpointer(folder: Path | None, times: list[float]) -> Checkpointer:
    """One that signs every 10 s; each call takes the next of ``times``."""
    return Checkpointer(
        Signer(KEY), "s", "0007", every=10, folder=folder, clock=lambda: 86_400_000_000,
        monotonic=lambda: times.pop(0),
    )  # fmt: skip


def test_once_an_interval_and_the_newest_is_kept(tmp_path: Path) -> None:
    """A log line each, and one file."""

    async def run() -> list[dict[str, Any]]:
        made = checkpointer(tmp_path, [100, 105, 111])
        with capture_logs() as logs:
            for position in (5, 6, 7):
                made.committed(Head(position, bytes([position]) * 32))
                await made.close()
        return [dict(each) for each in logs]

    logs = asyncio.run(run())
    assert [each["checkpoint"]["position"] for each in logs] == [5, 7]
    public = tmp_path / "key.pub"
    public.write_bytes(
        KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    found = read_checkpoints(tmp_path / "s.jsonl", read_public_key(public))
    assert found == [Checkpoint("s", 7, "07" * 32, "1970-01-02T00:00:00Z")]
    lines = tmp_path / "lines"
    lines.write_text("".join(json.dumps(each) + "\n" for each in logs))
    assert [each.position for each in read_checkpoints(lines, read_public_key(public))] == [5, 7]


def test_a_folder_that_is_gone_is_logged(tmp_path: Path) -> None:
    """The log goes on."""

    async def run() -> list[Any]:
        made = checkpointer(tmp_path / "gone", [100])
        with capture_logs() as logs:
            made.committed(Head(5, bytes(32)))
            await made.close()
        return logs

    assert [each["event"] for each in asyncio.run(run())] == [
        "checkpoint",
        "a checkpoint cannot be written",
    ]


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
