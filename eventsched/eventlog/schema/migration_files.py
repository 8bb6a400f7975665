"""Where the migrations are, and which there are. Does not import Alembic."""

from functools import cache
from pathlib import Path


@cache
def revisions() -> list[str]:
    """This version's revisions, oldest first. A migration's file is named m, its revision, _ and a
    title."""
    files = (folder() / "versions").glob("m[0-9]*_*.py")
    return sorted(path.name.partition("_")[0].removeprefix("m") for path in files)


def folder() -> Path:
    """The folder of the migrations: inside the package if it was installed from a wheel, beside it
    in a checkout (also one installed in editable mode)."""
    package = Path(__file__).resolve().parents[2]
    inside = package / "migrations"
    return inside if inside.is_dir() else package.parent / "migrations"
