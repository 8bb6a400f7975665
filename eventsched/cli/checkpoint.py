"""``eventsched log checkpoint``: signs the current heads of streams, to be stored elsewhere."""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

from eventsched.cli.database_options import add_database_options, database_of
from eventsched.domain.errors import InputError
from eventsched.eventlog import database
from eventsched.eventlog.checkpoints import Signer
from eventsched.eventlog.postgres import reader
from eventsched.eventlog.postgres.reader import Reader


def add_checkpoint(actions: Any) -> None:
    """Adds the action to the parser of ``eventsched log``."""
    parser: argparse.ArgumentParser = actions.add_parser(
        "checkpoint",
        help="sign the current heads of streams",
        description="Writes a signed checkpoint of each stream, in the form of signed notes. "
        "Store them where users with write access to the database cannot change them: `eventsched "
        "verify --checkpoints` finds later changes to the log before the checkpoint.",
    )
    parser.add_argument(
        "--key", type=Path, required=True, metavar="FILE",
        help="an Ed25519 private key (PEM): `eventsched keys generate`",
    )  # fmt: skip
    parser.add_argument(
        "-o", dest="file", type=Path, metavar="FILE", help="append to this file (default: print)"
    )
    add_database_options(parser, stream=False)
    parser.add_argument("--stream", metavar="NAME", help="the stream (default: all)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Signs and writes the checkpoints."""
    signer = Signer.read(options.key, "--key")
    with database.reader_address(*database_of(options)) as address:
        streams = reader.streams(address)
        if options.stream is not None or not streams:
            streams = [reader.choose_stream(address, options.stream)]
        at = time.time_ns() // 1000
        notes = [signer.sign(stream, Reader(address, stream).head, at) for stream in streams]
    if options.file is None:
        sys.stdout.writelines(notes)
        return 0
    try:
        with options.file.open("a", encoding="utf-8") as file:
            file.writelines(notes)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        problem = f"cannot be written: {error.strerror}"
        remedy = "name a file in a folder that you may write to"
        raise InputError(str(options.file), problem, remedy) from error
    return 0
