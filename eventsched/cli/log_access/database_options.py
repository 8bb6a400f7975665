"""Options that say where a log is, or where results go, for all commands that need one."""

import argparse
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from eventsched.domain.errors import InputError, UnavailableError
from eventsched.eventlog import database
from eventsched.eventlog.addresses import libpq_url, shown

DATABASE, DATA_DIR = "EVENTSCHED_DATABASE", "EVENTSCHED_DATA_DIR"
DATABASE_FILE = "EVENTSCHED_DATABASE_FILE"
"""A file with the URL, such as a mounted Secret: for commands in a scheduler's pod."""


def add_database_options(parser: argparse.ArgumentParser, *, stream: bool = True) -> None:
    """Adds --database, --data-dir and --stream."""
    group = parser.add_argument_group("the log")
    group.add_argument(
        "--data-dir",
        type=Path,
        metavar="FOLDER",
        help=f"the embedded database of that folder (default: ${DATA_DIR})",
    )
    group.add_argument(
        "--database", metavar="URL", help=f"a Postgres database (default: ${DATABASE})"
    )
    if stream:
        group.add_argument("--stream", metavar="NAME", help="the stream (default: the only one)")


def database_of(
    options: argparse.Namespace, *, by_file: bool = True
) -> tuple[str | None, Path | None]:
    """The database and the folder that the options name, or else the environment. Without
    ``by_file`` the file that the environment names is ignored, because it is that of a live
    scheduler. Raises InputError if the file cannot be read."""
    if options.database is not None or options.data_dir is not None:
        return options.database, options.data_dir
    folder = os.environ.get(DATA_DIR)
    url = os.environ.get(DATABASE) or None
    if url is None and not folder and by_file:
        url = _url_of_file(os.environ.get(DATABASE_FILE) or "")
    return url, Path(folder) if folder else None


def place_of_results(named: str) -> tuple[str | None, Path | None]:
    """The URL or the folder that --store-in names."""
    if "://" in named or "=" in named:
        return named, None
    return None, Path(named)


def results_address(url: str | None, folder: Path | None) -> AbstractContextManager[str]:
    """The address of the database that results are written to; an embedded one is made if there is
    none. Raises InputError and UnavailableError."""
    is_there = folder is None or (folder / "postgres").exists()
    opening = database.requester_address if is_there else database.writer_address
    return opening(url, folder)


@contextmanager
def connected(address: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection. Raises UnavailableError."""
    try:
        with psycopg.connect(libpq_url(address), autocommit=True) as connection:
            yield connection
    except psycopg.Error as problem:
        message = str(problem).strip().splitlines()[0]
        raise UnavailableError(
            shown(address), message, "start the database, or correct its address"
        ) from problem


def _url_of_file(path: str) -> str | None:
    if not path:
        return None
    try:
        url = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "is not UTF-8 text"
        raise InputError(f"${DATABASE_FILE}", f"{path}: {reason}", "give --database URL") from None
    if not url:
        raise InputError(f"${DATABASE_FILE}", f"{path} is empty", "give --database URL")
    return url
