-- The views over the rows of 0010_rows.sql.

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

CREATE VIEW eventsched.queue_stays AS
SELECT s.name AS stream, p.namespace, p.name AS pod, q.pod AS pod_uid, q.queue,
       eventsched_log.time(q.since) AS since, eventsched_log.time(q.until) AS until,
       q.ended_seq
FROM (
    SELECT stream, pod, queue, since, until, seq AS ended_seq FROM eventsched_log.queue_stay
    UNION ALL
    SELECT stream, uid AS pod, state AS queue, since, NULL::bigint AS until,
           NULL::bigint AS ended_seq
    FROM eventsched_log.pod_now
    WHERE state IN ('active', 'backoff', 'unschedulable', 'gated')
) q
JOIN eventsched_log.chosen_stream s ON s.id = q.stream
LEFT JOIN eventsched_log.pod p ON p.stream = q.stream AND p.uid = q.pod;

CREATE OR REPLACE VIEW eventsched.bindings AS
SELECT s.name AS stream, p.namespace, p.name AS pod, r.pod AS pod_uid, r.attempt, r.node,
       r.decided_seq, r.seq AS bound_seq, eventsched_log.time(r.decided_at) AS decided_at,
       eventsched_log.time(r.at) AS bound_at,
       (SELECT eventsched_log.time(e.at) FROM eventsched_log.pod_end e
        WHERE e.stream = r.stream AND e.pod = r.pod AND e.seq > r.seq ORDER BY e.seq LIMIT 1)
           AS gone_at
FROM eventsched_log.reservation r
JOIN eventsched_log.chosen_stream s ON s.id = r.stream
LEFT JOIN eventsched_log.pod p ON p.stream = r.stream AND p.uid = r.pod
WHERE r.ended_by = 'PodBound';

CREATE OR REPLACE VIEW eventsched.reservations AS
SELECT s.name AS stream, p.namespace, p.name AS pod, r.pod AS pod_uid, r.attempt, r.node,
       r.decided_seq AS reserved_seq, eventsched_log.time(r.decided_at) AS reserved_at,
       r.seq AS ended_seq, eventsched_log.time(r.at) AS ended_at, r.ended_by
FROM (
    SELECT stream, pod, attempt, node, decided_seq, decided_at, seq, at, ended_by
    FROM eventsched_log.reservation
    UNION ALL
    SELECT stream, uid AS pod, attempts AS attempt, node, reserved_seq AS decided_seq,
           reserved_at AS decided_at, NULL::bigint AS seq, NULL::bigint AS at,
           NULL::text AS ended_by
    FROM eventsched_log.pod_now
) r
JOIN eventsched_log.chosen_stream s ON s.id = r.stream
LEFT JOIN eventsched_log.pod p ON p.stream = r.stream AND p.uid = r.pod
WHERE r.decided_seq IS NOT NULL;

CREATE OR REPLACE VIEW eventsched.refusals AS
SELECT s.name AS stream, r.seq, eventsched_log.time(d.at) AS at, p.namespace, p.name AS pod,
       d.pod AS pod_uid, d.attempt,
       CASE WHEN r.number >= 65533 THEN NULL ELSE nullif(v.plugin, '') END AS plugin,
       CASE r.number WHEN 65533 THEN 'Excluded' WHEN 65534 THEN 'NotEvaluated' ELSE v.code END
           AS code,
       CASE r.number WHEN 65533 THEN 'PreFilter left the node out'
                     WHEN 65534 THEN 'the search ended before this node'
                     ELSE array_to_string(v.reasons, ', ') END AS reason,
       r.nodes
FROM eventsched_log.refusal r
JOIN eventsched_log.chosen_stream s ON s.id = r.stream
LEFT JOIN eventsched_log.decision d ON d.stream = r.stream AND d.seq = r.seq
LEFT JOIN eventsched_log.pod p ON p.stream = d.stream AND p.uid = d.pod
LEFT JOIN eventsched_log.verdict v ON v.stream = r.stream AND v.number = r.number;

