"""The tables of schema eventsched_log for SQLAlchemy. The migrations define them in SQL; ``alembic
check`` compares a migrated database with these definitions. Queries do not use them."""

import re
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Enum,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY

from eventsched.eventlog.schema import migration_files
from eventsched.eventlog.schema.log_comments import COMMENTS

SCHEMA = migration_files.SCHEMA

metadata = MetaData(schema=SCHEMA)

_NOW = text("clock_timestamp()")
_OUTCOME = Enum(
    "scheduled", "unschedulable", "waiting", "error", name="outcome", schema=SCHEMA,
    metadata=metadata,
)  # fmt: skip


def _text(name: str, **more: bool) -> Column[str]:
    return Column(name, Text, nullable=more.get("nullable", False))


def _big(name: str, *, nullable: bool = False, key: bool = False) -> Column[int]:
    return Column(name, BigInteger, nullable=nullable, primary_key=key, autoincrement=False)


def _int(name: str, *, key: bool = False) -> Column[int]:
    return Column(name, Integer, nullable=False, primary_key=key, autoincrement=False)


def _stream(*, key: bool = True) -> Column[int]:
    column: Column[int] = Column(
        "stream", Integer, ForeignKey("eventsched_log.stream.id"), primary_key=key,
        autoincrement=False,
    )  # fmt: skip
    return column


def _hash(name: str = "hash") -> Column[bytes]:
    return Column(name, LargeBinary, CheckConstraint(f"octet_length({name}) = 32"), nullable=False)


stream = Table(
    "stream",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
)

head = Table(
    "head", metadata, _big("next"), _big("renewals"), _stream(), _int("epoch"),
    Column("token", Uuid, nullable=False), _hash(), _text("holder"),
    *(Column(name, BigInteger, nullable=False, server_default=text("0"))
      for name in ("partition_first", "partition_next")),
)  # fmt: skip

partition = Table(
    "partition", metadata, _big("first", key=True), _big("next"), _big("base", nullable=True),
    Column("made_at", DateTime(timezone=True), nullable=False, server_default=_NOW), _stream(),
    Column("has_vectors", Boolean, nullable=False, server_default=text("true")),
    _big("seal", nullable=True),
)  # fmt: skip

