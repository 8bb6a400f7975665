-- Rows of victims of preemptions, and of a shadow's comparisons, so that no view has to parse
-- records for them. Written by append() like the other derived rows; partitioned with them.

CREATE TABLE eventsched_log.victim (
    seq       bigint NOT NULL,
    at        bigint NOT NULL,
    pod       uuid NOT NULL,
    preemptor uuid NOT NULL,
    stream    integer NOT NULL,
    node      text NOT NULL,
    spared    text
) PARTITION BY RANGE (stream, seq);
CREATE INDEX victim_position ON eventsched_log.victim (stream, seq);
CREATE INDEX victim_preemptor ON eventsched_log.victim (stream, preemptor);

CREATE TABLE eventsched_log.comparison (
    seq          bigint NOT NULL,
    at           bigint NOT NULL,
    score        bigint NOT NULL,
    chosen_score bigint NOT NULL,
    pod          uuid NOT NULL,
    stream       integer NOT NULL,
    attempt      integer NOT NULL,
    feasible     boolean NOT NULL,
    outcome      text NOT NULL,
    node         text,
    chosen       text,
    plugin       text,
    reasons      text[]
) PARTITION BY RANGE (stream, seq);
CREATE INDEX comparison_pod ON eventsched_log.comparison (stream, pod);
CREATE INDEX comparison_position ON eventsched_log.comparison USING brin (seq)
    WITH (pages_per_range = 32, autosummarize = on);

CREATE OR REPLACE FUNCTION eventsched_log.partitioned_tables() RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT ARRAY['batch', 'detail', 'decision', 'queue_move', 'queue_stay', 'reservation',
                 'pod_end', 'refusal', 'mention', 'victim', 'comparison']
$$;

-- From here on no partitions are made and appends wait: a batch that the old derive() handled would
-- lack its new rows.
SELECT pg_advisory_xact_lock(hashtext('eventsched_log.partition'));
LOCK TABLE eventsched_log.batch IN SHARE ROW EXCLUSIVE MODE;

DO $$
DECLARE
    v_table text;
    v_range record;
BEGIN
    FOREACH v_table IN ARRAY ARRAY['victim', 'comparison'] LOOP
        EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON eventsched_log.%I '
                       'FOR EACH ROW EXECUTE FUNCTION eventsched_log.deny()', v_table);
        EXECUTE format('CREATE TRIGGER append_only_all BEFORE TRUNCATE ON eventsched_log.%I '
                       'FOR EACH STATEMENT EXECUTE FUNCTION eventsched_log.deny()', v_table);
        EXECUTE format('ALTER TABLE eventsched_log.%I ENABLE ALWAYS TRIGGER append_only', v_table);
        EXECUTE format('ALTER TABLE eventsched_log.%I ENABLE ALWAYS TRIGGER append_only_all',
                       v_table);
        FOR v_range IN  -- those that are not dropped
            SELECT p.stream, p.first, p.next FROM eventsched_log.partition p
            WHERE to_regclass(format('eventsched_log.mention_%s_%s', p.stream, p.first)) IS NOT NULL
        LOOP
            EXECUTE format('CREATE TABLE eventsched_log.%I (LIKE eventsched_log.%I INCLUDING ALL)',
                           format('%s_%s_%s', v_table, v_range.stream, v_range.first), v_table);
            PERFORM eventsched_log.attach_partition(v_table, v_range.stream, v_range.first,
                                                    v_range.next);
        END LOOP;
    END LOOP;
END $$;

-- The rows of one batch. derive() calls it for a batch with such a record.
CREATE FUNCTION eventsched_log.derive_outcomes(p_stream integer, p_first bigint, p_body json)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO eventsched_log.victim (seq, at, pod, preemptor, stream, node, spared)
    SELECT p_first + n - 1, (item ->> 0)::bigint, eventsched_log.uid(v.uid),
           eventsched_log.uid(r ->> 'uid'), p_stream, r ->> 'node',
           CASE WHEN r -> 'leaving' IS NOT NULL
                     AND v.uid IN (SELECT json_array_elements_text(r -> 'leaving')) THEN 'leaving'
                WHEN r -> 'sent_back' IS NOT NULL
                     AND v.uid IN (SELECT json_array_elements_text(r -> 'sent_back'))
                    THEN 'sent back' END
    FROM json_array_elements(p_body) WITH ORDINALITY AS e (item, n)
    CROSS JOIN LATERAL (SELECT item -> 3 AS r) AS record
    CROSS JOIN LATERAL json_array_elements_text(r -> 'victims') AS v (uid)
    WHERE r ->> 'kind' = 'PreemptionDecided';
    INSERT INTO eventsched_log.comparison
        (seq, at, score, chosen_score, pod, stream, attempt, feasible, outcome, node, chosen,
         plugin, reasons)
    SELECT p_first + n - 1, (item ->> 0)::bigint, coalesce((r ->> 'score')::bigint, 0),
           coalesce((r ->> 'chosen_score')::bigint, 0), eventsched_log.uid(r ->> 'uid'), p_stream,
           coalesce((r ->> 'attempt')::integer, 0), coalesce((r ->> 'feasible')::boolean, false),
           r ->> 'outcome', r ->> 'node', r ->> 'chosen', r ->> 'plugin',
           CASE WHEN r -> 'reasons' IS NOT NULL
                THEN ARRAY(SELECT json_array_elements_text(r -> 'reasons')) END
    FROM json_array_elements(p_body) WITH ORDINALITY AS e (item, n)
    CROSS JOIN LATERAL (SELECT item -> 3 AS r) AS record
    WHERE r ->> 'kind' = 'PlacementCompared';
END $$;

-- What the log has already. Batches with preemptions are found by index, comparisons are only in
-- streams that have counted some.
DO $$
DECLARE
    v_batch record;
BEGIN
    FOR v_batch IN
        SELECT b.stream, b.first, b.body FROM eventsched_log.batch b
        WHERE strpos(b.body::text, '"kind":"PreemptionDecided"') > 0
        UNION ALL
        SELECT b.stream, b.first, b.body FROM eventsched_log.record_count c
        JOIN eventsched_log.batch b ON b.stream = c.stream
        WHERE c.kind = 'PlacementCompared'
          AND strpos(b.body::text, '"kind":"PlacementCompared"') > 0
          AND strpos(b.body::text, '"kind":"PreemptionDecided"') = 0
    LOOP
        PERFORM eventsched_log.derive_outcomes(v_batch.stream, v_batch.first, v_batch.body);
    END LOOP;
END $$;

COMMENT ON TABLE eventsched_log.victim IS
    'Derived: one row per victim of a preemption';
COMMENT ON TABLE eventsched_log.comparison IS
    'Derived: one row per pod of which a shadow compared its decision with the real one';
COMMENT ON FUNCTION eventsched_log.derive_outcomes IS
    'Writes the derived rows of preemptions and comparisons of a batch';
