-- Rows for the questions that people ask of the whole log, so that no view has to parse the bodies
-- of all batches. Written by append() from the records of each batch, like the other derived rows;
-- docs/log-format.md says which record writes what. A row is found by its pod, or by position with
-- a BRIN index: positions only grow, so it needs a few bytes for a thousand rows.

ALTER TABLE eventsched_log.pod_now ADD COLUMN reserved_seq bigint, ADD COLUMN reserved_at bigint;

CREATE TABLE eventsched_log.queue_move (
    seq       bigint NOT NULL,
    at        bigint NOT NULL,
    caused_by bigint NOT NULL,
    pod       uuid NOT NULL,
    stream    integer NOT NULL,
    queue     text NOT NULL,
    cause     text,
    plugin    text,
    until     bigint,
    failures  integer,
    errors    integer,
    rejectors text[],
    pending   text[]
);
CREATE INDEX queue_move_pod ON eventsched_log.queue_move (stream, pod);

-- A pod's time in one queue, written when it ends.
CREATE TABLE eventsched_log.queue_stay (
    seq    bigint NOT NULL,
    since  bigint NOT NULL,
    until  bigint NOT NULL,
    pod    uuid NOT NULL,
    stream integer NOT NULL,
    queue  text NOT NULL
);

-- A node held for a pod, written when that ends: most often because the pod is bound.
CREATE TABLE eventsched_log.reservation (
    seq         bigint NOT NULL,
    at          bigint NOT NULL,
    decided_seq bigint,
    decided_at  bigint,
    pod         uuid NOT NULL,
    stream      integer NOT NULL,
    attempt     integer,
    node        text,
    ended_by    text NOT NULL
);
CREATE INDEX reservation_pod ON eventsched_log.reservation (stream, pod);
CREATE INDEX reservation_node ON eventsched_log.reservation (stream, node);

CREATE TABLE eventsched_log.pod_end (
    seq    bigint NOT NULL,
    at     bigint NOT NULL,
    pod    uuid NOT NULL,
    stream integer NOT NULL
);
CREATE INDEX pod_end_pod ON eventsched_log.pod_end (stream, pod);

-- How many nodes a decision refused with one code.
CREATE TABLE eventsched_log.refusal (
    seq    bigint NOT NULL,
    stream integer NOT NULL,
    number integer NOT NULL,
    nodes  integer NOT NULL
);

-- The batches with records about a pod that no other table lists.
CREATE TABLE eventsched_log.mention (
    first  bigint NOT NULL,
    pod    uuid NOT NULL,
    stream integer NOT NULL
);
CREATE INDEX mention_pod ON eventsched_log.mention (stream, pod);

CREATE TABLE eventsched_log.record_count (
    records bigint NOT NULL,
    stream  integer NOT NULL,
    kind    text NOT NULL,
    PRIMARY KEY (stream, kind)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

DO $$
DECLARE
    v_table text;
BEGIN
    FOREACH v_table IN ARRAY ARRAY['queue_move', 'queue_stay', 'reservation', 'pod_end', 'refusal',
                                   'mention'] LOOP
        EXECUTE format('CREATE INDEX %I ON eventsched_log.%I USING brin (%I) '
                       'WITH (pages_per_range = 32, autosummarize = on)',
                       v_table || '_position', v_table,
                       CASE v_table WHEN 'mention' THEN 'first' ELSE 'seq' END);
        EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON eventsched_log.%I '
                       'FOR EACH ROW EXECUTE FUNCTION eventsched_log.deny()', v_table);
        EXECUTE format('CREATE TRIGGER append_only_all BEFORE TRUNCATE ON eventsched_log.%I '
                       'FOR EACH STATEMENT EXECUTE FUNCTION eventsched_log.deny()', v_table);
        EXECUTE format('ALTER TABLE eventsched_log.%I ENABLE ALWAYS TRIGGER append_only', v_table);
        EXECUTE format('ALTER TABLE eventsched_log.%I ENABLE ALWAYS TRIGGER append_only_all',
                       v_table);
    END LOOP;
END $$;

