ALTER FUNCTION eventsched.verdicts(text, bigint) SECURITY INVOKER RESET search_path;
ALTER FUNCTION eventsched.scores(text, bigint) SECURITY INVOKER RESET search_path;
ALTER FUNCTION eventsched.refusals(text, bigint) SECURITY INVOKER RESET search_path;
ALTER FUNCTION eventsched.candidates(text, bigint) SECURITY INVOKER RESET search_path;
ALTER FUNCTION eventsched_log.eviction_end(integer, bigint, bigint, text, boolean)
    SECURITY INVOKER RESET search_path;

CREATE FUNCTION eventsched_log.events_of(p_kind text)
RETURNS TABLE (stream text, stream_id integer, seq bigint, at timestamptz, cause bigint,
               namespace text, pod text, pod_uid uuid, record json)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT s.name, s.id, b.first + e.n - 1, eventsched_log.time((e.item ->> 0)::bigint),
           (e.item ->> 1)::bigint, p.namespace, p.name, u.uid, e.item -> 3
    FROM eventsched_log.chosen_stream s
    JOIN eventsched_log.batch b ON b.stream = s.id
    CROSS JOIN LATERAL json_array_elements(b.body) WITH ORDINALITY AS e (item, n)
    CROSS JOIN LATERAL (SELECT eventsched_log.pod_uid(e.item) AS uid) u
    LEFT JOIN eventsched_log.pod p ON p.stream = s.id AND p.uid = u.uid
    WHERE strpos(b.body::text, '"kind":"' || p_kind || '"') > 0
      AND e.item -> 3 ->> 'kind' = p_kind
$$;
COMMENT ON FUNCTION eventsched_log.events_of IS
    'The records of one kind; batches without it are not parsed';

CREATE OR REPLACE VIEW eventsched.memory AS
SELECT stream, plugin, key, value, seq, at
FROM (
    SELECT DISTINCT ON (stream, record ->> 'plugin', record ->> 'key')
           stream, record ->> 'plugin' AS plugin, record ->> 'key' AS key,
           record -> 'value' AS value, seq, at
    FROM eventsched_log.events_of('MemoryChanged')
    ORDER BY stream, record ->> 'plugin', record ->> 'key', seq DESC
) newest
WHERE value IS NOT NULL;

CREATE OR REPLACE VIEW eventsched.queue_moves AS
SELECT s.name AS stream, m.seq, eventsched_log.time(m.at) AS at, p.namespace, p.name AS pod,
       m.pod AS pod_uid, m.queue, m.cause, m.caused_by, m.plugin,
       coalesce(m.rejectors, '{}') AS rejectors, coalesce(m.pending, '{}') AS pending,
       eventsched_log.time(m.until) AS until, coalesce(m.failures, 0) AS failures,
       coalesce(m.errors, 0) AS errors,
       eventsched_log.record(m.stream, m.seq) ->> 'message' AS message
FROM eventsched_log.queue_move m
JOIN eventsched_log.chosen_stream s ON s.id = m.stream
LEFT JOIN eventsched_log.pod p ON p.stream = m.stream AND p.uid = m.pod;
DROP FUNCTION eventsched_log.queue_message(integer, bigint);
