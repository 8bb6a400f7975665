"""Databases as earlier releases left them."""

import gzip

import psycopg

from tests.databases import ROOT

STREAM = "tight"
"""The stream of ``restore``: 4 nodes and 12 pods, some of which were refused at first."""
_DUMP = ROOT / "tests/histories/0.1-database.sql.gz"
_ROLES = """
DO $$ DECLARE r text; BEGIN
    FOREACH r IN ARRAY ARRAY['eventsched_owner', 'eventsched_writer', 'eventsched_reader'] LOOP
        BEGIN EXECUTE format('CREATE ROLE %I NOLOGIN', r);
        EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END;
    END LOOP;
END $$
"""


def restore(url: str) -> None:
    """Restores the database of a 0.1 scheduler (schema 0004) into an empty one; the owner's role
    is made where the server has none."""
    with psycopg.connect(url) as connection:
        connection.execute(_ROLES)
        connection.execute(gzip.decompress(_DUMP.read_bytes()).decode())
