-- The nodes that PreFilter left out have no verdict of their own. If it refused the pod, the attempt
-- has the plugin and its reason; if plugins only named the nodes that they allow, the message of
-- the attempt names these plugins.
CREATE OR REPLACE VIEW eventsched.pods_now AS
SELECT s.name AS stream, n.namespace, n.name AS pod, n.uid AS pod_uid, n.state,
       eventsched_log.time(n.since) AS since,
       eventsched_log.time(n.waiting_since) AS waiting_since, n.attempts,
       CASE n.verdict WHEN 65533 THEN coalesce(nullif(n.plugin, ''), e.plugins)
                      WHEN 65534 THEN NULL
                      ELSE coalesce(nullif(v.plugin, ''), nullif(n.plugin, '')) END AS plugin,
       CASE n.verdict WHEN 65533 THEN 'Excluded' WHEN 65534 THEN 'NotEvaluated' ELSE v.code END
           AS code,
       CASE WHEN n.verdict = 65533 AND coalesce(n.plugin, '') = ''
                THEN coalesce('node(s) didn''t satisfy plugin(s) [' || e.plugins || ']',
                              'PreFilter left the node out')
            WHEN n.verdict = 65534 THEN 'the search ended before this node'
            ELSE coalesce(array_to_string(v.reasons, ', '), n.message) END AS reason,
       n.message, n.owner_kind, n.owner_name, n.node, n.nominated, n.priority,
       n.scheduler AS scheduler_name, n.deleting, n.seq, n.decided_seq
FROM eventsched_log.pod_now n
JOIN eventsched_log.chosen_stream s ON s.id = n.stream
LEFT JOIN eventsched_log.verdict v ON v.stream = n.stream AND v.number = n.verdict
CROSS JOIN LATERAL (
    SELECT CASE WHEN n.verdict = 65533 THEN substring(
        n.message FROM 'node\(s\) didn''t satisfy plugin\(s\) \[([^]]+)\]') END AS plugins
) e;

-- As before, and could_fit is found for all pods at once: a lookup for each pod reads a whole range
-- of a BRIN index.
CREATE OR REPLACE VIEW eventsched_log.long_wait AS
SELECT s.name AS stream_name, n.*, coalesce(f.seq, n.seq) AS came,
       coalesce(f.at, n.waiting_since) AS began,
       d.seq IS NULL  -- the attempt is pruned
           OR d.feasible > 0 OR d.outcome = 'error' OR coalesce(t.could_fit, false) AS could_fit
FROM eventsched_log.chosen_stream s
CROSS JOIN LATERAL (
    SELECT at FROM eventsched_log.decision WHERE stream = s.id ORDER BY seq DESC LIMIT 1
) newest
JOIN eventsched_log.pod_now n
    ON n.stream = s.id AND n.state IN ('active', 'backoff', 'unschedulable')
   AND n.attempts > 0 AND n.waiting_since <= newest.at - 600000000
LEFT JOIN LATERAL (  -- when its gates were open
    SELECT min(m.seq) AS seq, min(m.at) AS at FROM eventsched_log.queue_move m
    WHERE m.stream = n.stream AND m.pod = n.uid AND m.queue <> 'gated'
) f ON true
LEFT JOIN eventsched_log.decision d
    ON d.stream = n.stream AND d.pod = n.uid AND d.seq = n.decided_seq
LEFT JOIN (
    SELECT r.stream, r.seq,
           bool_or(r.number = 65534  -- not judged
                   OR r.number <> 65533 AND v.code IS DISTINCT FROM 'UnschedulableAndUnresolvable')
               AS could_fit
    FROM eventsched_log.refusal r
    LEFT JOIN eventsched_log.verdict v ON v.stream = r.stream AND v.number = r.number
    WHERE (r.stream, r.seq) IN (
        SELECT w.stream, w.decided_seq
        FROM eventsched_log.chosen_stream c JOIN eventsched_log.pod_now w ON w.stream = c.id
        WHERE w.state IN ('active', 'backoff', 'unschedulable') AND w.attempts > 0)
      AND r.seq >= (  -- most are of the last minutes: the index need not be read before
        SELECT min(w.decided_seq)
        FROM eventsched_log.chosen_stream c JOIN eventsched_log.pod_now w ON w.stream = c.id
        WHERE w.state IN ('active', 'backoff', 'unschedulable') AND w.attempts > 0)
    GROUP BY r.stream, r.seq
) t ON t.stream = n.stream AND t.seq = n.decided_seq
WHERE coalesce(f.at, n.waiting_since) <= newest.at - 600000000;

CREATE OR REPLACE VIEW eventsched.unplaceable_pods AS
SELECT w.stream_name AS stream, w.namespace, w.name AS pod, w.uid AS pod_uid, w.priority, w.state,
       eventsched_log.time(w.began) AS waiting_since, w.attempts, n.plugin, n.reason, w.owner_kind,
       w.owner_name, w.seq, w.decided_seq
FROM eventsched_log.long_wait w
JOIN eventsched.pods_now n ON n.stream = w.stream_name AND n.pod_uid = w.uid
WHERE NOT w.could_fit;

COMMENT ON COLUMN eventsched.pods_now.plugin IS
    'The plugin that refused most nodes in the last attempt, left all nodes out in PreFilter, or '
    'ended the attempt';
