"""Options that say where a log is, for all commands that need one."""

import argparse
import os
from pathlib import Path

from eventsched.domain.errors import InputError

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
