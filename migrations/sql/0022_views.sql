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
