-- What migration 0006 replaced, as it was before.


CREATE OR REPLACE VIEW eventsched.events AS
SELECT s.name AS stream, b.first + e.n - 1 AS seq,
       eventsched_log.time((e.item ->> 0)::bigint) AS at, (e.item ->> 1)::bigint AS cause,
       e.item -> 3 ->> 'kind' AS kind, p.namespace, p.name AS pod, u.uid AS pod_uid,
       e.item -> 3 AS record, b.epoch, b.written_at
FROM eventsched_log.stream s
JOIN eventsched_log.batch b ON b.stream = s.id
CROSS JOIN LATERAL json_array_elements(b.body) WITH ORDINALITY AS e (item, n)
CROSS JOIN LATERAL (  -- OFFSET 0: worked out once, though uid() reads it more than once
    SELECT coalesce(e.item #>> '{3,uid}', e.item #>> '{3,pod,uid}') AS uid OFFSET 0
) t
CROSS JOIN LATERAL (SELECT eventsched_log.uid(t.uid) AS uid) u
LEFT JOIN eventsched_log.pod p ON p.stream = s.id AND p.uid = u.uid;

CREATE OR REPLACE VIEW eventsched.bindings AS
SELECT e.stream, e.namespace, e.pod, e.pod_uid, (e.record ->> 'attempt')::integer AS attempt,
       e.record ->> 'node' AS node, d.seq AS decided_seq, e.seq AS bound_seq,
       eventsched_log.time(d.at) AS decided_at, e.at AS bound_at
FROM eventsched.events e
JOIN eventsched_log.stream s ON s.name = e.stream
LEFT JOIN LATERAL (  -- the newest before: a uid may have come back, its attempts counted anew
    SELECT seq, at FROM eventsched_log.decision
    WHERE stream = s.id AND pod = e.pod_uid AND seq < e.seq
      AND attempt = (e.record ->> 'attempt')::integer
    ORDER BY seq DESC LIMIT 1
) d ON true
WHERE e.kind = 'PodBound';

CREATE OR REPLACE VIEW eventsched.memory AS
SELECT stream, plugin, key, value, seq, at
FROM (
    SELECT DISTINCT ON (stream, record ->> 'plugin', record ->> 'key')
           stream, record ->> 'plugin' AS plugin, record ->> 'key' AS key,
           record -> 'value' AS value, seq, at
    FROM eventsched.events
    WHERE kind = 'MemoryChanged'
    ORDER BY stream, record ->> 'plugin', record ->> 'key', seq DESC
) newest
WHERE value IS NOT NULL;  -- null: forgotten

CREATE OR REPLACE FUNCTION eventsched_log.vector(p_stream integer, p_seq bigint, p_place integer)
RETURNS TABLE (ordinal integer, value bigint) LANGUAGE sql STABLE AS $$
    WITH RECURSIVE chain AS (
        SELECT 0 AS depth, base, body FROM eventsched_log.detail
        WHERE stream = p_stream AND seq = p_seq
        UNION ALL
        SELECT c.depth + 1, d.base, d.body FROM chain c
        JOIN eventsched_log.detail d ON d.stream = p_stream AND d.seq = c.base
    ), size AS (
        SELECT eventsched_log.integer_at(body, 2, 4)::integer AS rows
        FROM chain
        WHERE depth = 0 AND p_place < get_byte(body, 6)
          AND EXISTS (SELECT FROM chain WHERE base IS NULL)
    ), latest AS (
        SELECT DISTINCT ON (e.ordinal) e.ordinal, e.value
        FROM chain c, eventsched_log.entries(c.body, p_place) e
        ORDER BY e.ordinal, c.depth
    )
    SELECT r, coalesce(l.value, 0)
    FROM size, generate_series(0, size.rows - 1) AS r LEFT JOIN latest l ON l.ordinal = r
$$;

CREATE OR REPLACE FUNCTION eventsched_log.keep_snapshot(
    p_stream integer, p_epoch integer, p_token uuid,
    p_seq bigint, p_hash bytea, p_digest text, p_version text, p_body bytea
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM eventsched_log.head
    WHERE stream = p_stream AND epoch = p_epoch AND token = p_token FOR UPDATE;
    IF NOT FOUND THEN RETURN; END IF;
    DELETE FROM eventsched_log.snapshot WHERE stream = p_stream;
    INSERT INTO eventsched_log.snapshot (stream, seq, hash, digest, version, body)
    VALUES (p_stream, p_seq, p_hash, p_digest, p_version, p_body);
END $$;

CREATE OR REPLACE FUNCTION eventsched_log.thin(p_stream text, p_before timestamptz)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_stream integer;
    v_end    bigint;
    v_count  bigint;
BEGIN
    SELECT id INTO v_stream FROM eventsched_log.stream WHERE name = p_stream;
    SELECT first + count INTO v_end FROM eventsched_log.batch
    WHERE stream = v_stream AND written_at < p_before ORDER BY first DESC LIMIT 1;
    WITH RECURSIVE needed AS (
        SELECT base FROM eventsched_log.detail
        WHERE stream = v_stream AND seq >= v_end AND base < v_end
        UNION
        SELECT d.base FROM needed n
        JOIN eventsched_log.detail d ON d.stream = v_stream AND d.seq = n.base
        WHERE d.base IS NOT NULL
    )
    DELETE FROM eventsched_log.detail d
    WHERE d.stream = v_stream AND d.seq < v_end
      AND NOT EXISTS (SELECT FROM needed n WHERE n.base = d.seq);
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $$;

DROP FUNCTION eventsched.events_between(text, bigint, bigint);
DROP FUNCTION eventsched.refusals(text, bigint);
DROP FUNCTION eventsched_log.events_of(text);
DROP FUNCTION eventsched_log.pod_uid(json);
ALTER FUNCTION eventsched_log.time(bigint) PARALLEL UNSAFE;
ALTER FUNCTION eventsched_log.uid(text) PARALLEL UNSAFE;
ALTER FUNCTION eventsched_log.record(integer, bigint) PARALLEL UNSAFE;
ALTER FUNCTION eventsched_log.entries(bytea, integer) PARALLEL UNSAFE;
ALTER FUNCTION eventsched_log.integer_at(bytea, integer, integer) PARALLEL UNSAFE;
ALTER FUNCTION eventsched_log.scored(integer, bigint) PARALLEL UNSAFE;
ALTER FUNCTION eventsched_log.rows_in(text) PARALLEL UNSAFE;
ALTER FUNCTION eventsched_log.eviction_end(integer, bigint, bigint, text, boolean) PARALLEL UNSAFE;
ALTER FUNCTION eventsched.verdicts(text, bigint) PARALLEL UNSAFE;
ALTER FUNCTION eventsched.scores(text, bigint) PARALLEL UNSAFE;
ALTER FUNCTION eventsched.candidates(text, bigint) PARALLEL UNSAFE;
