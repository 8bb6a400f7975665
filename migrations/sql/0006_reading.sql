-- Questions that need not unfold the whole log, and the right to answer the others in parallel.

-- Only new rows are stored so: the hash stays beside its batch instead of going out of line first.
ALTER TABLE eventsched_log.batch ALTER hash SET STORAGE PLAIN;

-- The uid of the pod that an element of a body is about. In plpgsql: in SQL it would be worked into
-- the query, and the text of the record parsed once for each time that the uid stands there.
CREATE FUNCTION eventsched_log.pod_uid(p_item json) RETURNS uuid
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN eventsched_log.uid(coalesce(p_item #>> '{3,uid}', p_item #>> '{3,pod,uid}'));
END $$;

-- Without a fence in it (OFFSET 0): that forbids a parallel plan, and the uid is worked out where
-- nobody asks for it.
CREATE OR REPLACE VIEW eventsched.events AS
SELECT s.name AS stream, b.first + e.n - 1 AS seq,
       eventsched_log.time((e.item ->> 0)::bigint) AS at, (e.item ->> 1)::bigint AS cause,
       e.item -> 3 ->> 'kind' AS kind, p.namespace, p.name AS pod, u.uid AS pod_uid,
       e.item -> 3 AS record, b.epoch, b.written_at
FROM eventsched_log.stream s
JOIN eventsched_log.batch b ON b.stream = s.id
CROSS JOIN LATERAL json_array_elements(b.body) WITH ORDINALITY AS e (item, n)
CROSS JOIN LATERAL (SELECT eventsched_log.pod_uid(e.item) AS uid) u
LEFT JOIN eventsched_log.pod p ON p.stream = s.id AND p.uid = u.uid;

-- The records of one kind. Batches without it are passed over before their bodies are parsed: a
-- record's text begins with its kind.
CREATE FUNCTION eventsched_log.events_of(p_kind text)
RETURNS TABLE (stream text, stream_id integer, seq bigint, at timestamptz, cause bigint,
               namespace text, pod text, pod_uid uuid, record json)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT s.name, s.id, b.first + e.n - 1, eventsched_log.time((e.item ->> 0)::bigint),
           (e.item ->> 1)::bigint, p.namespace, p.name, u.uid, e.item -> 3
    FROM eventsched_log.stream s
    JOIN eventsched_log.batch b ON b.stream = s.id
    CROSS JOIN LATERAL json_array_elements(b.body) WITH ORDINALITY AS e (item, n)
    CROSS JOIN LATERAL (SELECT eventsched_log.pod_uid(e.item) AS uid) u
    LEFT JOIN eventsched_log.pod p ON p.stream = s.id AND p.uid = u.uid
    WHERE strpos(b.body::text, '"kind":"' || p_kind || '"') > 0
      AND e.item -> 3 ->> 'kind' = p_kind
$$;

-- The rows of view events from a position to another one, both included, by index.
CREATE FUNCTION eventsched.events_between(p_stream text, p_from bigint, p_to bigint)
RETURNS TABLE (stream text, seq bigint, at timestamptz, cause bigint, kind text, namespace text,
               pod text, pod_uid uuid, record json, epoch integer, written_at timestamptz)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT s.name, b.first + e.n - 1, eventsched_log.time((e.item ->> 0)::bigint),
           (e.item ->> 1)::bigint, e.item -> 3 ->> 'kind', p.namespace, p.name, u.uid,
           e.item -> 3, b.epoch, b.written_at
    FROM eventsched_log.stream s
    CROSS JOIN LATERAL (
        SELECT b.first, b.body, b.epoch, b.written_at FROM eventsched_log.batch b
        WHERE b.stream = s.id AND b.first <= p_to
          AND b.first >= coalesce((SELECT c.first FROM eventsched_log.batch c
                                   WHERE c.stream = s.id AND c.first <= p_from
                                   ORDER BY c.first DESC LIMIT 1), 0)
    ) b
    CROSS JOIN LATERAL json_array_elements(b.body) WITH ORDINALITY AS e (item, n)
    CROSS JOIN LATERAL (SELECT eventsched_log.pod_uid(e.item) AS uid) u
    LEFT JOIN eventsched_log.pod p ON p.stream = s.id AND p.uid = u.uid
    WHERE s.name = p_stream AND b.first + e.n - 1 BETWEEN p_from AND p_to
$$;

-- The rows of view refusals of one decision, by index.
CREATE FUNCTION eventsched.refusals(p_stream text, p_seq bigint)
RETURNS TABLE (plugin text, code text, reason text, nodes integer)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN c.number >= 65533 THEN NULL ELSE nullif(v.plugin, '') END,
           CASE c.number WHEN 65533 THEN 'Excluded' WHEN 65534 THEN 'NotEvaluated' ELSE v.code END,
           CASE c.number WHEN 65533 THEN 'PreFilter left the node out'
                         WHEN 65534 THEN 'the search ended before this node'
                         ELSE array_to_string(v.reasons, ', ') END,
           c.nodes
    FROM eventsched_log.stream s
    CROSS JOIN LATERAL eventsched_log.record(s.id, p_seq) AS record
    CROSS JOIN LATERAL (
        SELECT (item ->> 0)::integer AS number, (item ->> 1)::integer AS nodes
        FROM json_array_elements(record -> 'counts') AS item
    ) c
    LEFT JOIN eventsched_log.verdict v ON v.stream = s.id AND v.number = c.number
    WHERE s.name = p_stream AND record ->> 'kind' = 'PodDecided'
$$;

-- Each step of the chain by index, whatever the planner thinks of joins.
CREATE OR REPLACE FUNCTION eventsched_log.vector(p_stream integer, p_seq bigint, p_place integer)
RETURNS TABLE (ordinal integer, value bigint) LANGUAGE sql STABLE PARALLEL SAFE AS $$
    WITH RECURSIVE chain AS (
        SELECT 0 AS depth, base, body FROM eventsched_log.detail
        WHERE stream = p_stream AND seq = p_seq
        UNION ALL
        SELECT c.depth + 1, d.base, d.body FROM chain c
        CROSS JOIN LATERAL (
            SELECT base, body FROM eventsched_log.detail
            WHERE stream = p_stream AND seq = c.base LIMIT 1
        ) d
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

-- All that only reads.
ALTER FUNCTION eventsched_log.time(bigint) PARALLEL SAFE;
ALTER FUNCTION eventsched_log.uid(text) PARALLEL SAFE;
ALTER FUNCTION eventsched_log.record(integer, bigint) PARALLEL SAFE;
ALTER FUNCTION eventsched_log.entries(bytea, integer) PARALLEL SAFE;
ALTER FUNCTION eventsched_log.integer_at(bytea, integer, integer) PARALLEL SAFE;
ALTER FUNCTION eventsched_log.scored(integer, bigint) PARALLEL SAFE;
ALTER FUNCTION eventsched_log.rows_in(text) PARALLEL SAFE;
ALTER FUNCTION eventsched_log.eviction_end(integer, bigint, bigint, text, boolean) PARALLEL SAFE;
ALTER FUNCTION eventsched.verdicts(text, bigint) PARALLEL SAFE;
ALTER FUNCTION eventsched.scores(text, bigint) PARALLEL SAFE;
ALTER FUNCTION eventsched.candidates(text, bigint) PARALLEL SAFE;

CREATE OR REPLACE VIEW eventsched.bindings AS
SELECT e.stream, e.namespace, e.pod, e.pod_uid, (e.record ->> 'attempt')::integer AS attempt,
       e.record ->> 'node' AS node, d.seq AS decided_seq, e.seq AS bound_seq,
       eventsched_log.time(d.at) AS decided_at, e.at AS bound_at
FROM eventsched_log.events_of('PodBound') e
LEFT JOIN LATERAL (  -- the newest before: a uid may have come back, its attempts counted again
    SELECT seq, at FROM eventsched_log.decision
    WHERE stream = e.stream_id AND pod = e.pod_uid AND seq < e.seq
      AND attempt = (e.record ->> 'attempt')::integer
    ORDER BY seq DESC LIMIT 1
) d ON true;

CREATE OR REPLACE VIEW eventsched.memory AS
SELECT stream, plugin, key, value, seq, at
FROM (
    SELECT DISTINCT ON (stream, record ->> 'plugin', record ->> 'key')
           stream, record ->> 'plugin' AS plugin, record ->> 'key' AS key,
           record -> 'value' AS value, seq, at
    FROM eventsched_log.events_of('MemoryChanged')
    ORDER BY stream, record ->> 'plugin', record ->> 'key', seq DESC
) newest
WHERE value IS NOT NULL;  -- null: forgotten

-- The newest three, so that one that a newer version cannot use, or that is damaged, is not the
-- only one. What lies at or after the new one is of a history that is no more.
CREATE OR REPLACE FUNCTION eventsched_log.keep_snapshot(
    p_stream integer, p_epoch integer, p_token uuid,
    p_seq bigint, p_hash bytea, p_digest text, p_version text, p_body bytea
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM eventsched_log.head
    WHERE stream = p_stream AND epoch = p_epoch AND token = p_token FOR UPDATE;
    IF NOT FOUND THEN RETURN; END IF;
    DELETE FROM eventsched_log.snapshot
    WHERE stream = p_stream AND (seq >= p_seq OR seq < (
        SELECT min(seq) FROM (
            SELECT seq FROM eventsched_log.snapshot WHERE stream = p_stream AND seq < p_seq
            ORDER BY seq DESC LIMIT 2) AS kept));
    INSERT INTO eventsched_log.snapshot (stream, seq, hash, digest, version, body)
    VALUES (p_stream, p_seq, p_hash, p_digest, p_version, p_body);
END $$;

-- As before, but the place is found by halving, not by walking back through all that is kept.
CREATE OR REPLACE FUNCTION eventsched_log.thin(p_stream text, p_before timestamptz)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_stream integer;
    v_end    bigint := 0;  -- all before it is old
    v_young  bigint;       -- the first position of a batch that is not, or the head
    v_batch  record;
    v_count  bigint;
BEGIN
    SELECT s.id, h.next INTO v_stream, v_young
    FROM eventsched_log.stream s JOIN eventsched_log.head h ON h.stream = s.id
    WHERE s.name = p_stream;
    WHILE v_end < v_young LOOP
        SELECT b.first, b.count, b.written_at INTO STRICT v_batch FROM eventsched_log.batch b
        WHERE b.stream = v_stream AND b.first <= (v_end + v_young - 1) / 2
        ORDER BY b.first DESC LIMIT 1;
        IF v_batch.written_at < p_before THEN
            v_end := v_batch.first + v_batch.count;
        ELSE
            v_young := v_batch.first;
        END IF;
    END LOOP;
    IF v_end = 0 THEN RETURN 0; END IF;
    WITH RECURSIVE needed AS (
        SELECT base FROM eventsched_log.detail
        WHERE stream = v_stream AND seq >= v_end AND base < v_end
        UNION
        SELECT d.base FROM needed n
        CROSS JOIN LATERAL (
            SELECT base FROM eventsched_log.detail
            WHERE stream = v_stream AND seq = n.base LIMIT 1
        ) d
        WHERE d.base IS NOT NULL
    )
    DELETE FROM eventsched_log.detail d
    WHERE d.stream = v_stream AND d.seq < v_end
      AND NOT EXISTS (SELECT FROM needed n WHERE n.base = d.seq);
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $$;

COMMENT ON FUNCTION eventsched.events_between IS
    'The rows of view events from a position of a stream to another one, both included; by index';
COMMENT ON FUNCTION eventsched.refusals IS
    'The rows of view refusals of the decision at a position of a stream; by index';
COMMENT ON FUNCTION eventsched_log.pod_uid IS
    'The uid of the pod that an element of a batch''s body is about, as views have it';
COMMENT ON FUNCTION eventsched_log.events_of IS
    'The records of one kind; batches without it are not parsed';
