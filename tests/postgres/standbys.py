"""A standby of a server, made by pg_basebackup."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, quote, urlsplit

from eventsched.eventlog.embedded.programs import account_for
from tests.databases import complete_programs
from tests.postgres.test_how_to import as_account


class Standby(NamedTuple):
    """``url`` is of the standby alone, ``both`` of it and its primary, in this order; options of
    libpq may be added to both. ``do`` runs a program of the server on its data."""

    url: str
    both: str
    do: Callable[..., None]


@contextmanager
def standby_of(url: str, place: Path, programs: Path) -> Iterator[Standby]:
    """A running standby of the server of a database, below an empty folder that all may enter."""
    shared = place / "shared"
    (shared / "socket").mkdir(parents=True)
    if (account := account_for(shared)) is not None:
        for folder in (shared, shared / "socket"):
            shutil.chown(folder, account.uid, account.gid)
    folder, copy = complete_programs(programs, place), shared / "copy"

    def run(program: str, *words: str) -> None:
        script = as_account(shared, folder / program)
        subprocess.run(["sh", "-c", script, "sh", *words], check=True, timeout=120)

    def do(*words: str) -> None:
        run("pg_ctl", *words, "--silent", f"--pgdata={copy}", f"--log={shared}/log")

    run("pg_basebackup", f"--dbname={url}", f"--pgdata={copy}", "--checkpoint=fast", "-R")
    own = f"-k {shared / 'socket'} -c listen_addresses= -c fsync=off"
    do("start", "--wait", "-o", own)
    try:
        [host], [port] = (parse_qs(urlsplit(url).query)[key] for key in ("host", "port"))
        where = f"postgresql://postgres@/{urlsplit(url).path[1:]}"
        hosts = f"{shared / 'socket'},{host}"
        yield Standby(
            f"{where}?host={quote(str(shared / 'socket'), safe='')}&port={port}",
            f"{where}?host={quote(hosts, safe='')}&port={port}%2C{port}",
            do,
        )
    finally:
        do("stop", "--mode=immediate")
