-- Rows for the questions that people ask of the whole log, so that no view has to parse the bodies
-- of all batches. Written by append() from the records of each batch, like the other derived rows;
-- docs/log-format.md says which record writes what. A row is found by its pod, or by position with
-- a BRIN index: positions only grow, so it needs a few bytes for a thousand rows.

CREATE TABLE eventsched_log.queue_move (
    seq       bigint NOT NULL,
    at        bigint NOT NULL,
    caused_by bigint NOT NULL,
    pod       uuid NOT NULL,
    stream    integer NOT NULL,
    queue     text NOT NULL,
    cause     text,
    plugin    text,
    until     bigint,
    failures  integer,
    errors    integer,
    rejectors text[],
    pending   text[]
);
CREATE INDEX queue_move_pod ON eventsched_log.queue_move (stream, pod);

-- A pod's time in one queue, written when it ends.
CREATE TABLE eventsched_log.queue_stay (
    seq    bigint NOT NULL,
    since  bigint NOT NULL,
    until  bigint NOT NULL,
    pod    uuid NOT NULL,
    stream integer NOT NULL,
    queue  text NOT NULL
);

-- A node held for a pod, written when that ends: most often because the pod is bound.
CREATE TABLE eventsched_log.reservation (
    seq         bigint NOT NULL,
    at          bigint NOT NULL,
    decided_seq bigint,
    decided_at  bigint,
    pod         uuid NOT NULL,
    stream      integer NOT NULL,
    attempt     integer,
    node        text,
    ended_by    text NOT NULL
);
CREATE INDEX reservation_pod ON eventsched_log.reservation (stream, pod);
CREATE INDEX reservation_node ON eventsched_log.reservation (stream, node);

CREATE TABLE eventsched_log.pod_end (
    seq    bigint NOT NULL,
    at     bigint NOT NULL,
    pod    uuid NOT NULL,
    stream integer NOT NULL
);
CREATE INDEX pod_end_pod ON eventsched_log.pod_end (stream, pod);

-- How many nodes a decision refused with one code.
CREATE TABLE eventsched_log.refusal (
    seq    bigint NOT NULL,
    stream integer NOT NULL,
    number integer NOT NULL,
    nodes  integer NOT NULL
);

-- The batches with records about a pod that no other table lists.
CREATE TABLE eventsched_log.mention (
    first  bigint NOT NULL,
    pod    uuid NOT NULL,
    stream integer NOT NULL
);
CREATE INDEX mention_pod ON eventsched_log.mention (stream, pod);

CREATE TABLE eventsched_log.record_count (
    records bigint NOT NULL,
    stream  integer NOT NULL,
    kind    text NOT NULL,
    PRIMARY KEY (stream, kind)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

DO $$
DECLARE
    v_table text;
BEGIN
    FOREACH v_table IN ARRAY ARRAY['queue_move', 'queue_stay', 'reservation', 'pod_end', 'refusal',
                                   'mention'] LOOP
        EXECUTE format('CREATE INDEX %I ON eventsched_log.%I USING brin (%I) '
                       'WITH (pages_per_range = 32, autosummarize = on)',
                       v_table || '_position', v_table,
                       CASE v_table WHEN 'mention' THEN 'first' ELSE 'seq' END);
        EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON eventsched_log.%I '
                       'FOR EACH ROW EXECUTE FUNCTION eventsched_log.deny()', v_table);
        EXECUTE format('CREATE TRIGGER append_only_all BEFORE TRUNCATE ON eventsched_log.%I '
                       'FOR EACH STATEMENT EXECUTE FUNCTION eventsched_log.deny()', v_table);
        EXECUTE format('ALTER TABLE eventsched_log.%I ENABLE ALWAYS TRIGGER append_only', v_table);
        EXECUTE format('ALTER TABLE eventsched_log.%I ENABLE ALWAYS TRIGGER append_only_all',
                       v_table);
    END LOOP;
END $$;