-- Replaces derive() of 0005_pods.sql: the same, and it collects the rows of these tables and stores
-- them at the end of the batch, one statement for each table.
CREATE OR REPLACE FUNCTION eventsched_log.derive(
    p_stream integer, p_first bigint, p_body json, p_is_old boolean DEFAULT false
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_seq      bigint := p_first - 1;
    v_item     json;
    v_text     text;
    v_at       bigint;
    v_kind     text;
    v_uid      text;
    v_in_hand  text := '';
    v_id       uuid;  -- of v_in_hand
    v_before   text;
    v_has_more boolean := false;
    v_is_stored boolean;
    v_since    bigint;
    v_pod      record;
    v_said     record;
    v_now      eventsched_log.pod_now;
    v_gone     eventsched_log.pod_now;
    v_move     record;
    v_count    json;
    v_kinds    text[];
    v_typed    uuid[];  -- pods with a typed row in this batch, and pods with any other record
    v_others   uuid[];
    v_moves    eventsched_log.queue_move[];
    v_stays    eventsched_log.queue_stay[];
    v_ends     eventsched_log.pod_end[];
    v_reserved eventsched_log.reservation[];
    v_refused  eventsched_log.refusal[];
BEGIN
    FOREACH v_item IN ARRAY ARRAY(SELECT json_array_elements(p_body)) || NULL::json LOOP
        v_seq := v_seq + 1;
        v_text := v_item::text;
        v_kind := split_part(v_text, '"', 4);
        v_has_more := v_has_more OR v_kind IN ('NodeAdded', 'VerdictDefined', 'ScoringDefined');
        IF v_item IS NOT NULL THEN
            v_kinds := v_kinds || v_kind;
        END IF;
        IF v_kind NOT IN (  -- null: the loop ends with it
            'PodAdded', 'PodUpdated', 'PodDeleted', 'PodQueued', 'PodDecided', 'PodBound',
            'PodUnreserved', 'PodSkipped', 'BindIntended', 'ExtenderReplied', 'PreemptionDecided',
            'NominationCleared', 'EvictionSucceeded') THEN
            IF strpos(v_text, ',"uid":"') > 0 THEN
                v_others := v_others || eventsched_log.uid(v_item #>> '{3,uid}');
            END IF;
            CONTINUE;
        END IF;
        v_at := substr(split_part(v_text, ',', 1), 2)::bigint;
        IF v_kind IN ('PodAdded', 'PodUpdated') THEN
            SELECT * INTO v_pod FROM json_to_record(v_item #> '{3,pod}') AS p (
                uid text, namespace text, name text, owner json, priority integer,
                scheduler_name text, node_name text, deleting boolean, nominated_node text);
            v_uid := v_pod.uid;
        ELSIF v_kind = 'PodDecided' THEN
            SELECT * INTO v_said FROM json_to_record(v_item -> 3) AS d (
                uid text, attempt integer, profile text, outcome eventsched_log.outcome,
                node text, score bigint, runner_up text, runner_up_score bigint,
                feasible integer, evaluated integer, ties integer, draw numeric, plugin text,
                message text, counts json);
            v_uid := v_said.uid;
        ELSE
            v_uid := v_item #>> '{3,uid}';
        END IF;
        IF v_uid IS DISTINCT FROM v_in_hand THEN
            IF v_now.uid IS NOT NULL THEN
                IF v_is_stored THEN
                    UPDATE eventsched_log.pod_now SET
                        since = v_now.since, waiting_since = v_now.waiting_since,
                        decided_seq = v_now.decided_seq, attempts = v_now.attempts,
                        priority = v_now.priority, verdict = v_now.verdict,
                        deleting = v_now.deleting, state = v_now.state,
                        scheduler = v_now.scheduler, owner_kind = v_now.owner_kind,
                        owner_name = v_now.owner_name, node = v_now.node,
                        nominated = v_now.nominated, asked = v_now.asked, plugin = v_now.plugin,
                        message = v_now.message, reserved_seq = v_now.reserved_seq,
                        reserved_at = v_now.reserved_at
                    WHERE stream = p_stream AND uid = v_now.uid;
                ELSE
                    DELETE FROM eventsched_log.pod_now WHERE stream = p_stream AND uid = v_now.uid;
                    INSERT INTO eventsched_log.pod_now SELECT v_now.*;
                END IF;
            END IF;
            EXIT WHEN v_item IS NULL;
            v_in_hand := v_uid;
            v_id := eventsched_log.uid(v_uid);
            v_now := NULL;
            v_is_stored := v_kind <> 'PodAdded';
            IF v_is_stored THEN
                SELECT * INTO v_now FROM eventsched_log.pod_now n
                WHERE n.stream = p_stream AND n.uid = v_id;
            END IF;
        END IF;
        v_before := v_now.state;
        v_since := v_now.since;
        CASE v_kind
        WHEN 'PodAdded' THEN
            v_is_stored := false;
            v_now := ROW(
                v_id, v_seq, v_at, NULL, NULL, p_stream, 0,
                coalesce(v_pod.priority, 0), NULL, coalesce(v_pod.deleting, false),
                CASE WHEN v_pod.node_name IS NULL THEN 'unqueued' ELSE 'bound' END,
                coalesce(v_pod.namespace, 'default'), v_pod.name,
                coalesce(v_pod.scheduler_name, 'default-scheduler'), v_pod.owner ->> 'kind',
                v_pod.owner ->> 'name', v_pod.node_name,
                CASE WHEN v_pod.node_name IS NULL THEN v_pod.nominated_node END,
                v_pod.nominated_node, NULL, NULL, NULL, NULL)::eventsched_log.pod_now;
            IF NOT p_is_old THEN
                INSERT INTO eventsched_log.pod (stream, uid, namespace, name, seq)
                VALUES (p_stream, v_now.uid, v_now.namespace, v_now.name, v_seq)
                ON CONFLICT ON CONSTRAINT pod_pkey DO NOTHING;
            END IF;
            IF NOT EXISTS (SELECT FROM eventsched_log.pod
                           WHERE stream = p_stream AND uid = v_now.uid AND seq = v_seq) THEN
                v_others := v_others || v_now.uid;  -- a second life
            END IF;
        WHEN 'PodUpdated' THEN
            v_others := v_others || v_id;
            IF v_pod.node_name IS NOT NULL AND v_before IN ('binding', 'waiting') THEN
                v_reserved := v_reserved || ROW(
                    v_seq, v_at, v_now.reserved_seq, v_now.reserved_at, v_now.uid, p_stream,
                    v_now.attempts, v_now.node, 'PodUpdated')::eventsched_log.reservation;
            END IF;
            v_now.priority := coalesce(v_pod.priority, 0);
            v_now.scheduler := coalesce(v_pod.scheduler_name, 'default-scheduler');
            v_now.owner_kind := v_pod.owner ->> 'kind';
            v_now.owner_name := v_pod.owner ->> 'name';
            v_now.deleting := coalesce(v_pod.deleting, false);
            IF v_pod.node_name IS NOT NULL THEN
                v_now.state := 'bound';
                v_now.node := v_pod.node_name;
            END IF;
            IF v_now.state IN ('bound', 'binding', 'waiting') THEN
                v_now.nominated := NULL;
            ELSIF v_pod.nominated_node IS DISTINCT FROM v_now.asked THEN
                v_now.nominated := v_pod.nominated_node;
            END IF;
            v_now.asked := v_pod.nominated_node;
        WHEN 'PodDeleted' THEN
            v_gone := v_now;
            DELETE FROM eventsched_log.pod_now n
            WHERE n.stream = p_stream AND n.uid = v_id;
            v_now := NULL;
            v_typed := v_typed || v_id;
            v_ends := v_ends
                || ROW(v_seq, v_at, v_id, p_stream)::eventsched_log.pod_end;
            IF v_before IN ('binding', 'waiting') THEN
                v_reserved := v_reserved || ROW(
                    v_seq, v_at, v_gone.reserved_seq, v_gone.reserved_at, v_gone.uid, p_stream,
                    v_gone.attempts, v_gone.node, 'PodDeleted')::eventsched_log.reservation;
            END IF;
        WHEN 'PodQueued' THEN
            SELECT * INTO v_move FROM json_to_record(v_item -> 3) AS m (
                queue text, cause text, plugin text, until bigint, failures integer,
                errors integer, rejectors text[], pending text[]);
            v_now.state := v_move.queue;
            v_now.waiting_since := coalesce(v_now.waiting_since, v_at);
            v_typed := v_typed || v_id;
            v_moves := v_moves || ROW(
                v_seq, v_at, (v_item ->> 1)::bigint, v_id, p_stream,
                v_move.queue, v_move.cause, v_move.plugin, v_move.until, v_move.failures,
                v_move.errors, v_move.rejectors, v_move.pending)::eventsched_log.queue_move;
        WHEN 'PodDecided' THEN
            IF NOT p_is_old THEN
                INSERT INTO eventsched_log.decision
                    (stream, seq, at, pod, attempt, profile, outcome, node, score, runner_up,
                     runner_up_score, feasible, evaluated, ties, draw)
                VALUES (p_stream, v_seq, v_at, v_id, v_said.attempt,
                        coalesce(v_said.profile, 'default-scheduler'), v_said.outcome,
                        v_said.node, coalesce(v_said.score, 0), v_said.runner_up,
                        coalesce(v_said.runner_up_score, 0), coalesce(v_said.feasible, 0),
                        coalesce(v_said.evaluated, 0), coalesce(v_said.ties, 0),
                        CASE WHEN v_said.draw >= 9223372036854775808
                             THEN v_said.draw - 18446744073709551616
                             ELSE coalesce(v_said.draw, 0) END);
            END IF;
            v_typed := v_typed || v_id;
            IF v_said.counts IS NOT NULL THEN
                FOR v_count IN SELECT * FROM json_array_elements(v_said.counts) LOOP
                    v_refused := v_refused || ROW(v_seq, p_stream, (v_count ->> 0)::integer,
                                                  (v_count ->> 1)::integer)::eventsched_log.refusal;
                END LOOP;
            END IF;
            v_now.attempts := v_said.attempt;
            v_now.decided_seq := v_seq;
            v_now.reserved_seq := CASE WHEN v_said.outcome IN ('scheduled', 'waiting')
                                       THEN v_seq END;
            v_now.reserved_at := CASE WHEN v_now.reserved_seq IS NOT NULL THEN v_at END;
            IF v_said.outcome IN ('scheduled', 'waiting') THEN
                v_now.state := CASE v_said.outcome WHEN 'waiting' THEN 'waiting'
                                                   ELSE 'binding' END;
                v_now.node := v_said.node;
                v_now.nominated := NULL;
                v_now.verdict := NULL;
                v_now.plugin := NULL;
                v_now.message := NULL;
            ELSE
                v_now.state := 'unqueued';  -- as a rule PodQueued follows
                v_now.plugin := v_said.plugin;
                v_now.message := v_said.message;
                v_now.verdict := (
                    SELECT (c ->> 0)::integer FROM json_array_elements(v_said.counts) AS c
                    ORDER BY (c ->> 0)::integer >= 65533, (c ->> 1)::integer DESC,
                             (c ->> 0)::integer
                    LIMIT 1);
            END IF;
        WHEN 'PodBound' THEN
            v_typed := v_typed || v_id;
            IF v_now.reserved_seq IS NULL
               OR v_now.attempts IS DISTINCT FROM (v_item #>> '{3,attempt}')::integer THEN
                SELECT seq, at INTO v_now.reserved_seq, v_now.reserved_at
                FROM eventsched_log.decision
                WHERE stream = p_stream AND pod = v_id AND seq < v_seq
                  AND attempt = (v_item #>> '{3,attempt}')::integer
                ORDER BY seq DESC LIMIT 1;
            END IF;
            IF (v_reserved[cardinality(v_reserved)]).pod = v_id
               AND (v_reserved[cardinality(v_reserved)]).ended_by = 'PodUpdated'
               AND (v_reserved[cardinality(v_reserved)]).seq >= (v_item ->> 1)::bigint THEN
                -- The cluster showed the pod on its node before our bind's outcome came.
                v_reserved := v_reserved[:cardinality(v_reserved) - 1];
            END IF;
            v_reserved := v_reserved || ROW(
                v_seq, v_at, v_now.reserved_seq, v_now.reserved_at, v_id,
                p_stream, (v_item #>> '{3,attempt}')::integer, v_item #>> '{3,node}', 'PodBound'
                )::eventsched_log.reservation;
            v_now.state := 'bound';
            v_now.node := v_item #>> '{3,node}';
        WHEN 'PodUnreserved' THEN
            v_others := v_others || v_id;
            IF v_before IN ('binding', 'waiting') THEN
                v_reserved := v_reserved || ROW(
                    v_seq, v_at, v_now.reserved_seq, v_now.reserved_at, v_now.uid, p_stream,
                    v_now.attempts, v_now.node, 'PodUnreserved')::eventsched_log.reservation;
            END IF;
            IF v_now.state <> 'bound' THEN
                v_now.state := 'unqueued';
                v_now.node := NULL;
            END IF;
        WHEN 'PodSkipped' THEN
            v_others := v_others || v_id;
            v_now.state := 'unqueued';
        WHEN 'BindIntended' THEN
            v_others := v_others || v_id;
            v_now.state := 'binding';
        WHEN 'ExtenderReplied' THEN
            v_others := v_others || v_id;
            IF (v_item #>> '{3,attempt}')::integer > 0 THEN
                v_now.reserved_seq := NULL;
                v_now.reserved_at := NULL;
                v_now.state := 'binding';
                v_now.node := v_item #>> '{3,node}';
                v_now.attempts := (v_item #>> '{3,attempt}')::integer;
                v_now.nominated := NULL;
            END IF;
        WHEN 'PreemptionDecided' THEN
            v_others := v_others || v_id || ARRAY(
                SELECT eventsched_log.uid(victim)
                FROM json_array_elements_text(v_item #> '{3,victims}') AS victim);
            v_now.nominated := v_item #>> '{3,node}';
        WHEN 'NominationCleared' THEN
            v_others := v_others || v_id;
            v_now.nominated := NULL;
        WHEN 'EvictionSucceeded' THEN
            v_others := v_others || v_id;
            v_now.deleting := true;
        END CASE;
        IF v_now.state IS NULL OR v_now.state NOT IN ('binding', 'waiting') THEN
            v_now.reserved_seq := NULL;
            v_now.reserved_at := NULL;
        END IF;
        IF v_now.state IS DISTINCT FROM v_before THEN
            v_now.since := v_at;
            IF v_before IN ('active', 'backoff', 'unschedulable', 'gated') THEN
                v_stays := v_stays || ROW(v_seq, v_since, v_at, v_id, p_stream,
                                          v_before)::eventsched_log.queue_stay;
            END IF;
        END IF;
        IF v_now.state = 'bound' THEN
            v_now.waiting_since := NULL;
        END IF;
    END LOOP;
    IF v_moves IS NOT NULL THEN
        INSERT INTO eventsched_log.queue_move SELECT * FROM unnest(v_moves);
    END IF;
    IF v_stays IS NOT NULL THEN
        INSERT INTO eventsched_log.queue_stay SELECT * FROM unnest(v_stays);
    END IF;
    IF v_reserved IS NOT NULL THEN
        INSERT INTO eventsched_log.reservation SELECT * FROM unnest(v_reserved);
    END IF;
    IF v_ends IS NOT NULL THEN
        INSERT INTO eventsched_log.pod_end SELECT * FROM unnest(v_ends);
    END IF;
    IF v_refused IS NOT NULL THEN
        INSERT INTO eventsched_log.refusal SELECT * FROM unnest(v_refused);
    END IF;
    IF v_others IS NOT NULL THEN
        INSERT INTO eventsched_log.mention (first, pod, stream)
        SELECT p_first, pod, p_stream
        FROM (SELECT unnest(v_others) AS pod EXCEPT SELECT unnest(v_typed)) AS others
        WHERE pod IS NOT NULL;
    END IF;
    INSERT INTO eventsched_log.record_count AS c (stream, kind, records)
    SELECT p_stream, kind, count(*) FROM unnest(v_kinds) AS kind GROUP BY kind
    ON CONFLICT ON CONSTRAINT record_count_pkey
    DO UPDATE SET records = c.records + excluded.records;
    IF v_has_more AND NOT p_is_old THEN
        PERFORM eventsched_log.derive_names(p_stream, p_first, p_body);
    END IF;
END $$;

CREATE OR REPLACE VIEW eventsched.queue_moves AS
SELECT s.name AS stream, m.seq, eventsched_log.time(m.at) AS at, p.namespace, p.name AS pod,
       m.pod AS pod_uid, m.queue, m.cause, m.caused_by, m.plugin,
       coalesce(m.rejectors, '{}') AS rejectors, coalesce(m.pending, '{}') AS pending,
       eventsched_log.time(m.until) AS until, coalesce(m.failures, 0) AS failures,
       coalesce(m.errors, 0) AS errors,
       eventsched_log.record(m.stream, m.seq) ->> 'message' AS message
FROM eventsched_log.queue_move m
JOIN eventsched_log.chosen_stream s ON s.id = m.stream
LEFT JOIN eventsched_log.pod p ON p.stream = m.stream AND p.uid = m.pod;

CREATE VIEW eventsched.queue_stays AS
SELECT s.name AS stream, p.namespace, p.name AS pod, q.pod AS pod_uid, q.queue,
       eventsched_log.time(q.since) AS since, eventsched_log.time(q.until) AS until,
       q.ended_seq
FROM (
    SELECT stream, pod, queue, since, until, seq AS ended_seq FROM eventsched_log.queue_stay
    UNION ALL
    SELECT stream, uid AS pod, state AS queue, since, NULL::bigint AS until,
           NULL::bigint AS ended_seq
    FROM eventsched_log.pod_now
    WHERE state IN ('active', 'backoff', 'unschedulable', 'gated')
) q
JOIN eventsched_log.chosen_stream s ON s.id = q.stream
LEFT JOIN eventsched_log.pod p ON p.stream = q.stream AND p.uid = q.pod;

CREATE OR REPLACE VIEW eventsched.bindings AS
SELECT s.name AS stream, p.namespace, p.name AS pod, r.pod AS pod_uid, r.attempt, r.node,
       r.decided_seq, r.seq AS bound_seq, eventsched_log.time(r.decided_at) AS decided_at,
       eventsched_log.time(r.at) AS bound_at,
       (SELECT eventsched_log.time(e.at) FROM eventsched_log.pod_end e
        WHERE e.stream = r.stream AND e.pod = r.pod AND e.seq > r.seq ORDER BY e.seq LIMIT 1)
           AS gone_at
FROM eventsched_log.reservation r
JOIN eventsched_log.chosen_stream s ON s.id = r.stream
LEFT JOIN eventsched_log.pod p ON p.stream = r.stream AND p.uid = r.pod
WHERE r.ended_by = 'PodBound';

CREATE OR REPLACE VIEW eventsched.reservations AS
SELECT s.name AS stream, p.namespace, p.name AS pod, r.pod AS pod_uid, r.attempt, r.node,
       r.decided_seq AS reserved_seq, eventsched_log.time(r.decided_at) AS reserved_at,
       r.seq AS ended_seq, eventsched_log.time(r.at) AS ended_at, r.ended_by
FROM (
    SELECT stream, pod, attempt, node, decided_seq, decided_at, seq, at, ended_by
    FROM eventsched_log.reservation
    UNION ALL
    SELECT stream, uid AS pod, attempts AS attempt, node, reserved_seq AS decided_seq,
           reserved_at AS decided_at, NULL::bigint AS seq, NULL::bigint AS at,
           NULL::text AS ended_by
    FROM eventsched_log.pod_now
) r
JOIN eventsched_log.chosen_stream s ON s.id = r.stream
LEFT JOIN eventsched_log.pod p ON p.stream = r.stream AND p.uid = r.pod
WHERE r.decided_seq IS NOT NULL;

CREATE OR REPLACE VIEW eventsched.refusals AS
SELECT s.name AS stream, r.seq, eventsched_log.time(d.at) AS at, p.namespace, p.name AS pod,
       d.pod AS pod_uid, d.attempt,
       CASE WHEN r.number >= 65533 THEN NULL ELSE nullif(v.plugin, '') END AS plugin,
       CASE r.number WHEN 65533 THEN 'Excluded' WHEN 65534 THEN 'NotEvaluated' ELSE v.code END
           AS code,
       CASE r.number WHEN 65533 THEN 'PreFilter left the node out'
                     WHEN 65534 THEN 'the search ended before this node'
                     ELSE array_to_string(v.reasons, ', ') END AS reason,
       r.nodes
FROM eventsched_log.refusal r
JOIN eventsched_log.chosen_stream s ON s.id = r.stream
LEFT JOIN eventsched_log.decision d ON d.stream = r.stream AND d.seq = r.seq
LEFT JOIN eventsched_log.pod p ON p.stream = d.stream AND p.uid = d.pod
LEFT JOIN eventsched_log.verdict v ON v.stream = r.stream AND v.number = r.number;

CREATE VIEW eventsched.kinds AS
SELECT s.name AS stream, c.kind, c.records
FROM eventsched_log.record_count c JOIN eventsched_log.chosen_stream s ON s.id = c.stream;

-- The first positions of the batches that have records about a pod.
CREATE FUNCTION eventsched_log.batches_of(p_stream integer, p_pod uuid)
RETURNS SETOF bigint LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT DISTINCT b.first
    FROM (
        SELECT seq FROM eventsched_log.pod WHERE stream = p_stream AND uid = p_pod
        UNION ALL SELECT seq FROM eventsched_log.queue_move WHERE stream = p_stream AND pod = p_pod
        UNION ALL SELECT seq FROM eventsched_log.decision WHERE stream = p_stream AND pod = p_pod
        UNION ALL SELECT seq FROM eventsched_log.reservation WHERE stream = p_stream AND pod = p_pod
        UNION ALL SELECT seq FROM eventsched_log.pod_end WHERE stream = p_stream AND pod = p_pod
        UNION ALL SELECT first FROM eventsched_log.mention WHERE stream = p_stream AND pod = p_pod
    ) r
    CROSS JOIN LATERAL (
        SELECT first FROM eventsched_log.batch
        WHERE stream = p_stream AND first <= r.seq ORDER BY first DESC LIMIT 1
    ) b
    ORDER BY b.first
$$;

-- The rows of view events that are about a pod, or name it as a victim, by index.
CREATE FUNCTION eventsched.events_of_pod(p_stream text, p_uid text)
RETURNS TABLE (stream text, seq bigint, at timestamptz, cause bigint, kind text, record json)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT s.name, b.first + e.n - 1, eventsched_log.time((e.item ->> 0)::bigint),
           (e.item ->> 1)::bigint, e.item -> 3 ->> 'kind', e.item -> 3
    FROM eventsched_log.stream s
    CROSS JOIN LATERAL eventsched_log.batches_of(s.id, eventsched_log.uid(p_uid)) AS f (first)
    JOIN eventsched_log.batch b ON b.stream = s.id AND b.first = f.first
    CROSS JOIN LATERAL json_array_elements(b.body) WITH ORDINALITY AS e (item, n)
    WHERE s.name = p_stream
      AND (eventsched_log.pod_uid(e.item) = eventsched_log.uid(p_uid)
           OR e.item #>> '{3,kind}' = 'PreemptionDecided'
              AND e.item #> '{3,victims}' IS NOT NULL
              AND p_uid IN (SELECT json_array_elements_text(e.item #> '{3,victims}')))
$$;

COMMENT ON TABLE eventsched_log.queue_move IS 'Derived: one row per move of a pod to a queue';
COMMENT ON TABLE eventsched_log.queue_stay IS
    'Derived: one row per stay of a pod in a queue, written when it ends';
COMMENT ON TABLE eventsched_log.reservation IS
    'Derived: one row per reservation of a node for a pod, written when it ends';
COMMENT ON TABLE eventsched_log.pod_end IS 'Derived: one row per end of a pod';
COMMENT ON TABLE eventsched_log.refusal IS
    'Derived: how many nodes a decision refused with one code';
COMMENT ON TABLE eventsched_log.mention IS
    'Derived: the batches with records about a pod that no other table lists';
COMMENT ON TABLE eventsched_log.record_count IS 'Derived: the number of records of each kind';
COMMENT ON FUNCTION eventsched_log.batches_of IS
    'The first positions of the batches that have records about a pod; by index';
COMMENT ON FUNCTION eventsched.events_of_pod IS
    'The rows of view events that are about a pod of a stream, or name it as a victim; by index';
COMMENT ON VIEW eventsched.queue_stays IS
    'A pod''s time in a queue; until is null while it is there';
COMMENT ON COLUMN eventsched.queue_stays.ended_seq IS
    'Position of the record that ended it: a decision, a move to another queue, the pod''s end';
COMMENT ON VIEW eventsched.kinds IS 'The number of records of each kind, ever';
COMMENT ON COLUMN eventsched.bindings.gone_at IS 'When the pod ended; null while it exists';
