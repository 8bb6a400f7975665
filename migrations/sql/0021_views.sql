-- Pods that no node would take are a view of their own, and do not starve. The chains of evictions
-- are found by windows: joins of the evictions with themselves took four of five seconds for the
-- last 1,000. Nothing of this reads or locks the log.

-- Pods that have waited for ten minutes and longer with their gates open. could_fit: at the last
-- attempt a node passed, or was refused with a code that the departure of pods can change, or the
-- attempt ended in an error. It is false if PreFilter refused, before a node was judged.
CREATE VIEW eventsched_log.long_wait AS
SELECT s.name AS stream_name, n.*, coalesce(f.seq, n.seq) AS came,
       coalesce(f.at, n.waiting_since) AS began,
       coalesce(t.could_fit, true) AS could_fit  -- true also if the attempt is pruned
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
LEFT JOIN LATERAL (
    SELECT d.feasible > 0 OR d.outcome = 'error' OR EXISTS (
        SELECT FROM eventsched_log.refusal r
        LEFT JOIN eventsched_log.verdict v ON v.stream = r.stream AND v.number = r.number
        WHERE r.stream = n.stream AND r.seq = n.decided_seq
          AND (r.number = 65534  -- not judged
               OR r.number <> 65533 AND v.code IS DISTINCT FROM 'UnschedulableAndUnresolvable')
    ) AS could_fit
    FROM eventsched_log.decision d
    WHERE d.stream = n.stream AND d.pod = n.uid AND d.seq = n.decided_seq
) t ON true
WHERE coalesce(f.at, n.waiting_since) <= newest.at - 600000000;

CREATE OR REPLACE VIEW eventsched.starving_pods AS
WITH waiting AS MATERIALIZED (
    SELECT * FROM eventsched_log.long_wait WHERE could_fit
), arrived AS (
    SELECT stream, priority AS level, came, uid, 0 AS placed FROM waiting
    UNION ALL
    SELECT n.stream, l.level, n.seq, NULL::uuid AS uid, 1 AS placed
    FROM (SELECT DISTINCT stream, priority AS level FROM waiting) l
    JOIN eventsched_log.pod_now n
        ON n.stream = l.stream AND n.priority <= l.level AND n.attempts > 0
       AND n.state IN ('bound', 'binding', 'waiting')
), counted AS (
    SELECT stream, uid,
           sum(placed) OVER (PARTITION BY stream, level ORDER BY came DESC) AS overtaken_by
    FROM arrived
)
SELECT w.stream_name AS stream, w.namespace, w.name AS pod, w.uid AS pod_uid, w.priority, w.state,
       eventsched_log.time(w.began) AS waiting_since, w.attempts, c.overtaken_by,
       p.plugin, p.reason, w.owner_kind, w.owner_name, w.seq, w.decided_seq
FROM waiting w
JOIN counted c ON c.stream = w.stream AND c.uid = w.uid AND c.overtaken_by > 0
LEFT JOIN LATERAL (
    SELECT coalesce(nullif(v.plugin, ''), nullif(w.plugin, '')) AS plugin,
           coalesce(array_to_string(v.reasons, ', '), w.message) AS reason
    FROM (SELECT w.verdict) AS known (verdict)
    LEFT JOIN eventsched_log.verdict v ON v.stream = w.stream AND v.number = known.verdict
) p ON true;

CREATE VIEW eventsched.unplaceable_pods AS
SELECT w.stream_name AS stream, w.namespace, w.name AS pod, w.uid AS pod_uid, w.priority, w.state,
       eventsched_log.time(w.began) AS waiting_since, w.attempts, p.plugin, p.reason, w.owner_kind,
       w.owner_name, w.seq, w.decided_seq
FROM eventsched_log.long_wait w
LEFT JOIN LATERAL (
    SELECT coalesce(nullif(v.plugin, ''), nullif(w.plugin, '')) AS plugin,
           coalesce(array_to_string(v.reasons, ', '), w.message) AS reason
    FROM (SELECT w.verdict) AS known (verdict)
    LEFT JOIN eventsched_log.verdict v ON v.stream = w.stream AND v.number = w.verdict
) p ON true
WHERE NOT w.could_fit;

