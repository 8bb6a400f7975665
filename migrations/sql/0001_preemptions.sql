-- For people: who had to make room for whom, and what else was considered.

CREATE VIEW eventsched.preemptions AS
SELECT e.stream, e.seq, e.at, e.namespace, e.pod, e.pod_uid,
       (e.record ->> 'attempt')::integer AS attempt, e.record ->> 'node' AS node,
       e.record ->> 'criterion' AS criterion,
       ARRAY(SELECT coalesce(p.namespace || '/' || p.name, v.uid)
             FROM json_array_elements_text(e.record -> 'victims') WITH ORDINALITY AS v (uid, n)
             LEFT JOIN eventsched_log.pod p
                 ON p.stream = s.id AND p.uid = eventsched_log.uid(v.uid)
             ORDER BY v.n) AS victims,
       coalesce((e.record ->> 'nodes')::integer, 0) AS nodes,
       coalesce((e.record ->> 'looked')::integer, 0) AS looked,
       coalesce((e.record ->> 'candidates')::integer, 0) AS candidates,
       coalesce((e.record ->> 'violations')::integer, 0) AS violations,
       coalesce((e.record ->> 'highest')::integer, 0) AS highest,
       coalesce((e.record ->> 'total')::bigint, 0) AS total,
       eventsched_log.time((e.record ->> 'start')::bigint) AS start,
       l.node AS landed_on, l.seq AS landed_seq
FROM eventsched.events e
JOIN eventsched_log.stream s ON s.name = e.stream
LEFT JOIN LATERAL (  -- the next attempt that found a node
    SELECT seq, node FROM eventsched_log.decision
    WHERE stream = s.id AND pod = e.pod_uid AND seq > e.seq
      AND outcome IN ('scheduled', 'waiting')
    ORDER BY seq LIMIT 1
) l ON true
WHERE e.kind = 'PreemptionDecided';

CREATE VIEW eventsched.evictions AS
WITH intents AS (
    SELECT e.stream, s.id, e.seq, e.at, e.record ->> 'node' AS node, e.pod_uid AS preemptor_uid,
           e.namespace || '/' || e.pod AS preemptor, eventsched_log.uid(v.uid) AS pod_uid,
           CASE WHEN e.record -> 'leaving' IS NOT NULL AND v.uid IN (
                    SELECT json_array_elements_text(e.record -> 'leaving')) THEN 'leaving'
                WHEN e.record -> 'sent_back' IS NOT NULL AND v.uid IN (
                    SELECT json_array_elements_text(e.record -> 'sent_back')) THEN 'sent back'
           END AS spared
    FROM eventsched.events e
    JOIN eventsched_log.stream s ON s.name = e.stream
    CROSS JOIN LATERAL json_array_elements_text(e.record -> 'victims') AS v (uid)
    WHERE e.kind = 'PreemptionDecided'
), ends AS (
    SELECT stream, pod_uid, seq, at, kind, record ->> 'message' AS message
    FROM eventsched.events
    WHERE kind IN ('EvictionSucceeded', 'EvictionFailed', 'PodDeleted')
       OR kind = 'PodUpdated' AND record -> 'pod' ->> 'deleting' = 'true'
)
SELECT i.stream, p.namespace, p.name AS pod, i.pod_uid, i.node, i.preemptor, i.preemptor_uid,
       i.seq AS decided_seq, i.at AS decided_at,
       CASE WHEN i.spared IS NOT NULL THEN i.spared
            WHEN o.kind IS NULL THEN 'open'
            WHEN o.kind = 'EvictionFailed' THEN 'failed'
            ELSE 'accepted' END AS outcome,
       o.message, o.seq AS outcome_seq, o.at AS outcome_at, g.seq AS gone_seq, g.at AS gone_at
FROM intents i
LEFT JOIN eventsched_log.pod p ON p.stream = i.id AND p.uid = i.pod_uid
LEFT JOIN LATERAL (
    SELECT kind, message, seq, at FROM ends
    WHERE ends.stream = i.stream AND ends.pod_uid = i.pod_uid AND ends.seq > i.seq
      AND i.spared IS NULL
    ORDER BY seq LIMIT 1
) o ON true
LEFT JOIN LATERAL (
    SELECT seq, at FROM ends
    WHERE ends.stream = i.stream AND ends.pod_uid = i.pod_uid AND ends.seq > i.seq
      AND ends.kind = 'PodDeleted'
    ORDER BY seq LIMIT 1
) g ON true;

-- Every candidate of a preemption. A victim stands in the vectors as the position of its PodAdded
-- record; where that is not the pod's first one, its name is looked up there.
CREATE FUNCTION eventsched.candidates(p_stream text, p_seq bigint)
RETURNS TABLE (node text, chosen boolean, violations bigint, highest bigint, total bigint,
               number bigint, start timestamptz, victims text[])