epoch = Table(
    "epoch",
    metadata,
    _stream(),
    _int("epoch", key=True),
    _big("first"),
    Column("started_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
    Column("token", Uuid, nullable=False),
    _big("system_id", nullable=True),
    Column("timeline", Integer),
    _text("holder"),
    _text("version"),
)

batch = Table(
    "batch",
    metadata,
    _big("first", key=True),
    Column("written_at", DateTime(timezone=True), nullable=False),
    _int("stream", key=True),
    _int("count"),
    _int("epoch"),
    _hash(),
    Column("mark", JSON, nullable=False),
    Column("body", JSON, nullable=False),
    Index(
        "batch_preemptions",
        "stream",
        "first",
        postgresql_where=text('strpos(body::text, \'"kind":"PreemptionDecided"\') > 0'),
    ),
)

detail = Table(
    "detail", metadata, _big("seq", key=True), _big("base", nullable=True),
    _int("stream", key=True), Column("body", LargeBinary, nullable=False),
)  # fmt: skip

snapshot, checkpoint = (
    Table(
        name, metadata, _big("seq", key=True), _stream(),
        Column("hash", LargeBinary, nullable=False), _text("digest"), _text("version"),
        Column("body", LargeBinary, nullable=False),
    )
    for name in ("snapshot", "checkpoint")
)  # fmt: skip

archived = Table(
    "archived", metadata, _big("first", key=True), _big("next"), _stream(),
    Column("archived_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
    _text("day"), Column("archived_by", Text, nullable=False, server_default=text("SESSION_USER")),
    Column("digests", JSON, nullable=False),
)  # fmt: skip

pruned = Table(
    "pruned", metadata, _big("first", key=True), _big("next"), _big("seal"), _stream(),
    Column("pruned_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
    Column("hash", LargeBinary, nullable=False),
)  # fmt: skip

node = Table(
    "node",
    metadata,
    _big("seq", key=True),
    _int("stream", key=True),
    _int("ordinal", key=True),
    _text("name"),
)

pod = Table(
    "pod",
    metadata,
    Column("uid", Uuid, primary_key=True),
    _big("seq"),
    _int("stream", key=True),
    _text("namespace"),
    _text("name"),
    Index("pod_name", "stream", "name"),
)

pod_now = Table(
    "pod_now",
    metadata,
    Column("uid", Uuid, primary_key=True),
    *(_big(name) for name in ("seq", "since")),
    *(
        _big(name, nullable=True)
        for name in ("waiting_since", "decided_seq", "reserved_seq", "reserved_at")
    ),
    _int("stream", key=True),
    *(_int(name) for name in ("attempts", "priority")),
    Column("verdict", Integer),
    Column("deleting", Boolean, nullable=False),
    *(_text(name) for name in ("state", "namespace", "name", "scheduler")),
    *(
        _text(name, nullable=True)
        for name in (
            "owner_kind", "owner_name", "node", "nominated", "asked", "plugin", "message",
        )
    ),
)  # fmt: skip

decision = Table(
    "decision",
    metadata,
    _big("seq", key=True),
    *(_big(name) for name in ("at", "draw", "score", "runner_up_score")),
    Column("pod", Uuid, nullable=False),
    _int("stream", key=True),
    *(_int(name) for name in ("attempt", "feasible", "evaluated", "ties")),
    Column("outcome", _OUTCOME, nullable=False),
    _text("profile"),
    _text("node", nullable=True),
    _text("runner_up", nullable=True),
    Index("decision_pod", "stream", "pod"),
)


def _by_position(table: str, column: str = "seq") -> Index:
    return Index(
        f"{table}_position", column, postgresql_using="brin",
        postgresql_with={"pages_per_range": 32, "autosummarize": "on"},
    )  # fmt: skip


def _pod() -> Column[Any]:
    return Column("pod", Uuid, nullable=False)


queue_move = Table(
    "queue_move",
    metadata,
    *(_big(name) for name in ("seq", "at", "caused_by")),
    _pod(),
    _int("stream"),
    _text("queue"),
    *(_text(name, nullable=True) for name in ("cause", "plugin")),
    _big("until", nullable=True),
    *(Column(name, Integer) for name in ("failures", "errors")),
    *(Column(name, ARRAY(Text)) for name in ("rejectors", "pending")),
    Index("queue_move_pod", "stream", "pod"),
    _by_position("queue_move"),
)

queue_stay = Table(
    "queue_stay",
    metadata,
    *(_big(name) for name in ("seq", "since", "until")),
    _pod(),
    _int("stream"),
    _text("queue"),
    _by_position("queue_stay"),
)

reservation = Table(
    "reservation",
    metadata,
    *(_big(name) for name in ("seq", "at")),
    *(_big(name, nullable=True) for name in ("decided_seq", "decided_at")),
    _pod(),
    _int("stream"),
    Column("attempt", Integer),
    _text("node", nullable=True),
    _text("ended_by"),
    Index("reservation_pod", "stream", "pod"),
    Index("reservation_node", "stream", "node"),
    _by_position("reservation"),
)

pod_end = Table(
    "pod_end", metadata, _big("seq"), _big("at"), _pod(), _int("stream"),
    Index("pod_end_pod", "stream", "pod"), _by_position("pod_end"),
)  # fmt: skip

refusal = Table(
    "refusal", metadata, _big("seq"), *(_int(name) for name in ("stream", "number", "nodes")),
    _by_position("refusal"),
)  # fmt: skip

mention = Table(
    "mention", metadata, _big("first"), _pod(), _int("stream"),
    Index("mention_pod", "stream", "pod"), _by_position("mention", "first"),
)  # fmt: skip

victim = Table(
    "victim", metadata, _big("seq"), _big("at"), _pod(),
    Column("preemptor", Uuid, nullable=False), _int("stream"), _text("node"),
    _text("spared", nullable=True), Index("victim_position", "stream", "seq"),
    Index("victim_preemptor", "stream", "preemptor"),
)  # fmt: skip

comparison = Table(
    "comparison",
    metadata,
    *(_big(name) for name in ("seq", "at", "score", "chosen_score")),
    _pod(),
    *(_int(name) for name in ("stream", "attempt")),
    Column("feasible", Boolean, nullable=False),
    _text("outcome"),
    *(_text(name, nullable=True) for name in ("node", "chosen", "plugin")),
    Column("reasons", ARRAY(Text)),
    Index("comparison_pod", "stream", "pod"),
    _by_position("comparison"),
)

record_count = Table(
    "record_count",
    metadata,
    _big("records"),
    _int("stream", key=True),
    Column("kind", Text, primary_key=True),
)

verdict = Table(
    "verdict",
    metadata,
    _int("stream", key=True),
    _int("number", key=True),
    _text("plugin"),
    _text("code"),
    Column("reasons", ARRAY(Text), nullable=False),
)

scoring = Table(
    "scoring",
    metadata,
    _big("weight"),
    *(_int(name, key=True) for name in ("stream", "number", "place")),
    _text("plugin"),
    _text("normalization"),
)

request = Table(
    "request",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    _big("seq", nullable=True),
    Column("asked_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
    Column("stream", Integer, ForeignKey("eventsched_log.stream.id"), nullable=False),
    _text("asked_by"),
    _text("plugin"),
    _text("key"),
    Index("request_open", "stream", postgresql_where=text("seq IS NULL")),
)

stream_grant = Table(
    "stream_grant",
    metadata,
    Column("role", Text, primary_key=True),
    Column("stream", Text, primary_key=True),
)

tenant_grant = Table(
    "tenant_grant",
    metadata,
    *(Column(name, Text, primary_key=True) for name in ("role", "namespace")),
    Column("stream", Text, primary_key=True, server_default=text("''")),
)

tenant_secret = Table(
    "tenant_secret",
    metadata,
    Column("is_it", Boolean, primary_key=True, server_default=text("true")),
    Column("secret", LargeBinary, nullable=False),
)

for _name, _comment in COMMENTS.items():
    _table, _, _column = _name.partition(".")
    _target = metadata.tables[f"{SCHEMA}.{_table}"]
    (_target.c[_column] if _column else _target).comment = _comment

_PARTITION = re.compile(r"_\d+_\d+$")


def is_included(name: str | None, kind: str) -> bool:
    """Whether ``alembic check`` compares a schema or table: partitions are made at run time."""
    if kind == "schema":
        return name == SCHEMA
    return kind != "table" or name is None or _PARTITION.search(name) is None
