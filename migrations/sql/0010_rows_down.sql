-- The views as they were before 0010_rows.sql, over the records themselves.

DROP VIEW eventsched.bindings, eventsched.queue_stays, eventsched.kinds;
DROP FUNCTION eventsched.events_of_pod(text, text);
DROP FUNCTION eventsched_log.batches_of(integer, uuid);

CREATE OR REPLACE VIEW eventsched.queue_moves AS
SELECT stream, seq, at, namespace, pod, pod_uid, record ->> 'queue' AS queue,
       record ->> 'cause' AS cause, cause AS caused_by, record ->> 'plugin' AS plugin,
       ARRAY(SELECT json_array_elements_text(record -> 'rejectors')) AS rejectors,
       ARRAY(SELECT json_array_elements_text(record -> 'pending')) AS pending,
       eventsched_log.time((record ->> 'until')::bigint) AS until,
       coalesce((record ->> 'failures')::integer, 0) AS failures,
       coalesce((record ->> 'errors')::integer, 0) AS errors, record ->> 'message' AS message
FROM eventsched.events
WHERE kind = 'PodQueued';

CREATE OR REPLACE VIEW eventsched.refusals AS
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

CREATE OR REPLACE VIEW eventsched.reservations AS
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

CREATE VIEW eventsched.bindings AS
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

COMMENT ON VIEW eventsched.bindings IS
    'Pods that we placed and that were bound, with the decision that did it';
COMMENT ON COLUMN eventsched.bindings.decided_seq IS 'Position of the decision';
COMMENT ON COLUMN eventsched.bindings.bound_seq IS 'Position of the record that says it is bound';

DROP TABLE eventsched_log.queue_move, eventsched_log.queue_stay, eventsched_log.reservation,
    eventsched_log.pod_end, eventsched_log.refusal, eventsched_log.mention,
    eventsched_log.record_count;
ALTER TABLE eventsched_log.pod_now DROP COLUMN reserved_seq, DROP COLUMN reserved_at;
