-- For people: nothing but SQL is needed to read them. Made from the bodies and the derived tables.

CREATE FUNCTION eventsched_log.time(p_at bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE
    AS $$ SELECT 'epoch'::timestamptz + p_at * interval '1 microsecond' $$;

CREATE VIEW eventsched.streams AS
SELECT s.name AS stream, h.next AS records, h.epoch, h.holder,
       (SELECT count(*) FROM eventsched_log.batch b WHERE b.stream = s.id) AS batches,
       s.created_at,
       (SELECT written_at FROM eventsched_log.batch b WHERE b.stream = s.id
        ORDER BY first DESC LIMIT 1) AS written_at,
       encode(h.hash, 'hex') AS head
FROM eventsched_log.stream s JOIN eventsched_log.head h ON h.stream = s.id;

CREATE VIEW eventsched.events AS
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

CREATE VIEW eventsched.decisions AS
SELECT s.name AS stream, d.seq, eventsched_log.time(d.at) AS at, p.namespace, p.name AS pod,
       d.pod AS pod_uid, d.attempt, d.profile, d.outcome::text AS outcome, d.node, d.score,
       d.runner_up, d.runner_up_score, d.feasible, d.evaluated, d.ties,
       CASE WHEN d.draw < 0 THEN d.draw + 18446744073709551616 ELSE d.draw::numeric END AS draw
FROM eventsched_log.decision d
JOIN eventsched_log.stream s ON s.id = d.stream
LEFT JOIN eventsched_log.pod p ON p.stream = d.stream AND p.uid = d.pod;

CREATE VIEW eventsched.refusals AS
SELECT e.stream, e.seq, e.at, e.namespace, e.pod, e.pod_uid,
       (e.record ->> 'attempt')::integer AS attempt,
       CASE WHEN c.number >= 65533 THEN NULL ELSE nullif(v.plugin, '') END AS plugin,
       CASE c.number WHEN 65533 THEN 'Excluded' WHEN 65534 THEN 'NotEvaluated' ELSE v.code END
           AS code,
       CASE c.number WHEN 65533 THEN 'PreFilter left the node out'
                     WHEN 65534 THEN 'the search ended before this node'
                     ELSE array_to_string(v.reasons, ', ') END AS reason,
       c.nodes
FROM eventsched.events e
JOIN eventsched_log.stream s ON s.name = e.stream
CROSS JOIN LATERAL (
    SELECT (item ->> 0)::integer AS number, (item ->> 1)::integer AS nodes
    FROM json_array_elements(e.record -> 'counts') AS item
) c
LEFT JOIN eventsched_log.verdict v ON v.stream = s.id AND v.number = c.number
WHERE e.kind = 'PodDecided';

CREATE VIEW eventsched.bindings AS
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

CREATE VIEW eventsched.queue_moves AS
SELECT stream, seq, at, namespace, pod, pod_uid, record ->> 'queue' AS queue,
       record ->> 'cause' AS cause, cause AS caused_by, record ->> 'plugin' AS plugin,
       ARRAY(SELECT json_array_elements_text(record -> 'rejectors')) AS rejectors,
       ARRAY(SELECT json_array_elements_text(record -> 'pending')) AS pending,
       eventsched_log.time((record ->> 'until')::bigint) AS until,
       coalesce((record ->> 'failures')::integer, 0) AS failures,
       coalesce((record ->> 'errors')::integer, 0) AS errors, record ->> 'message' AS message
FROM eventsched.events
WHERE kind = 'PodQueued';

CREATE VIEW eventsched.reservations AS
SELECT stream, namespace, pod, pod_uid, attempt, node, seq AS reserved_seq, at AS reserved_at,
       CASE WHEN seen_first THEN next_seq ELSE end_seq END AS ended_seq,
       CASE WHEN seen_first THEN next_at ELSE end_at END AS ended_at,
       CASE WHEN seen_first THEN next_kind ELSE end_kind END AS ended_by
FROM (
    SELECT stream, namespace, pod, pod_uid, seq, at, kind, record ->> 'node' AS node,
           (record ->> 'attempt')::integer AS attempt,
           lead(seq) OVER later AS end_seq, lead(at) OVER later AS end_at,
           lead(kind) OVER later AS end_kind,
           lead(seq, 2) OVER later AS next_seq, lead(at, 2) OVER later AS next_at,
           lead(kind, 2) OVER later AS next_kind,
           -- The cluster showed the pod on its node before our bind's outcome came: PodBound
           -- follows in the same step.
           lead(kind) OVER later = 'PodUpdated' AND lead(kind, 2) OVER later = 'PodBound'
               AND lead(cause, 2) OVER later = lead(cause) OVER later AS seen_first
    FROM eventsched.events
    WHERE kind IN ('PodBound', 'PodUnreserved', 'PodDeleted')
       OR kind = 'PodDecided' AND record ->> 'outcome' IN ('scheduled', 'waiting')
       OR kind = 'PodUpdated' AND record -> 'pod' ->> 'node_name' <> ''
    WINDOW later AS (PARTITION BY stream, pod_uid ORDER BY seq)
) moves
WHERE kind = 'PodDecided';

CREATE VIEW eventsched.first_nodes AS
SELECT stream, key, node, seq, at
FROM (
    SELECT DISTINCT ON (stream, record ->> 'key')
           stream, record ->> 'key' AS key, record ->> 'value' AS node, seq, at
    FROM eventsched.events
    WHERE kind = 'MemoryChanged' AND record ->> 'plugin' = 'FirstScheduledNode'
    ORDER BY stream, record ->> 'key', seq DESC
) newest
WHERE node IS NOT NULL;  -- null: forgotten

-- A record by its position.
CREATE FUNCTION eventsched_log.record(p_stream integer, p_seq bigint) RETURNS json
LANGUAGE sql STABLE AS $$
    SELECT body -> (p_seq - first)::integer -> 3
    FROM eventsched_log.batch
    WHERE stream = p_stream AND first <= p_seq
    ORDER BY first DESC LIMIT 1
$$;

-- One column of a stored vector (0: codes, then the scores, then normalised ones): the rows that
-- the detail names for it, and their values. docs/log-format.md has the layout.
CREATE FUNCTION eventsched_log.entries(p_body bytea, p_place integer)
RETURNS TABLE (ordinal integer, value bigint) LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_body  bytea := p_body || ''::bytea;  -- decompressed once, not for every byte
    v_wide  integer := get_byte(v_body, 1);
    v_size  integer := eventsched_log.integer_at(v_body, 2, 4);
    v_count integer := v_size;
    v_at    integer := 8;
    v_rows  integer;
    v_kind  integer;
    v_step  integer;
BEGIN
    IF p_place >= get_byte(v_body, 6) THEN RETURN; END IF;
    FOR place IN 0 .. p_place LOOP
        v_kind := get_byte(v_body, v_at);
        v_at := v_at + 1;
        CONTINUE WHEN v_kind = 0;
        IF v_wide > 0 THEN
            v_count := eventsched_log.integer_at(v_body, v_at, 4);
            v_rows := v_at + 4;
            v_at := v_rows + CASE WHEN v_kind & 64 = 64 THEN (v_size + 7) / 8
                                  ELSE v_wide * v_count END;
        END IF;
        v_step := CASE WHEN v_kind & 16 = 16 THEN 0 ELSE v_kind & 15 END;
        EXIT WHEN place = p_place;
        v_at := v_at + CASE v_step WHEN 0 THEN v_kind & 15 ELSE v_step * v_count END;
    END LOOP;
    IF v_kind = 0 THEN RETURN; END IF;
    RETURN QUERY
    SELECT n.number, eventsched_log.integer_at(v_body, v_at + n.place * v_step, v_kind & 15)
    FROM (
        SELECT i, CASE v_wide WHEN 0 THEN i
                       WHEN 2 THEN eventsched_log.integer_at(v_body, v_rows + 2 * i, 2) & 65535
                       ELSE eventsched_log.integer_at(v_body, v_rows + 4 * i, 4) END::integer
        FROM generate_series(0, v_count - 1) AS i WHERE v_kind & 64 = 0
        UNION ALL
        SELECT (row_number() OVER (ORDER BY i))::integer - 1, i
        FROM generate_series(0, v_size - 1) AS i
        WHERE v_kind & 64 = 64 AND get_bit(v_body, 8 * v_rows + i) = 1
    ) AS n (place, number);
END $$;

CREATE FUNCTION eventsched_log.integer_at(p_body bytea, p_at integer, p_width integer)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE p_width
        WHEN 1 THEN (get_byte(p_body, p_at) + 128) % 256 - 128
        WHEN 2 THEN (get_byte(p_body, p_at) + get_byte(p_body, p_at + 1) * 256 + 32768) % 65536
                    - 32768
        WHEN 4 THEN get_byte(p_body, p_at) + get_byte(p_body, p_at + 1) * 256
                  + get_byte(p_body, p_at + 2) * 65536
                  + ((get_byte(p_body, p_at + 3) + 128) % 256 - 128) * 16777216
        ELSE (eventsched_log.integer_at(p_body, p_at, 4) & 4294967295)
           | (eventsched_log.integer_at(p_body, p_at + 4, 4) << 32)
    END::bigint
$$;

-- One column of a decision over all rows, deltas followed back to a whole record; nothing where a
-- part of that chain is gone.
CREATE FUNCTION eventsched_log.vector(p_stream integer, p_seq bigint, p_place integer)
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

-- MATERIALIZED below: a vector is worked out once, not once for every row that it is joined to.

CREATE FUNCTION eventsched.verdicts(p_stream text, p_seq bigint)
RETURNS TABLE (node text, plugin text, code text, reason text) LANGUAGE sql STABLE AS $$
    WITH codes AS MATERIALIZED (
        SELECT s.id AS stream, c.ordinal, (c.value & 65535)::integer AS number
        FROM eventsched_log.stream s CROSS JOIN LATERAL eventsched_log.vector(s.id, p_seq, 0) c
        WHERE s.name = p_stream
    )
    SELECT n.name, v.plugin,
           CASE c.number WHEN 0 THEN 'Success' WHEN 65533 THEN 'Excluded'
                WHEN 65534 THEN 'NotEvaluated' ELSE v.code END,
           CASE c.number WHEN 65533 THEN 'PreFilter left the node out'
                WHEN 65534 THEN 'the search ended before this node'
                ELSE array_to_string(v.reasons, ', ') END
    FROM codes c
    JOIN eventsched_log.node n ON n.stream = c.stream AND n.ordinal = c.ordinal
    LEFT JOIN eventsched_log.verdict v ON v.stream = c.stream AND v.number = c.number
    WHERE c.number <> 65535
    ORDER BY c.ordinal
$$;

-- Every feasible node's raw and normalised score by each plugin; the rules are upstream's
-- (helper/normalize_score.go), their parameters stand in the decision.
CREATE FUNCTION eventsched_log.scored(p_stream integer, p_seq bigint)
RETURNS TABLE (ordinal integer, place integer, plugin text, weight bigint, raw bigint,
               normalized bigint)
LANGUAGE sql STABLE AS $$
    WITH decided AS MATERIALIZED (
        SELECT (record ->> 'scoring')::integer AS scoring, record -> 'parameters' AS parameters
        FROM eventsched_log.record(p_stream, p_seq) AS record
    ), columns AS MATERIALIZED (
        SELECT c.place, c.plugin, c.weight, c.normalization,
               (d.parameters -> c.place ->> 0)::bigint AS low,
               (d.parameters -> c.place ->> 1)::bigint AS high,
               (count(*) OVER ())::integer + 1 + c.place AS own
        FROM decided d
        JOIN eventsched_log.scoring c ON c.stream = p_stream AND c.number = d.scoring
    ), feasible AS MATERIALIZED (
        SELECT f.ordinal FROM eventsched_log.vector(p_stream, p_seq, 0) f WHERE f.value = 0
    ), raws AS MATERIALIZED (
        SELECT c.place, r.ordinal, r.value
        FROM columns c CROSS JOIN LATERAL eventsched_log.vector(p_stream, p_seq, c.place + 1) r
    ), owns AS MATERIALIZED (
        SELECT c.place, o.ordinal, o.value
        FROM columns c CROSS JOIN LATERAL eventsched_log.vector(p_stream, p_seq, c.own) o
        WHERE c.normalization = 'own'
    )
    SELECT r.ordinal, c.place, c.plugin, c.weight, r.value,
           CASE c.normalization
               WHEN 'identity' THEN r.value
               WHEN 'default' THEN CASE c.low WHEN 0 THEN r.value ELSE r.value * 100 / c.low END
               WHEN 'reversed' THEN
                   100 - CASE c.low WHEN 0 THEN r.value ELSE r.value * 100 / c.low END
               WHEN 'min-max' THEN CASE WHEN c.low = c.high THEN 0
                                   ELSE (r.value - c.low) * 100 / (c.high - c.low) END
               WHEN 'ratio' THEN CASE WHEN c.low = c.high THEN 0 ELSE trunc(100::float8
                                  * ((r.value - c.low)::float8 / (c.high - c.low)::float8)) END
               WHEN 'spread' THEN CASE WHEN r.value = -1 THEN 0 WHEN c.high = 0 THEN 100
                                  ELSE (c.high + c.low - r.value) * 100 / c.high END
               ELSE o.value
           END
    FROM raws r
    JOIN feasible f ON f.ordinal = r.ordinal
    JOIN columns c ON c.place = r.place
    LEFT JOIN owns o ON o.place = r.place AND o.ordinal = r.ordinal
$$;

CREATE FUNCTION eventsched.scores(p_stream text, p_seq bigint)
RETURNS TABLE (node text, plugin text, raw bigint, normalized bigint, weighted bigint,
               rank bigint)
LANGUAGE sql STABLE AS $$
    WITH totals AS MATERIALIZED (
        SELECT s.id AS stream, c.*,
               sum(c.normalized * c.weight) OVER (PARTITION BY c.ordinal) AS total
        FROM eventsched_log.stream s CROSS JOIN LATERAL eventsched_log.scored(s.id, p_seq) c
        WHERE s.name = p_stream
    )
    SELECT n.name, t.plugin, t.raw, t.normalized, t.normalized * t.weight,
           rank() OVER (PARTITION BY t.place ORDER BY t.total DESC) AS rank
    FROM totals t
    JOIN eventsched_log.node n ON n.stream = t.stream AND n.ordinal = t.ordinal
    ORDER BY rank, t.ordinal, t.place
$$;
