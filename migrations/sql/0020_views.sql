-- Anomalies: pods that starve, workloads and nominations that go back and forth, and victims that
-- left for nothing; and what a shadow compared. Of the log of a shadow no preemption counts: nobody
-- leaves because of it.

-- The owner of a pod that is gone, {kind, name}, from the record that added it.
CREATE FUNCTION eventsched_log.pod_owner(p_stream integer, p_seq bigint) RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT ARRAY[r #>> '{pod,owner,kind}', r #>> '{pod,owner,name}']
            FROM eventsched_log.record(p_stream, p_seq) AS r
            WHERE r ->> 'kind' = 'PodAdded' AND r #>> '{pod,owner,name}' IS NOT NULL);
END $$;

-- The streams that the views show, without those of shadows.
CREATE VIEW eventsched_log.acting_stream AS
SELECT s.id, s.name FROM eventsched_log.chosen_stream s
WHERE NOT EXISTS (SELECT FROM eventsched_log.record_count c
                  WHERE c.stream = s.id AND c.kind = 'PlacementCompared');

-- Both sides of the comparison are in one list, by position of arrival, and a window counts the
-- placed pods that came after each waiting one: once for each priority of a waiting pod, so that
-- the time does not grow with the number of pairs.
CREATE VIEW eventsched.starving_pods AS
WITH waiting AS MATERIALIZED (
    SELECT s.name AS stream_name, n.*, coalesce(f.seq, n.seq) AS came,
           coalesce(f.at, n.waiting_since) AS began
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
    WHERE coalesce(f.at, n.waiting_since) <= newest.at - 600000000
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

-- Of the last 1,000 evictions of a stream.
CREATE VIEW eventsched.ping_pongs AS
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
), again AS (  -- evicted, replaced, evicted, replaced, evicted: within an hour
    SELECT DISTINCT ON (third.stream, third.namespace, third.owner_kind, third.owner_name)
           third.*, first.at AS since
    FROM evicted third
    CROSS JOIN LATERAL (
        SELECT e.at, e.came FROM evicted e
        WHERE e.stream = third.stream AND e.namespace = third.namespace
          AND e.owner_kind = third.owner_kind AND e.owner_name = third.owner_name
          AND e.seq < third.came AND e.is_gone
        ORDER BY e.seq DESC LIMIT 1
    ) second
    CROSS JOIN LATERAL (
        SELECT e.at FROM evicted e
        WHERE e.stream = third.stream AND e.namespace = third.namespace
          AND e.owner_kind = third.owner_kind AND e.owner_name = third.owner_name
          AND e.seq < second.came AND e.is_gone
        ORDER BY e.seq DESC LIMIT 1
    ) first
    WHERE third.at - first.at <= 3600000000
    ORDER BY third.stream, third.namespace, third.owner_kind, third.owner_name, third.seq DESC
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
       (SELECT count(*) FROM evicted e
        WHERE e.stream = a.stream AND e.namespace = a.namespace AND e.owner_kind = a.owner_kind
          AND e.owner_name = a.owner_name AND e.at >= a.at - 3600000000) AS times,
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

CREATE VIEW eventsched.preempted_for_nothing AS
SELECT t.stream_name AS stream, t.seq, eventsched_log.time(t.at) AS at, p.namespace, p.name AS pod,
       t.preemptor AS pod_uid, t.node, g.victims,
       CASE WHEN l.seq IS NULL THEN 'gone' ELSE 'elsewhere' END AS outcome,
       l.node AS landed_on, coalesce(l.seq, e.seq) AS ended_seq,
       eventsched_log.time(coalesce(l.at, e.at)) AS ended_at
FROM (
    SELECT s.name AS stream_name, v.stream, v.seq, v.at, v.preemptor, v.node,
           array_agg(v.pod) AS pods
    FROM eventsched_log.acting_stream s
    JOIN eventsched_log.victim v ON v.stream = s.id AND v.spared IS NULL
    GROUP BY 1, 2, 3, 4, 5, 6
) t
LEFT JOIN LATERAL (
    SELECT seq, at FROM eventsched_log.pod_end
    WHERE stream = t.stream AND pod = t.preemptor AND seq > t.seq ORDER BY seq LIMIT 1
) e ON true
LEFT JOIN LATERAL (  -- the next attempt that found a node
    SELECT seq, at, node FROM eventsched_log.decision
    WHERE stream = t.stream AND pod = t.preemptor AND seq > t.seq
      AND seq < coalesce(e.seq, 9223372036854775807) AND outcome IN ('scheduled', 'waiting')
    ORDER BY seq LIMIT 1
) l ON true
CROSS JOIN LATERAL (
    SELECT count(DISTINCT pod) AS victims FROM eventsched_log.pod_end
    WHERE stream = t.stream AND pod = ANY (t.pods) AND seq > t.seq
      AND seq < coalesce(l.seq, e.seq)
) g
LEFT JOIN eventsched_log.pod p ON p.stream = t.stream AND p.uid = t.preemptor
WHERE g.victims > 0 AND l.node IS DISTINCT FROM t.node;

CREATE VIEW eventsched.shadow_decisions AS
SELECT s.name AS stream, c.seq, eventsched_log.time(c.at) AS at, p.namespace, p.name AS pod,
       c.pod AS pod_uid, c.outcome, nullif(c.node, '') AS node, nullif(c.chosen, '') AS chosen,
       c.attempt, d.seq AS decided_seq, eventsched_log.time(d.at) AS decided_at, c.feasible,
       nullif(c.plugin, '') AS plugin, array_to_string(c.reasons, ', ') AS reason,
       c.score, c.chosen_score
FROM eventsched_log.chosen_stream s
JOIN eventsched_log.comparison c ON c.stream = s.id
LEFT JOIN LATERAL (
    SELECT seq, at FROM eventsched_log.decision
    WHERE stream = c.stream AND pod = c.pod AND attempt = c.attempt AND seq < c.seq
    ORDER BY seq DESC LIMIT 1
) d ON true
LEFT JOIN eventsched_log.pod p ON p.stream = c.stream AND p.uid = c.pod;
