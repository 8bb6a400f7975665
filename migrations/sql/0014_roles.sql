-- What readers may read: views and functions of schema eventsched, not the records themselves. A
-- function that reads them for a view runs with the owner's rights and returns typed values only.

-- The message of a pod's move to a queue.
CREATE FUNCTION eventsched_log.queue_message(p_stream integer, p_seq bigint) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT CASE r ->> 'kind' WHEN 'PodQueued' THEN r ->> 'message' END
            FROM eventsched_log.record(p_stream, p_seq) AS r);
END $$;

CREATE OR REPLACE VIEW eventsched.queue_moves AS
SELECT s.name AS stream, m.seq, eventsched_log.time(m.at) AS at, p.namespace, p.name AS pod,
       m.pod AS pod_uid, m.queue, m.cause, m.caused_by, m.plugin,
       coalesce(m.rejectors, '{}') AS rejectors, coalesce(m.pending, '{}') AS pending,
       eventsched_log.time(m.until) AS until, coalesce(m.failures, 0) AS failures,
       coalesce(m.errors, 0) AS errors, eventsched_log.queue_message(m.stream, m.seq) AS message
FROM eventsched_log.queue_move m
JOIN eventsched_log.chosen_stream s ON s.id = m.stream
LEFT JOIN eventsched_log.pod p ON p.stream = m.stream AND p.uid = m.pod;

-- As before, without a function that would read the records with the rights of who asks. Batches
-- without such a record are passed over before their bodies are parsed.
CREATE OR REPLACE VIEW eventsched.memory AS
SELECT stream, plugin, key, value, seq, at
FROM (
    SELECT DISTINCT ON (s.name, e.item #>> '{3,plugin}', e.item #>> '{3,key}')
           s.name AS stream, e.item #>> '{3,plugin}' AS plugin, e.item #>> '{3,key}' AS key,
           e.item #> '{3,value}' AS value, b.first + e.n - 1 AS seq,
           eventsched_log.time((e.item ->> 0)::bigint) AS at
    FROM eventsched_log.chosen_stream s
    JOIN eventsched_log.batch b
        ON b.stream = s.id AND strpos(b.body::text, '"kind":"MemoryChanged"') > 0
    CROSS JOIN LATERAL json_array_elements(b.body) WITH ORDINALITY AS e (item, n)
    WHERE e.item #>> '{3,kind}' = 'MemoryChanged'
    ORDER BY s.name, e.item #>> '{3,plugin}', e.item #>> '{3,key}', b.first + e.n - 1 DESC
) newest
WHERE value IS NOT NULL;  -- null: forgotten
DROP FUNCTION eventsched_log.events_of(text);

ALTER FUNCTION eventsched.verdicts(text, bigint)
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION eventsched.scores(text, bigint)
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION eventsched.refusals(text, bigint)
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION eventsched.candidates(text, bigint)
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION eventsched_log.eviction_end(integer, bigint, bigint, text, boolean)
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

COMMENT ON FUNCTION eventsched_log.queue_message IS 'The message of a pod''s move to a queue';
