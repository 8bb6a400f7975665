"""Alembic's entry: runs the migrations on the connection it is given, or on EVENTSCHED_DATABASE."""

import os

from alembic import context
from sqlalchemy import Connection, create_engine, text

from eventsched.eventlog.addresses import sqlalchemy_url
from eventsched.eventlog.schema import revisions
from eventsched.eventlog.schema.log_tables import SCHEMA, metadata


def _ours(name: str | None, kind: str, _parents: object) -> bool:
    return kind != "schema" or name == SCHEMA


def _run(connection: Connection) -> None:
    connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
    context.configure(
        connection=connection,
        target_metadata=metadata,
        include_schemas=True,
        include_name=_ours,
        version_table="migration",
        version_table_schema=SCHEMA,
        compare_type=True,
    )
    context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    _run(given)
else:
    engine = create_engine(sqlalchemy_url(os.environ["EVENTSCHED_DATABASE"]))
    with engine.begin() as opened:
        revisions.lock_migrations(opened)
        _run(opened)