CREATE VIEW eventsched.kinds AS
SELECT s.name AS stream, c.kind, c.records
FROM eventsched_log.record_count c JOIN eventsched_log.chosen_stream s ON s.id = c.stream;

-- The first positions of the batches that have records about a pod.
CREATE FUNCTION eventsched_log.batches_of(p_stream integer, p_pod uuid)
RETURNS SETOF bigint LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT DISTINCT b.first
    FROM (
        SELECT seq FROM eventsched_log.pod WHERE stream = p_stream AND uid = p_pod
        UNION ALL SELECT seq FROM eventsched_log.queue_move WHERE stream = p_stream AND pod = p_pod
        UNION ALL SELECT seq FROM eventsched_log.decision WHERE stream = p_stream AND pod = p_pod
        UNION ALL SELECT seq FROM eventsched_log.reservation WHERE stream = p_stream AND pod = p_pod
        UNION ALL SELECT seq FROM eventsched_log.pod_end WHERE stream = p_stream AND pod = p_pod
        UNION ALL SELECT first FROM eventsched_log.mention WHERE stream = p_stream AND pod = p_pod
    ) r
    CROSS JOIN LATERAL (
        SELECT first FROM eventsched_log.batch
        WHERE stream = p_stream AND first <= r.seq ORDER BY first DESC LIMIT 1
    ) b
    ORDER BY b.first
$$;

-- The rows of view events that are about a pod, or name it as a victim, by index.
CREATE FUNCTION eventsched.events_of_pod(p_stream text, p_uid text)
RETURNS TABLE (stream text, seq bigint, at timestamptz, cause bigint, kind text, record json)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT s.name, b.first + e.n - 1, eventsched_log.time((e.item ->> 0)::bigint),
           (e.item ->> 1)::bigint, e.item -> 3 ->> 'kind', e.item -> 3
    FROM eventsched_log.stream s
    CROSS JOIN LATERAL eventsched_log.batches_of(s.id, eventsched_log.uid(p_uid)) AS f (first)
    JOIN eventsched_log.batch b ON b.stream = s.id AND b.first = f.first
    CROSS JOIN LATERAL json_array_elements(b.body) WITH ORDINALITY AS e (item, n)
    WHERE s.name = p_stream
      AND (eventsched_log.pod_uid(e.item) = eventsched_log.uid(p_uid)
           OR e.item #>> '{3,kind}' = 'PreemptionDecided'
              AND e.item #> '{3,victims}' IS NOT NULL
              AND p_uid IN (SELECT json_array_elements_text(e.item #> '{3,victims}')))
$$;

COMMENT ON TABLE eventsched_log.queue_move IS 'Derived: one row per move of a pod to a queue';
COMMENT ON TABLE eventsched_log.queue_stay IS
    'Derived: one row per stay of a pod in a queue, written when it ends';
COMMENT ON TABLE eventsched_log.reservation IS
    'Derived: one row per reservation of a node for a pod, written when it ends';
COMMENT ON TABLE eventsched_log.pod_end IS 'Derived: one row per end of a pod';
COMMENT ON TABLE eventsched_log.refusal IS
    'Derived: how many nodes a decision refused with one code';
COMMENT ON TABLE eventsched_log.mention IS
    'Derived: the batches with records about a pod that no other table lists';
COMMENT ON TABLE eventsched_log.record_count IS 'Derived: the number of records of each kind';
COMMENT ON FUNCTION eventsched_log.batches_of IS
    'The first positions of the batches that have records about a pod; by index';
COMMENT ON FUNCTION eventsched.events_of_pod IS
    'The rows of view events that are about a pod of a stream, or name it as a victim; by index';
COMMENT ON VIEW eventsched.queue_stays IS
    'A pod''s time in a queue; until is null while it is there';
COMMENT ON COLUMN eventsched.queue_stays.ended_seq IS
    'Position of the record that ended it: a decision, a move to another queue, the pod''s end';
COMMENT ON VIEW eventsched.kinds IS 'The number of records of each kind, ever';
COMMENT ON COLUMN eventsched.bindings.gone_at IS 'When the pod ended; null while it exists';
