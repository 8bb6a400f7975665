-- As before, but refusals, which are found by ranges of positions (BRIN), are read only near the
-- attempts whose refusals say whether the pod could fit: of each run of such attempts with less than
-- 10,000 positions from one to the next, from its first to its last.
CREATE OR REPLACE VIEW eventsched_log.long_wait AS
WITH waiting AS MATERIALIZED (
    SELECT s.name AS stream_name, n AS pod, n.stream, n.decided_seq,
           coalesce(f.seq, n.seq) AS came, coalesce(f.at, n.waiting_since) AS began,
           d.seq IS NULL  -- the attempt is pruned
               OR d.feasible > 0 OR d.outcome = 'error' AS could_fit
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
    WHERE coalesce(f.at, n.waiting_since) <= newest.at - 600000000
), runs AS (
    SELECT stream, min(decided_seq) AS low, max(decided_seq) AS high
    FROM (
        SELECT stream, decided_seq, count(*) FILTER (WHERE is_far) OVER w AS run
        FROM (
            SELECT stream, decided_seq, decided_seq - lag(decided_seq) OVER w > 10000 AS is_far
            FROM waiting WHERE NOT could_fit
            WINDOW w AS (PARTITION BY stream ORDER BY decided_seq)
        ) a
        WINDOW w AS (PARTITION BY stream ORDER BY decided_seq)
    ) b
    GROUP BY stream, run
), judged AS (
    SELECT r.stream, r.seq,
           bool_or(r.number = 65534  -- not judged
                   OR r.number <> 65533 AND v.code IS DISTINCT FROM 'UnschedulableAndUnresolvable')
               AS could_fit
    FROM runs
    CROSS JOIN LATERAL (
        SELECT stream, seq, number FROM eventsched_log.refusal
        WHERE stream = runs.stream AND seq BETWEEN runs.low AND runs.high
        OFFSET 0  -- each run by index
    ) r
    LEFT JOIN eventsched_log.verdict v ON v.stream = r.stream AND v.number = r.number
    WHERE (r.stream, r.seq) IN (SELECT stream, decided_seq FROM waiting WHERE NOT could_fit)
    GROUP BY r.stream, r.seq
)
SELECT w.stream_name, (w.pod).*, w.came, w.began,
       w.could_fit OR coalesce(j.could_fit, false) AS could_fit
FROM waiting w
LEFT JOIN judged j ON j.stream = w.stream AND j.seq = w.decided_seq;
