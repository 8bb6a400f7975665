"""Alembic's entry point: runs the migrations on the connection in its configuration's attributes,
or else on the database in EVENTSCHED_DATABASE."""

import os

from alembic import context
from sqlalchemy import Connection, create_engine, text

from eventsched.eventlog.addresses import sqlalchemy_url
from eventsched.eventlog.schema import migrations, revisions
from eventsched.eventlog.schema.log_tables import SCHEMA, is_included, metadata


def _is_included(name: str | None, kind: str, _parents: object) -> bool:
    return is_included(name, kind)


def _run(connection: Connection) -> None:
    has_schema = f"SELECT FROM pg_namespace WHERE nspname = '{SCHEMA}'"
    if connection.execute(text(has_schema)).first() is None:  # IF NOT EXISTS needs CREATE, too
        connection.execute(text(f"CREATE SCHEMA {SCHEMA}"))
    context.configure(
        connection=connection,
        target_metadata=metadata,
        include_schemas=True,
        include_name=_is_included,
        version_table="migration",
        version_table_schema=SCHEMA,
        compare_type=True,
    )
    context.run_migrations()
    migrations.state_served(connection)


open_connection = context.config.attributes.get("connection")
if open_connection is not None:
    _run(open_connection)
else:
    engine = create_engine(sqlalchemy_url(os.environ["EVENTSCHED_DATABASE"]))
    with engine.begin() as new_connection:
        revisions.lock_migrations(new_connection)
        _run(new_connection)
