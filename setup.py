"""All else is in pyproject.toml, which cannot say this: ``migrations`` lies beside the package in
the repository, and inside of it where it is installed. Man pages are there while
deploy/wheel/wheel_backend.py builds a wheel."""

from pathlib import Path

from setuptools import find_packages, setup

_MIGRATIONS = "eventsched.migrations"

setup(
    packages=[
        *find_packages(include=["eventsched", "eventsched.*"]),
        *(_MIGRATIONS, f"{_MIGRATIONS}.versions", f"{_MIGRATIONS}.sql"),
    ],
    package_dir={_MIGRATIONS: "migrations"},
    package_data={
        "eventsched": ["py.typed"],
        "eventsched.api": ["explain.schema.json"],
        "eventsched.history.verify": ["schema.json"],
        "eventsched.pages": ["static/*", "templates/*.html"],
        f"{_MIGRATIONS}.sql": ["*.sql"],
    },
    data_files=[("share/man/man1", sorted(map(str, Path("build/manual/man1").glob("*.1"))))],
)
