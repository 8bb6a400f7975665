"""Reading signed checkpoints: notes, log lines, and the JSON form of earlier versions."""

import json
from base64 import b64decode, b64encode
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from eventsched.eventlog.chain import Head
from eventsched.eventlog.checkpoints import Signer
from eventsched.eventlog.signing_keys import note_key_hash, origin, raw, verifier_key
from eventsched.history.verify.verified_checkpoints import (
    Checkpoint,
    CheckpointError,
    read_checkpoints,
)

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32))
HEAD = Head(15307, bytes(range(32)))
AT = 1_772_366_400_000_000
NOTE = """\
eventsched/a%20b%2B%C3%BC
15307
AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=
at 2026-03-01T12:00:00Z

— eventsched/a%20b%2B%C3%BC AKEpcvO3LvALmog2MVSHz0Oq4LeOV+SBRdF8yxpWgVUXjOCmE+GbIicSrLeNiq92osq6rondSWsCS/uf1f+39iOJsQQ=
"""  # noqa: E501
"""golang.org/x/mod/sumdb/note (v0.42.0) and github.com/transparency-dev/formats/log (v0.1.1) verify
this note with VERIFIER_KEY."""
VERIFIER_KEY = "eventsched/a%20b%2B%C3%BC+00a12972+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4"
JSON_FORM = (
    '{"at":"2026-03-01T12:00:00Z","format":1,"hash":"000102030405060708090a0b0c0d0e0f10111213141516'
    '1718191a1b1c1d1e1f","key":"56475aa75463474c","position":15307,"schema":"0007","signature":"'
    '2MAgbLHvJ4NmMN05uQLoGiAonon4s8Whfk1p03Qt7DGabkffR/xfakOcD0Fwqoi8pp2QK6dL/5wo/CZ8Fq7ICA==",'
    '"stream":"s"}\n'
)
"""What earlier versions wrote."""


def read(folder: Path, text: str, *keys: Ed25519PrivateKey) -> list[Checkpoint]:
    """The checkpoints of a text; by default of KEY."""
    file = folder / "checkpoints"
    file.write_text(text, encoding="utf-8")
    return read_checkpoints(file, [key.public_key() for key in keys or (KEY,)])


def checkpoint(stream: str, key: str = "56475aa75463474c") -> Checkpoint:
    """What the texts above say."""
    return Checkpoint(stream, 15307, bytes(range(32)).hex(), "2026-03-01T12:00:00Z", key)


def test_a_note_is_what_other_implementations_verify(tmp_path: Path) -> None:
    assert Signer(KEY).sign("a b+ü", HEAD, AT) == NOTE
    assert verifier_key(origin("a b+ü"), raw(KEY.public_key())) == VERIFIER_KEY
    assert read(tmp_path, NOTE) == [checkpoint("a b+ü")]


def test_every_form_in_one_file(tmp_path: Path) -> None:
    """With blank lines between them, or without."""
    line = json.dumps({"event": "checkpoint", "level": "info", "checkpoint": NOTE})
    logged_json = json.dumps({"event": "checkpoint", "checkpoint": json.loads(JSON_FORM)})
    text = f"{NOTE}{NOTE}{JSON_FORM}\n{NOTE}\n{line}\n{logged_json}\n{NOTE}"
    streams = ["a b+ü", "a b+ü", "s", "a b+ü", "a b+ü", "s", "a b+ü"]
    assert read(tmp_path, text) == [checkpoint(stream) for stream in streams]


def test_keys_that_changed(tmp_path: Path) -> None:
    """Each checkpoint names the key that signed it."""
    text = NOTE + Signer(OTHER).sign("s", HEAD, AT)
    found = read(tmp_path, text, OTHER, KEY)
    assert found == [checkpoint("a b+ü"), checkpoint("s", "139e3940e64b5491")]
    with pytest.raises(CheckpointError, match=r"line 7: was signed by another key, eventsched/s\+"):
        read(tmp_path, text)


def test_signatures_of_others_and_lines_of_others_are_ignored(tmp_path: Path) -> None:
    """A witness signs as well, and a later version may say more."""
    witness = "— witness.example/w " + b64encode(bytes(76)).decode() + "\n"
    assert read(tmp_path, NOTE + witness) == [checkpoint("a b+ü")]
    text = "eventsched/s\n0\n" + b64encode(bytes(32)).decode() + "\nmore\n"
    name, public = "eventsched/s", raw(KEY.public_key())
    signature = b64encode(note_key_hash(name, public) + KEY.sign(text.encode())).decode()
    [found] = read(tmp_path, f"{text}\n— {name} {signature}\n")
    assert (found.position, found.at, found.name) == (0, "", "the checkpoint of 0")


def signed(text: str, name: str = "eventsched/s") -> str:
    """A note of any text, with a signature that is right."""
    content = note_key_hash(name, raw(KEY.public_key())) + KEY.sign(text.encode())
    return f"{text}\n— {name} {b64encode(content).decode()}\n"


def flipped() -> str:
    """NOTE with another last byte of its signature."""
    text, _, encoded = NOTE.rstrip("\n").rpartition(" ")
    content = bytearray(b64decode(encoded))
    content[-1] ^= 1
    return f"{text} {b64encode(content).decode()}\n"


ZERO = b64encode(bytes(32)).decode()
BAD = [
    (NOTE.replace("15307", "15308"), "the signature is wrong: it was changed"),
    (NOTE.replace("2026", "2025"), "the signature is wrong: it was changed"),
    (NOTE.replace("eventsched/a", "eventsched/c"), "was signed by another key"),
    (flipped(), "the signature is wrong: it was changed"),
    (NOTE[:120], "is not a signature"),
    (NOTE.replace("\n\n", "\n"), "it has no signature"),
    (NOTE[: NOTE.index("—")], "it has no signature"),
    (NOTE[:-20] + "\n", "is not a signature"),
    (signed(f"eventsched/s\n01\n{ZERO}\n"), "its size is '01'"),
    (signed(f"eventsched/s\n٣\n{ZERO}\n"), "its size is '٣'"),
    (signed(f"eventsched/s\n1\n{ZERO[:20]}\n"), "its hash is"),
    (signed("eventsched/s\n1\n"), "fewer than three lines"),
    (signed(f"example.com/s\n1\n{ZERO}\n", "example.com/s"), "not a checkpoint of a stream"),
    (signed(f"eventsched/a b\n1\n{ZERO}\n", "eventsched/a b"), "not a checkpoint of a stream"),
    (signed(f"eventsched/s\n1\n{ZERO}\n", "eventsched/other"), "was signed by another key"),
    (JSON_FORM.replace("15307", "15308"), "the signature is wrong: it was changed"),
    (JSON_FORM.replace("56475aa7", "00000000"), "was signed by another key"),
    (JSON_FORM[:50], "is not a checkpoint"),
    ("", "holds no checkpoint"),
]


@pytest.mark.parametrize(("text", "problem"), BAD)
def test_what_is_not_a_checkpoint(tmp_path: Path, text: str, problem: str) -> None:
    """It is named by file and line, also after one that is fine."""
    with pytest.raises(CheckpointError, match=problem):
        read(tmp_path, text)
    if text:
        with pytest.raises(CheckpointError, match="checkpoints, line 7: "):
            read(tmp_path, NOTE + text)
