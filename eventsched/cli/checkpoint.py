"""``eventsched log checkpoint``: signs the current heads of streams, to be stored elsewhere."""

import argparse
import fcntl
import os
import sys
import time
from pathlib import Path
from typing import Any

from eventsched.cli.log_access.database_options import add_database_options, database_of
from eventsched.domain.errors import InputError
from eventsched.eventlog import database
from eventsched.eventlog.checkpoints import Signer, replace_notes
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
        _append(options.file, "".join(notes).encode())
    except OSError as error:
        problem = f"cannot be written: {error.strerror}"
        remedy = "name a file in a folder that you may write to"
        raise InputError(str(options.file), problem, remedy) from error
    return 0


def _append(path: Path, notes: bytes) -> None:
    """Adds notes to a file. Raises OSError."""
    if path.exists() and not path.is_file():  # a pipe or a device has no earlier text to lose
        with path.open("ab") as file:
            file.write(notes)
        return
    target = path.resolve()  # a link stays a link
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # another command may be adding its notes
        replace_notes(target, (target.read_bytes() if target.exists() else b"") + notes)
    finally:
        os.close(folder)
