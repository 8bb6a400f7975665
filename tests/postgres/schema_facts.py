"""Writes eventsched/history/verify/schema.json: what the migrations make, on each Postgres that
there is.

python -m tests.postgres.schema_facts
"""

import json
from pathlib import Path

import psycopg

from eventsched.eventlog.schema import migrations
from eventsched.history.verify.verified_schema import facts
from tests.databases import migrate, servers, serving

FILE = Path(__file__).resolve().parents[2] / "eventsched/history/verify/schema.json"


def made() -> dict[str, object]:
    """The content of the file."""
    found: dict[str, str] = {}
    for name in servers():
        with (
            serving(name) as server,
            server.fresh(migrate) as url,
            psycopg.connect(url, autocommit=True) as connection,
        ):
            found.update(facts(connection))
    return {"revision": migrations.newest(), "facts": dict(sorted(found.items()))}


if __name__ == "__main__":
    FILE.write_text(json.dumps(made(), indent=0) + "\n")
