"""Where the migrations are, and which there are. Does not import Alembic."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

SCHEMA = "eventsched_log"
"""The schema of the log's tables."""
STOP, PRE, POST = "", "pre", "post"
"""What a migration means for processes of earlier versions. PRE only adds: they go on. POST removes
what they need, and a process of its own version runs before it as well as after it. With STOP they
have to end before it, as with all migrations up to 0016."""


class MigrationFile(NamedTuple):
    """A migration of this version: its revision, and its step (STOP, PRE or POST)."""

    revision: str
    step: str


@cache
def migrations() -> tuple[MigrationFile, ...]:
    """This version's migrations, oldest first. The file of one is named m, its revision, _, its
    step and _ (if it is not STOP), and a title."""
    names = (path.name for path in (folder() / "versions").glob("m[0-9]*_*.py"))
    parts = (name.removeprefix("m").split("_") for name in sorted(names))
    return tuple(
        MigrationFile(revision, step if title and step in (PRE, POST) else STOP)
        for revision, step, *title in parts
    )


def revisions() -> list[str]:
    """This version's revisions, oldest first."""
    return [migration.revision for migration in migrations()]


def needed() -> str:
    """The oldest revision on which this version runs: all that follow are of POST."""
    return [migration.revision for migration in migrations() if migration.step != POST][-1]


def served(revision: str) -> str:
    """What a schema of this revision serves: versions whose newest revision is this one or a later
    one. It is the last revision that ended earlier versions."""
    ends = [
        migration.revision
        for migration in migrations()
        if migration.revision <= revision and migration.step != PRE
    ]
    return ends[-1]


def folder() -> Path:
    """The folder of the migrations: inside the package if it was installed from a wheel, beside it
    in a checkout (also one installed in editable mode)."""
    package = Path(__file__).resolve().parents[2]
    inside = package / "migrations"
    return inside if inside.is_dir() else package.parent / "migrations"