LANGUAGE sql STABLE AS $$
    WITH decided AS MATERIALIZED (
        SELECT s.id AS stream, (record ->> 'row')::integer AS chosen,
               coalesce((record ->> 'first')::integer, 0) AS first,
               coalesce((record ->> 'last')::integer, 0) AS last
        FROM eventsched_log.stream s
        CROSS JOIN LATERAL eventsched_log.record(s.id, p_seq) AS record
        WHERE s.name = p_stream AND record ->> 'kind' = 'PreemptionDecided'
    ), found AS MATERIALIZED (
        SELECT d.stream, d.chosen, c.ordinal, c.value AS number
        FROM decided d CROSS JOIN LATERAL eventsched_log.vector(d.stream, p_seq, 0) c
        WHERE c.value > 0
          AND CASE WHEN d.first <= d.last THEN c.ordinal BETWEEN d.first AND d.last
                   ELSE c.ordinal >= d.first OR c.ordinal <= d.last END
    ), criteria AS MATERIALIZED (
        SELECT v.ordinal,
               max(v.value) FILTER (WHERE place = 1) AS violations,
               max(v.value) FILTER (WHERE place = 2) AS highest,
               max(v.value) FILTER (WHERE place = 3) AS total,
               max(v.value) FILTER (WHERE place = 4) AS start
        FROM decided d CROSS JOIN generate_series(1, 4) AS place
        CROSS JOIN LATERAL eventsched_log.vector(d.stream, p_seq, place) v
        GROUP BY v.ordinal
    ), victims AS MATERIALIZED (
        SELECT f.stream, f.ordinal, place, v.value AS seq
        FROM generate_series(5, 4 + least(250, (SELECT max(number) FROM found))::integer) AS place
        CROSS JOIN decided d
        CROSS JOIN LATERAL eventsched_log.vector(d.stream, p_seq, place) v
        JOIN found f ON f.ordinal = v.ordinal AND place <= 4 + f.number
    ), names AS MATERIALIZED (
        SELECT v.ordinal, array_agg(
                   CASE WHEN p.uid IS NOT NULL THEN p.namespace || '/' || p.name
                        ELSE (SELECT coalesce(pod ->> 'namespace', 'default') || '/'
                                     || (pod ->> 'name')
                              FROM (SELECT eventsched_log.record(v.stream, v.seq) -> 'pod') r (pod))
                   END ORDER BY v.place) AS victims
        FROM victims v
        LEFT JOIN eventsched_log.pod p ON p.stream = v.stream AND p.seq = v.seq
        GROUP BY v.ordinal
    )
    SELECT n.name, f.ordinal = f.chosen, c.violations, c.highest, c.total, f.number,
           eventsched_log.time(nullif(c.start, 0)), names.victims
    FROM found f
    JOIN criteria c ON c.ordinal = f.ordinal
    JOIN names ON names.ordinal = f.ordinal
    JOIN eventsched_log.node n ON n.stream = f.stream AND n.ordinal = f.ordinal
    ORDER BY f.ordinal = f.chosen DESC, c.violations, c.highest, c.total, f.number, f.ordinal
$$;

COMMENT ON VIEW eventsched.preemptions IS
    'One row for each pod that found no node and was nominated to one which others had to leave; '
    'candidates() tells what else was considered';
COMMENT ON COLUMN eventsched.preemptions.node IS 'The node that it was nominated to';
COMMENT ON COLUMN eventsched.preemptions.criterion IS
    'What left this node alone: only (candidate), violations, highest, total, number, start, or '
    'first of several that are alike';
COMMENT ON COLUMN eventsched.preemptions.victims IS
    'The pods that had to go, the most important first';
COMMENT ON COLUMN eventsched.preemptions.nodes IS 'Nodes where evictions might have helped';
COMMENT ON COLUMN eventsched.preemptions.looked IS 'Nodes that were tried';
COMMENT ON COLUMN eventsched.preemptions.candidates IS 'Nodes that would have done';
COMMENT ON COLUMN eventsched.preemptions.violations IS 'Victims that break a disruption budget';
COMMENT ON COLUMN eventsched.preemptions.highest IS 'Highest priority among the victims';
COMMENT ON COLUMN eventsched.preemptions.total IS
    'Sum of the victims'' priorities; compared with 2^31 more for each victim';
COMMENT ON COLUMN eventsched.preemptions.start IS
    'Earliest start of the victims of the highest priority; null: none has started';
COMMENT ON COLUMN eventsched.preemptions.landed_on IS
    'The node that it was placed on after that; null while it is on none';
COMMENT ON COLUMN eventsched.preemptions.landed_seq IS 'Position of the decision that did it';

COMMENT ON VIEW eventsched.evictions IS 'Each victim of each preemption, and what became of it';
COMMENT ON COLUMN eventsched.evictions.preemptor IS 'The pod that it makes room for';
COMMENT ON COLUMN eventsched.evictions.outcome IS
    'accepted, failed, open; leaving: it was being deleted already; sent back: its bind still waited';
COMMENT ON COLUMN eventsched.evictions.gone_seq IS 'Position of the pod''s end';

COMMENT ON FUNCTION eventsched.candidates IS
    'Every candidate of the preemption at a position of a stream, with its victims and what was '
    'compared, the chosen one first; nothing where its vectors are not kept';
