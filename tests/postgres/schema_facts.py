"""Writes eventsched/history/verify/schema.json: what the migrations make, on each Postgres that
there is.

python -m tests.postgres.schema_facts

It needs every major version that the file has facts of: `eventsched verify` compares views only on
those.
"""

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psycopg

from eventsched.eventlog.schema import migrations
from eventsched.history.verify.verified_schema import facts
from tests.databases import migrate, servers, serving

FILE = Path(__file__).resolve().parents[2] / "eventsched/history/verify/schema.json"


def made() -> dict[str, Any]:
    """The content of the file."""
    found: dict[str, str] = {}
    for name in servers():
        with (
            serving(name) as server,
            server.fresh(migrate) as url,
            psycopg.connect(url, autocommit=True) as connection,
        ):
            connection.execute("SELECT eventsched_log.acquire('s', gen_random_uuid(), '', '')")
            connection.execute("SET ROLE eventsched_owner")  # as append(), which is its function
            connection.execute("SELECT eventsched_log.extend_partitions(1, 1)")
            connection.execute("RESET ROLE")
            found.update(facts(connection))
    return {"revision": migrations.newest(), "facts": dict(sorted(found.items()))}


def versions(facts: Iterable[str]) -> set[str]:
    """The major versions of Postgres that facts are of."""
    return {found[1] for fact in facts if (found := re.fullmatch(r"view .* on (\d+)", fact))}


def write() -> str:
    """Writes the file. Returns why it does not, "" where it does."""
    new = made()
    missing = versions(json.loads(FILE.read_text())["facts"]) - versions(new["facts"])
    if missing:
        return (
            f"there is no Postgres {' and no '.join(sorted(missing))} here, and {FILE.name} has "
            "facts of it: install it, or set EVENTSCHED_TEST_CONTAINERS=1"
        )
    FILE.write_text(json.dumps(new, indent=0) + "\n")
    return ""


if __name__ == "__main__":
    sys.exit(write())
