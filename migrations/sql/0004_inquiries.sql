-- What other schedulers asked us as their extender, and what they were answered.

CREATE VIEW eventsched.extender_inquiries AS
SELECT stream, seq, at,
       coalesce(namespace, record #>> '{sent,namespace}',
                CASE WHEN record ->> 'sent' IS NOT NULL THEN 'default' END) AS namespace,
       coalesce(pod, record #>> '{sent,name}') AS pod, pod_uid, record ->> 'verb' AS verb,
       eventsched_log.rows_in(record ->> 'nodes')
           + coalesce(json_array_length(record -> 'strange'), 0) AS nodes,
       record ->> 'node' AS node,
       (SELECT coalesce(sum(eventsched_log.rows_in(value)), 0)::bigint
        FROM (SELECT * FROM json_each_text(coalesce(reply -> 'failed', '{}'))
              UNION ALL
              SELECT * FROM json_each_text(coalesce(reply -> 'unresolvable', '{}'))
             ) AS refusals
       ) + CASE WHEN record ->> 'verb' = 'filter'
                THEN coalesce(json_array_length(record -> 'strange'), 0) ELSE 0 END AS refused,
       ARRAY(
           SELECT key FROM json_each_text(coalesce(reply -> 'failed', '{}'))
           UNION
           SELECT key FROM json_each_text(coalesce(reply -> 'unresolvable', '{}'))
           ORDER BY key
       ) AS reasons,
       (SELECT max((score ->> 0)::integer)
        FROM json_array_elements(coalesce(reply -> 'scores', '[]')) AS score) AS best_score,
       (reply ->> 'attempt')::integer AS attempt, reply ->> 'problem' AS problem
FROM (
    SELECT *, lead(record) OVER (PARTITION BY stream ORDER BY seq) AS reply
    FROM eventsched.events
    WHERE kind IN ('ExtenderInquired', 'ExtenderReplied')
) inquiries
WHERE kind = 'ExtenderInquired';

COMMENT ON VIEW eventsched.extender_inquiries IS
    'Questions that other schedulers asked us as their extender, with our answers; refused counts nodes.';