-- Of the last 1,000 evictions of a stream.
CREATE OR REPLACE VIEW eventsched.ping_pongs AS
WITH evicted AS MATERIALIZED (
    SELECT s.name AS stream_name, v.stream, v.seq, v.at, v.pod, p.seq AS came, p.namespace, p.name,
           coalesce(n.owner_kind, o.owner[1], 'Pod') AS owner_kind,
           coalesce(n.owner_name, o.owner[2], p.name) AS owner_name,
           EXISTS (SELECT FROM eventsched_log.pod_end g
                   WHERE g.stream = v.stream AND g.pod = v.pod AND g.seq > v.seq) AS is_gone
    FROM eventsched_log.acting_stream s
    CROSS JOIN LATERAL (
        SELECT * FROM eventsched_log.victim
        WHERE stream = s.id AND spared IS NULL ORDER BY seq DESC LIMIT 1000
    ) v
    JOIN eventsched_log.pod p ON p.stream = v.stream AND p.uid = v.pod
    LEFT JOIN eventsched_log.pod_now n ON n.stream = v.stream AND n.uid = v.pod
    LEFT JOIN LATERAL (SELECT eventsched_log.pod_owner(p.stream, p.seq) AS owner) o
        ON n.uid IS NULL
), places AS (
    SELECT stream, namespace, owner_kind, owner_name, came AS place, pod, seq,
           NULL::bigint AS gone, NULL::bigint AS gone_at
    FROM evicted
    UNION ALL
    SELECT stream, namespace, owner_kind, owner_name, seq AS place, NULL::uuid AS pod,
           NULL::bigint AS seq, seq AS gone, at AS gone_at
    FROM evicted WHERE is_gone
), linked AS MATERIALIZED (  -- each eviction, and the workload's last one before the pod was added
    SELECT * FROM (
        SELECT stream, namespace, owner_kind, owner_name, pod, seq, max(gone) OVER w AS before,
               max(gone_at) OVER w AS before_at
        FROM places
        WINDOW w AS (PARTITION BY stream, namespace, owner_kind, owner_name ORDER BY place)
    ) l WHERE seq IS NOT NULL AND before IS NOT NULL
), again AS (  -- evicted, replaced, evicted, replaced, evicted: within an hour
    SELECT DISTINCT ON (c.stream, c.namespace, c.owner_kind, c.owner_name)
           c.*, second.before_at AS since
    FROM (
        SELECT e.*, count(*) OVER (
                   PARTITION BY stream, namespace, owner_kind, owner_name ORDER BY at
                   RANGE BETWEEN 3600000000 PRECEDING AND CURRENT ROW) AS times
        FROM evicted e
    ) c
    JOIN linked third ON third.stream = c.stream AND third.seq = c.seq AND third.pod = c.pod
    JOIN linked second
        ON second.stream = third.stream AND second.seq = third.before
       AND second.namespace = third.namespace AND second.owner_kind = third.owner_kind
       AND second.owner_name = third.owner_name
    WHERE c.at - second.before_at <= 3600000000
    ORDER BY c.stream, c.namespace, c.owner_kind, c.owner_name, c.seq DESC, since DESC
), nominated AS (  -- three nominations within an hour, and no node found between
    SELECT DISTINCT ON (t.stream, t.preemptor) t.*
    FROM (
        SELECT s.name AS stream_name, v.stream, v.preemptor, v.seq, v.at,
               lag(v.seq, 2) OVER w AS first, lag(v.at, 2) OVER w AS since
        FROM eventsched_log.acting_stream s
        CROSS JOIN LATERAL (
            SELECT DISTINCT stream, preemptor, seq, at FROM (
                SELECT * FROM eventsched_log.victim
                WHERE stream = s.id ORDER BY seq DESC LIMIT 1000) newest
        ) v
        WINDOW w AS (PARTITION BY v.stream, v.preemptor ORDER BY v.seq)
    ) t
    WHERE t.at - t.since <= 3600000000
      AND NOT EXISTS (SELECT FROM eventsched_log.decision d
                      WHERE d.stream = t.stream AND d.pod = t.preemptor AND d.seq > t.first
                        AND d.seq < t.seq AND d.outcome IN ('scheduled', 'waiting'))
    ORDER BY t.stream, t.preemptor, t.seq DESC
)
SELECT a.stream_name AS stream, 'evicted' AS kind, a.namespace, a.name AS pod, a.pod AS pod_uid,
       a.owner_kind, a.owner_name,
       a.times,
       eventsched_log.time(a.since) AS since, eventsched_log.time(a.at) AS until, a.seq
FROM again a
UNION ALL
SELECT t.stream_name, 'nominated', p.namespace, p.name, t.preemptor, n.owner_kind, n.owner_name,
       (SELECT count(DISTINCT v.seq) FROM eventsched_log.victim v
        WHERE v.stream = t.stream AND v.preemptor = t.preemptor AND v.at >= t.at - 3600000000),
       eventsched_log.time(t.since), eventsched_log.time(t.at), t.seq
FROM nominated t
LEFT JOIN eventsched_log.pod p ON p.stream = t.stream AND p.uid = t.preemptor
LEFT JOIN eventsched_log.pod_now n ON n.stream = t.stream AND n.uid = t.preemptor;

CREATE FUNCTION eventsched.tenant_unplaceable_pods(
    p_namespace text DEFAULT NULL, p_pod text DEFAULT NULL
) RETURNS SETOF eventsched.unplaceable_pods
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning AS $$
BEGIN
    RETURN QUERY SELECT v.* FROM eventsched.unplaceable_pods v
    JOIN eventsched_log.granted_namespaces(p_namespace) g
        ON g.stream = v.stream AND g.namespace = v.namespace
    WHERE p_pod IS NULL OR v.pod = p_pod;
END $$;

COMMENT ON VIEW eventsched_log.long_wait IS 'Pods that have waited for ten minutes and longer';
COMMENT ON VIEW eventsched.starving_pods IS
    'Pods that have waited ten minutes or longer, and that a node could take, while pods of the same '
    'or a lower priority that came later were placed, and are still there';
COMMENT ON VIEW eventsched.unplaceable_pods IS
    'Pods that have waited ten minutes or longer, and that no node would take, even without other pods';
COMMENT ON FUNCTION eventsched.tenant_unplaceable_pods IS
    'Rows of unplaceable_pods of the tenant''s namespaces';
