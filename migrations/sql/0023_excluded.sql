-- One rule says what is named for the nodes that PreFilter left out, which have no verdict of their
-- own. If PreFilter refused the pod, the attempt has the plugin, and its message is the reason. If
-- plugins only named the nodes that they allow, the message of the attempt names these plugins.
-- eventsched/domain/records/exclusions.py has the same.

-- The plugin, or several with spaces between; null if the attempt names none. Arguments are the
-- plugin and the message of a failed attempt.
CREATE FUNCTION eventsched_log.excluding_plugin(p_plugin text, p_message text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(nullif(p_plugin, ''), substring(
        p_message FROM 'node\(s\) didn''t satisfy plugin\(s\) \[([^]]+)\]'))
$$;

CREATE FUNCTION eventsched_log.excluding_reason(p_plugin text, p_message text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_plugin <> '' THEN p_message
                ELSE coalesce(substring(
                         p_message FROM 'node\(s\) didn''t satisfy plugin\(s\) \[[^]]+\]'),
                         'PreFilter left the node out') END
$$;

-- The same of a record, {plugin, reason}. A plugin that ended the attempt after PreFilter left no
-- node out.
CREATE FUNCTION eventsched_log.exclusion(p_record json) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_message text := CASE WHEN p_record ->> 'outcome' IN ('unschedulable', 'error')
                           THEN p_record ->> 'message' END;
    v_plugin  text := CASE WHEN v_message IS NOT NULL
                                AND coalesce((p_record ->> 'evaluated')::integer, 0) = 0
                           THEN p_record ->> 'plugin' END;
BEGIN
    RETURN ARRAY[eventsched_log.excluding_plugin(v_plugin, v_message),
                 eventsched_log.excluding_reason(v_plugin, v_message)];
END $$;

-- The same of the attempt at a position, for a view.
CREATE FUNCTION eventsched_log.exclusion_at(p_stream integer, p_seq bigint) RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT eventsched_log.exclusion(r) FROM eventsched_log.record(p_stream, p_seq) AS r
            WHERE r ->> 'kind' = 'PodDecided');
END $$;

CREATE OR REPLACE VIEW eventsched.pods_now AS
SELECT s.name AS stream, n.namespace, n.name AS pod, n.uid AS pod_uid, n.state,
       eventsched_log.time(n.since) AS since,
       eventsched_log.time(n.waiting_since) AS waiting_since, n.attempts,
       CASE n.verdict WHEN 65533 THEN eventsched_log.excluding_plugin(n.plugin, n.message)
                      WHEN 65534 THEN NULL
                      ELSE coalesce(nullif(v.plugin, ''), nullif(n.plugin, '')) END AS plugin,
       CASE n.verdict WHEN 65533 THEN 'Excluded' WHEN 65534 THEN 'NotEvaluated' ELSE v.code END
           AS code,
       CASE n.verdict WHEN 65533 THEN eventsched_log.excluding_reason(n.plugin, n.message)
                      WHEN 65534 THEN 'the search ended before this node'
                      ELSE coalesce(array_to_string(v.reasons, ', '), n.message) END AS reason,
       n.message, n.owner_kind, n.owner_name, n.node, n.nominated, n.priority,
       n.scheduler AS scheduler_name, n.deleting, n.seq, n.decided_seq
FROM eventsched_log.pod_now n
JOIN eventsched_log.chosen_stream s ON s.id = n.stream
LEFT JOIN eventsched_log.verdict v ON v.stream = n.stream AND v.number = n.verdict;

-- The record is read only for nodes that PreFilter left out of an attempt that found none.
CREATE OR REPLACE VIEW eventsched.refusals AS
SELECT s.name AS stream, r.seq, eventsched_log.time(d.at) AS at, p.namespace, p.name AS pod,
       d.pod AS pod_uid, d.attempt,
       CASE r.number WHEN 65533 THEN x.named[1] WHEN 65534 THEN NULL
                     ELSE nullif(v.plugin, '') END AS plugin,
       CASE r.number WHEN 65533 THEN 'Excluded' WHEN 65534 THEN 'NotEvaluated' ELSE v.code END
           AS code,
       CASE r.number WHEN 65533
                         THEN coalesce(x.named[2], eventsched_log.excluding_reason(NULL, NULL))
                     WHEN 65534 THEN 'the search ended before this node'
                     ELSE array_to_string(v.reasons, ', ') END AS reason,
       r.nodes
FROM eventsched_log.refusal r
JOIN eventsched_log.chosen_stream s ON s.id = r.stream
LEFT JOIN eventsched_log.decision d ON d.stream = r.stream AND d.seq = r.seq
LEFT JOIN eventsched_log.pod p ON p.stream = d.stream AND p.uid = d.pod
LEFT JOIN eventsched_log.verdict v ON v.stream = r.stream AND v.number = r.number
LEFT JOIN LATERAL (SELECT eventsched_log.exclusion_at(r.stream, r.seq) AS named) x
    ON r.number = 65533 AND d.outcome IN ('unschedulable', 'error');

CREATE OR REPLACE FUNCTION eventsched.refusals(p_stream text, p_seq bigint)
RETURNS TABLE (plugin text, code text, reason text, nodes integer)
LANGUAGE sql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE c.number WHEN 65533 THEN (eventsched_log.exclusion(record))[1]
                         WHEN 65534 THEN NULL ELSE nullif(v.plugin, '') END,
           CASE c.number WHEN 65533 THEN 'Excluded' WHEN 65534 THEN 'NotEvaluated' ELSE v.code END,
           CASE c.number WHEN 65533 THEN (eventsched_log.exclusion(record))[2]
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

CREATE OR REPLACE FUNCTION eventsched.verdicts(p_stream text, p_seq bigint)
RETURNS TABLE (node text, plugin text, code text, reason text)
LANGUAGE sql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH codes AS MATERIALIZED (
        SELECT s.id AS stream, c.ordinal, (c.value & 65535)::integer AS number
        FROM eventsched_log.stream s CROSS JOIN LATERAL eventsched_log.vector(s.id, p_seq, 0) c
        WHERE s.name = p_stream
    ), named AS MATERIALIZED (
        SELECT eventsched_log.exclusion_at(stream, p_seq) AS exclusion
        FROM (SELECT DISTINCT stream FROM codes WHERE number = 65533) excluded
    )
    SELECT n.name,
           CASE c.number WHEN 65533 THEN (SELECT exclusion[1] FROM named) ELSE v.plugin END,
           CASE c.number WHEN 0 THEN 'Success' WHEN 65533 THEN 'Excluded'
                WHEN 65534 THEN 'NotEvaluated' ELSE v.code END,
           CASE c.number WHEN 65533 THEN (SELECT exclusion[2] FROM named)
                WHEN 65534 THEN 'the search ended before this node'
                ELSE array_to_string(v.reasons, ', ') END
    FROM codes c
    JOIN LATERAL (
        SELECT name FROM eventsched_log.node
        WHERE stream = c.stream AND ordinal = c.ordinal AND seq < p_seq
        ORDER BY seq DESC LIMIT 1
    ) n ON true
    LEFT JOIN eventsched_log.verdict v ON v.stream = c.stream AND v.number = c.number
    WHERE c.number <> 65535
    ORDER BY c.ordinal
$$;

COMMENT ON FUNCTION eventsched_log.excluding_plugin IS
    'Who left nodes out in PreFilter, by the plugin and the message of a failed attempt';
COMMENT ON FUNCTION eventsched_log.excluding_reason IS
    'Why nodes were left out in PreFilter, by the plugin and the message of a failed attempt';
COMMENT ON FUNCTION eventsched_log.exclusion IS
    'Plugin and reason of the nodes that PreFilter left out in a PodDecided record';
COMMENT ON FUNCTION eventsched_log.exclusion_at IS
    'Plugin and reason of the nodes that PreFilter left out in the attempt at a position';
COMMENT ON COLUMN eventsched.refusals.plugin IS
    'Who refused, or left the nodes out in PreFilter; null if the log does not name it';
