"""``eventsched log checkpoint``: where streams end now, signed, to be kept elsewhere."""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

from eventsched.cli.database_options import add_database_options, database_of
from eventsched.domain.errors import InputError
from eventsched.eventlog import database
from eventsched.eventlog.checkpoints import Signer, encoded
from eventsched.eventlog.postgres import reader
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.schema import migrations


def add_checkpoint(actions: Any) -> None:
    """Adds the action to the parser of ``eventsched log``."""
    parser: argparse.ArgumentParser = actions.add_parser(
        "checkpoint",
        help="sign where streams end now",
        description="Writes a signed checkpoint of each stream, one JSON object a line. Keep them "
        "where nobody who may write to the database can: `eventsched verify --checkpoint` finds "
        "what was changed in the log before.",
    )
    parser.add_argument(
        "--key", type=Path, required=True, metavar="FILE", help="an Ed25519 private key (PEM)"
    )
    parser.add_argument(
        "-o", dest="file", type=Path, metavar="FILE", help="append to this file (default: print)"
    )
    add_database_options(parser, stream=False)
    parser.add_argument("--stream", metavar="NAME", help="the stream (default: all)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Signs and writes them."""
    signer = Signer.read(options.key, "--key")
    with database.reader_address(*database_of(options)) as address:
        known = reader.streams(address)
        if options.stream is not None or not known:
            known = [reader.choose_stream(address, options.stream)]
        at, schema = time.time_ns() // 1000, migrations.newest()
        lines = [
            encoded(signer.sign(stream, Reader(address, stream).head, at, schema)) + "\n"
            for stream in known
        ]
    if options.file is None:
        sys.stdout.writelines(lines)
        return 0
    try:
        with options.file.open("a", encoding="utf-8") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
    except OSError as problem:
        said = f"cannot be written: {problem.strerror}"
        raise InputError(str(options.file), said, "name a file in a folder of yours") from problem
    return 0
