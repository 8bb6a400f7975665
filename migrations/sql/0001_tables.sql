-- The log itself. One row a batch: its records are the JSON array in body, one [time, cause,
-- version, record] each, and batches hang together by hash. Everything below "derived" is made
-- from the bodies by append() and can be made again. Times are microseconds since 1970 UTC.

CREATE TYPE eventsched_log.outcome AS ENUM ('scheduled', 'unschedulable', 'waiting', 'error');

CREATE TABLE eventsched_log.stream (
    id         integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text NOT NULL UNIQUE,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Fence, sequencer and chain head in one row: every append is one conditional update of it.
CREATE TABLE eventsched_log.head (
    next     bigint NOT NULL,
    renewals bigint NOT NULL,
    stream   integer PRIMARY KEY REFERENCES eventsched_log.stream,
    epoch    integer NOT NULL,
    token    uuid NOT NULL,
    hash     bytea NOT NULL CHECK (octet_length(hash) = 32),
    holder   text NOT NULL
) WITH (fillfactor = 20);

CREATE TABLE eventsched_log.epoch (
    stream     integer NOT NULL REFERENCES eventsched_log.stream,
    epoch      integer NOT NULL,
    first      bigint NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    token      uuid NOT NULL,
    system_id  bigint,
    timeline   integer,
    holder     text NOT NULL,
    version    text NOT NULL,
    PRIMARY KEY (stream, epoch)
);

CREATE TABLE eventsched_log.batch (
    first      bigint NOT NULL,
    written_at timestamptz NOT NULL,
    stream     integer NOT NULL,
    count      integer NOT NULL CHECK (count > 0),
    epoch      integer NOT NULL,
    hash       bytea NOT NULL CHECK (octet_length(hash) = 32),
    mark       json NOT NULL,
    body       json NOT NULL,
    PRIMARY KEY (stream, first)
) WITH (toast_tuple_target = 128);
-- MAIN: compressed in the row; a small batch is not worth a row of its own elsewhere.
ALTER TABLE eventsched_log.batch ALTER body SET STORAGE MAIN;

-- The vectors of decisions: thinning them never touches the chain, which holds their digests.
CREATE TABLE eventsched_log.detail (
    seq    bigint NOT NULL,
    base   bigint,
    stream integer NOT NULL,
    body   bytea NOT NULL,
    PRIMARY KEY (stream, seq)
) WITH (toast_tuple_target = 128);
ALTER TABLE eventsched_log.detail ALTER body SET STORAGE MAIN;

-- Caches of state; may be dropped at any time.
CREATE TABLE eventsched_log.snapshot (
    seq     bigint NOT NULL,
    stream  integer NOT NULL REFERENCES eventsched_log.stream,
    hash    bytea NOT NULL,
    digest  text NOT NULL,
    version text NOT NULL,
    body    bytea NOT NULL,
    PRIMARY KEY (stream, seq)
);
ALTER TABLE eventsched_log.snapshot ALTER body SET STORAGE EXTERNAL;

-- Derived from the bodies, for speed of SQL.

CREATE TABLE eventsched_log.node (
    seq    bigint NOT NULL,
    stream integer NOT NULL,
    ordinal integer NOT NULL,
    name   text NOT NULL,
    PRIMARY KEY (stream, ordinal)
);

CREATE TABLE eventsched_log.pod (
    uid       uuid NOT NULL,
    seq       bigint NOT NULL,
    stream    integer NOT NULL,
    namespace text NOT NULL,
    name      text NOT NULL,
    PRIMARY KEY (stream, uid)
);
CREATE INDEX pod_name ON eventsched_log.pod (stream, name);

CREATE TABLE eventsched_log.decision (
    seq             bigint NOT NULL,
    at              bigint NOT NULL,
    draw            bigint NOT NULL,
    score           bigint NOT NULL,
    runner_up_score bigint NOT NULL,
    pod             uuid NOT NULL,
    stream          integer NOT NULL,
    attempt         integer NOT NULL,
    feasible        integer NOT NULL,
    evaluated       integer NOT NULL,
    ties            integer NOT NULL,
    outcome         eventsched_log.outcome NOT NULL,
    profile         text NOT NULL,
    node            text,
    runner_up       text,
    PRIMARY KEY (stream, seq)
);
CREATE INDEX decision_pod ON eventsched_log.decision (stream, pod);

CREATE TABLE eventsched_log.verdict (
    stream  integer NOT NULL,
    number  integer NOT NULL,
    plugin  text NOT NULL,
    code    text NOT NULL,
    reasons text[] NOT NULL,
    PRIMARY KEY (stream, number)
);

CREATE TABLE eventsched_log.scoring (
    weight        bigint NOT NULL,
    stream        integer NOT NULL,
    number        integer NOT NULL,
    place         integer NOT NULL,
    plugin        text NOT NULL,
    normalization text NOT NULL,
    PRIMARY KEY (stream, number, place)
);
