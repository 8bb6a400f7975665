"""All else is in pyproject.toml, which cannot say this: ``migrations`` lies beside the package in
the repository, and inside of it where it is installed."""

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
)
