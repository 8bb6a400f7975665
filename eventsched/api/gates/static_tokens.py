"""Bearer tokens from a file, which is read again when it has changed.

tokens:
- name: grafana
  token: 4f1c…          # or sha256: the token's SHA-256 in hex
"""

import os
import time
from collections.abc import Callable
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path

import msgspec
import structlog
import yaml
from starlette.requests import Request

from eventsched.api.gates.gate import RefusedError, token_of
from eventsched.domain.errors import InputError
from eventsched.questions.visibility import EVERYTHING, Visibility

_MOST_BYTES = 1 << 20
_LOOK_SECONDS = 1.0
"""Seconds between two looks whether the file has changed."""
_SHORTEST = 16
"""Characters of a token at least."""

logger = structlog.stdlib.get_logger(__name__)


class _Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    token: str = ""
    sha256: str = ""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tokens: tuple[_Token, ...]


class StaticTokens:
    """A gate for the holders of the tokens of a file, who see everything. If the file cannot be
    read any more, the tokens that were read last stay."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises InputError if the file cannot be read or is wrong."""
        self._path, self._clock = path, clock
        self._facts = _facts(path)
        self._holders = read_tokens(path)
        self._look_at = clock() + _LOOK_SECONDS

    async def visibility(self, request: Request) -> Visibility:
        """See eventsched.api.gates.gate.Gate."""
        token = token_of(request)
        self._follow()
        if sha256(token.encode()).hexdigest() not in self._holders:
            raise RefusedError(HTTPStatus.UNAUTHORIZED, "the bearer token is unknown")
        return EVERYTHING

    def _follow(self) -> None:
        if self._clock() < self._look_at:
            return
        self._look_at = self._clock() + _LOOK_SECONDS
        facts = _facts(self._path)
        if facts == self._facts:
            return
        self._facts = facts
        try:
            self._holders = read_tokens(self._path)
        except InputError as problem:
            logger.warning("the tokens stay as they were", problem=str(problem))
        else:
            logger.info("the tokens were read again", tokens=len(self._holders))


def _facts(path: Path) -> tuple[int, ...]:
    """What changes when the file does; empty if it is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_size


def read_tokens(path: Path) -> dict[str, str]:
    """The names of the holders by the SHA-256 of their tokens. Raises InputError."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as problem:
        reason = problem.strerror or "cannot be read"
        raise InputError(str(path), f"cannot be read ({reason})", "name a readable file") from None
    if len(content) > _MOST_BYTES:
        raise InputError(str(path), "is larger than 1 MiB", "name a file with tokens")
    try:
        file_content = msgspec.convert(yaml.safe_load(content), _File)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as problem:
        reason = " ".join(str(problem).split())[:200]
        remedy = "write `tokens:` with a list of `name` and `token` (or `sha256`)"
        raise InputError(str(path), f"is not a list of tokens ({reason})", remedy) from None
    holders: dict[str, str] = {}
    for number, token in enumerate(file_content.tokens):
        digest = _digest(token, f"{path}: tokens[{number}]")
        if digest in holders:
            where = f"{path}: tokens[{number}]"
            raise InputError(where, f"is the token of {holders[digest]}", "give it another one")
        holders[digest] = token.name
    if not holders:
        raise InputError(f"{path}: tokens", "is empty", "add a token")
    return holders


def _digest(token: _Token, where: str) -> str:
    if bool(token.token) == bool(token.sha256):
        raise InputError(where, "needs one of token and sha256", "give one")
    if token.token:
        if len(token.token) < _SHORTEST or not token.token.isascii() or " " in token.token:
            problem = f"is shorter than {_SHORTEST} characters, or not one ASCII word"
            raise InputError(f"{where}.token", problem, "make one: openssl rand -hex 32")
        return sha256(token.token.encode()).hexdigest()
    digest = token.sha256.lower()
    if len(digest) != 64 or any(character not in "0123456789abcdef" for character in digest):
        raise InputError(f"{where}.sha256", "is not 64 hex digits", "write what sha256sum prints")
    return digest
