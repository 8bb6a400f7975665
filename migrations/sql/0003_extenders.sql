-- What extenders were asked, and what they answered.

CREATE FUNCTION eventsched_log.rows_in(p_ranges text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(sum(coalesce(nullif(split_part(r, '-', 2), ''), split_part(r, '-', 1))::bigint
                        - split_part(r, '-', 1)::bigint + 1), 0)::bigint
    FROM string_to_table(nullif(p_ranges, ''), ',') AS r
$$;

COMMENT ON FUNCTION eventsched_log.rows_in IS 'How many rows a text of ranges stands for: 0-2,5 are 4.';

CREATE VIEW eventsched.extender_calls AS
SELECT stream, seq, at, namespace, pod, pod_uid, (record ->> 'attempt')::integer AS attempt,
       record ->> 'name' AS extender, record ->> 'verb' AS verb,
       coalesce((record ->> 'number')::integer, 0) AS nodes,
       CASE WHEN answered THEN next_seq END AS answered_seq,
       CASE WHEN answered THEN coalesce((next_record ->> 'duration')::bigint, 0) / 1000.0 END
           AS milliseconds,
       CASE WHEN answered THEN (
           SELECT coalesce(sum(eventsched_log.rows_in(value)), 0)::bigint
           FROM (SELECT * FROM json_each_text(coalesce(next_record -> 'failed', '{}'))
                 UNION ALL
                 SELECT * FROM json_each_text(coalesce(next_record -> 'unresolvable', '{}'))
                ) AS refusals
       ) END AS refused,
       CASE WHEN answered THEN ARRAY(
           SELECT key FROM json_each_text(coalesce(next_record -> 'failed', '{}'))
           UNION
           SELECT key FROM json_each_text(coalesce(next_record -> 'unresolvable', '{}'))
           ORDER BY key
       ) END AS reasons,
       CASE WHEN answered THEN next_record ->> 'problem' END AS problem,
       CASE WHEN answered THEN next_record ->> 'remark' END AS remark
FROM (
    SELECT *, lead(seq) OVER later AS next_seq, lead(record) OVER later AS next_record,
           coalesce(lead(kind) OVER later = 'ExtenderAnswered', false) AS answered
    FROM eventsched.events
    WHERE kind IN ('ExtenderAsked', 'ExtenderAnswered')
    WINDOW later AS (PARTITION BY stream, pod_uid ORDER BY seq)
) calls
WHERE kind = 'ExtenderAsked';

COMMENT ON VIEW eventsched.extender_calls IS
    'Questions to extenders with their answers; refused counts nodes; without an answer the rest is null.';
