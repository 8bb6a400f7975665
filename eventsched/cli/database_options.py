"""Options that say where a log is, for all commands that need one."""

import argparse
import os
from pathlib import Path

DATABASE, DATA_DIR = "EVENTSCHED_DATABASE", "EVENTSCHED_DATA_DIR"


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


def database_of(options: argparse.Namespace) -> tuple[str | None, Path | None]:
    """The database and the folder that the options name, or else the environment."""
    if options.database is not None or options.data_dir is not None:
        return options.database, options.data_dir
    folder = os.environ.get(DATA_DIR)
    return os.environ.get(DATABASE) or None, Path(folder) if folder else None
