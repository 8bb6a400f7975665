-- As before, and it takes the records of each pod together, wherever they are in the batch, and stores
-- the rows of all tables at the end, one statement for each: a row of pod_now is written once for a
-- batch, as the batch leaves it. INSERT ... ON CONFLICT finds a row by its key however few rows there
-- were when the statement was planned. p_is_old is not used: a running append() needs the function
-- with the arguments that it had.
CREATE OR REPLACE FUNCTION eventsched_log.derive(
    p_stream integer, p_first bigint, p_body json, p_is_old boolean DEFAULT false
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_item     record;
    v_at       bigint;
    v_uid      text;
    v_id       uuid;  -- of v_uid
    v_before   text;
    v_has_more boolean := false;
    v_since    bigint;
    v_pod      record;
    v_said     record;
    v_now      eventsched_log.pod_now;
    v_gone     eventsched_log.pod_now;
    v_move     record;
    v_attempt  integer;
    v_kinds    text[];
    v_typed    uuid[];  -- pods with a typed row in this batch, and pods with any other record
    v_others   uuid[];
    v_ended    uuid[];
    v_pods     eventsched_log.pod[];
    v_nows     eventsched_log.pod_now[];
    v_decided  eventsched_log.decision[];
    v_moves    eventsched_log.queue_move[];
    v_stays    eventsched_log.queue_stay[];
    v_ends     eventsched_log.pod_end[];
    v_reserved eventsched_log.reservation[];
    v_seen     bigint[];  -- PodUpdated that ended a reservation before its PodBound, and those
    v_bound    bigint[];
    v_refusers bigint[];  -- decisions with counts, and these
    v_counts   json[];
BEGIN
    FOR v_item IN
        SELECT p_first + n - 1 AS seq, kind, item, CASE
                   WHEN kind IN ('PodAdded', 'PodUpdated') THEN item #>> '{3,pod,uid}'
                   WHEN kind IN (
                       'PodDeleted', 'PodQueued', 'PodDecided', 'PodBound', 'PodUnreserved',
                       'PodSkipped', 'BindIntended', 'ExtenderReplied', 'PreemptionDecided',
                       'NominationCleared', 'EvictionSucceeded') THEN item #>> '{3,uid}'
               END COLLATE "C" AS uid
        FROM json_array_elements(p_body) WITH ORDINALITY AS e (item, n)
        CROSS JOIN LATERAL split_part(item::text, '"', 4) AS kind
        ORDER BY uid, n
    LOOP
        v_kinds := v_kinds || v_item.kind;
        IF v_item.uid IS NULL THEN  -- of no pod, or it changes no row of one
            v_has_more := v_has_more
                OR v_item.kind IN ('NodeAdded', 'VerdictDefined', 'ScoringDefined');
            IF strpos(v_item.item::text, ',"uid":"') > 0 THEN
                v_others := v_others || eventsched_log.uid(v_item.item #>> '{3,uid}');
            END IF;
            CONTINUE;
        END IF;
        v_at := substr(split_part(v_item.item::text, ',', 1), 2)::bigint;
        IF v_item.uid IS DISTINCT FROM v_uid THEN
            IF v_now.uid IS NOT NULL THEN
                v_nows := v_nows || v_now;
            ELSIF v_uid IS NOT NULL THEN
                v_ended := v_ended || v_id;
            END IF;
            v_uid := v_item.uid;
            v_id := eventsched_log.uid(v_uid);
            v_now := NULL;
            IF v_item.kind <> 'PodAdded' THEN
                SELECT * INTO v_now FROM eventsched_log.pod_now n
                WHERE n.stream = p_stream AND n.uid = v_id;
            END IF;
        END IF;
        IF v_item.kind IN ('PodAdded', 'PodUpdated') THEN
            SELECT * INTO v_pod FROM json_to_record(v_item.item #> '{3,pod}') AS p (
                namespace text, name text, owner json, priority integer,
                scheduler_name text, node_name text, deleting boolean, nominated_node text);
        END IF;
        v_before := v_now.state;
        v_since := v_now.since;
        CASE v_item.kind
        WHEN 'PodAdded' THEN
            v_now := ROW(
                v_id, v_item.seq, v_at, NULL, NULL, p_stream, 0,
                coalesce(v_pod.priority, 0), NULL, coalesce(v_pod.deleting, false),
                CASE WHEN v_pod.node_name IS NULL THEN 'unqueued' ELSE 'bound' END,
                coalesce(v_pod.namespace, 'default'), v_pod.name,
                coalesce(v_pod.scheduler_name, 'default-scheduler'), v_pod.owner ->> 'kind',
                v_pod.owner ->> 'name', v_pod.node_name,
                CASE WHEN v_pod.node_name IS NULL THEN v_pod.nominated_node END,
                v_pod.nominated_node, NULL, NULL, NULL, NULL)::eventsched_log.pod_now;
            v_pods := v_pods || ROW(v_id, v_item.seq, p_stream, v_now.namespace, v_now.name
                                   )::eventsched_log.pod;
        WHEN 'PodUpdated' THEN
            v_others := v_others || v_id;
            IF v_pod.node_name IS NOT NULL AND v_before IN ('binding', 'waiting') THEN
                v_reserved := v_reserved || ROW(
                    v_item.seq, v_at, v_now.reserved_seq, v_now.reserved_at, v_now.uid, p_stream,
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
            v_now := NULL;
            v_typed := v_typed || v_id;
            v_ends := v_ends
                || ROW(v_item.seq, v_at, v_id, p_stream)::eventsched_log.pod_end;
            IF v_before IN ('binding', 'waiting') THEN
                v_reserved := v_reserved || ROW(
                    v_item.seq, v_at, v_gone.reserved_seq, v_gone.reserved_at, v_gone.uid, p_stream,
                    v_gone.attempts, v_gone.node, 'PodDeleted')::eventsched_log.reservation;
            END IF;
        WHEN 'PodQueued' THEN
            SELECT * INTO v_move FROM json_to_record(v_item.item -> 3) AS m (
                queue text, cause text, plugin text, until bigint, failures integer,
                errors integer, rejectors text[], pending text[]);
            v_now.state := v_move.queue;
            v_now.waiting_since := coalesce(v_now.waiting_since, v_at);
            v_typed := v_typed || v_id;
            v_moves := v_moves || ROW(
                v_item.seq, v_at, (v_item.item ->> 1)::bigint, v_id, p_stream,
                v_move.queue, v_move.cause, v_move.plugin, v_move.until, v_move.failures,
                v_move.errors, v_move.rejectors, v_move.pending)::eventsched_log.queue_move;
        WHEN 'PodDecided' THEN
            SELECT * INTO v_said FROM json_to_record(v_item.item -> 3) AS d (
                attempt integer, profile text, outcome eventsched_log.outcome, node text,
                score bigint, runner_up text, runner_up_score bigint, feasible integer,
                evaluated integer, ties integer, draw numeric, plugin text, message text,
                counts json);
            v_decided := v_decided || ROW(
                v_item.seq, v_at,
                CASE WHEN v_said.draw >= 9223372036854775808
                     THEN v_said.draw - 18446744073709551616
                     ELSE coalesce(v_said.draw, 0) END,
                coalesce(v_said.score, 0), coalesce(v_said.runner_up_score, 0), v_id, p_stream,
                v_said.attempt, coalesce(v_said.feasible, 0), coalesce(v_said.evaluated, 0),
                coalesce(v_said.ties, 0), v_said.outcome,
                coalesce(v_said.profile, 'default-scheduler'), v_said.node, v_said.runner_up
                )::eventsched_log.decision;
            v_typed := v_typed || v_id;
            IF v_said.counts IS NOT NULL THEN
                v_refusers := v_refusers || v_item.seq;
                v_counts := v_counts || v_said.counts;
            END IF;
            v_now.attempts := v_said.attempt;
            v_now.decided_seq := v_item.seq;
            v_now.reserved_seq := CASE WHEN v_said.outcome IN ('scheduled', 'waiting')
                                       THEN v_item.seq END;
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
            v_attempt := (v_item.item #>> '{3,attempt}')::integer;
            IF v_now.reserved_seq IS NULL OR v_now.attempts IS DISTINCT FROM v_attempt THEN
                SELECT d.seq, d.at INTO v_now.reserved_seq, v_now.reserved_at FROM (
                    SELECT seq, at FROM unnest(v_decided)
                    WHERE pod = v_id AND attempt = v_attempt
                    UNION ALL
                    SELECT seq, at FROM eventsched_log.decision
                    WHERE stream = p_stream AND pod = v_id AND seq < p_first
                      AND attempt = v_attempt
                ) AS d ORDER BY d.seq DESC LIMIT 1;
            END IF;
            IF (v_reserved[cardinality(v_reserved)]).pod = v_id
               AND (v_reserved[cardinality(v_reserved)]).ended_by = 'PodUpdated'
               AND (v_reserved[cardinality(v_reserved)]).seq >= (v_item.item ->> 1)::bigint THEN
                v_seen := v_seen || (v_reserved[cardinality(v_reserved)]).seq;
                v_bound := v_bound || v_item.seq;
            END IF;
            v_reserved := v_reserved || ROW(
                v_item.seq, v_at, v_now.reserved_seq, v_now.reserved_at, v_id,
                p_stream, v_attempt, v_item.item #>> '{3,node}', 'PodBound'
                )::eventsched_log.reservation;
            v_now.state := 'bound';
            v_now.node := v_item.item #>> '{3,node}';
        WHEN 'PodUnreserved' THEN
            v_others := v_others || v_id;
            IF v_before IN ('binding', 'waiting') THEN
                v_reserved := v_reserved || ROW(
                    v_item.seq, v_at, v_now.reserved_seq, v_now.reserved_at, v_now.uid, p_stream,
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
            IF (v_item.item #>> '{3,attempt}')::integer > 0 THEN
                v_now.reserved_seq := NULL;
                v_now.reserved_at := NULL;
                v_now.state := 'binding';
                v_now.node := v_item.item #>> '{3,node}';
                v_now.attempts := (v_item.item #>> '{3,attempt}')::integer;
                v_now.nominated := NULL;
            END IF;
        WHEN 'PreemptionDecided' THEN
            v_others := v_others || v_id || ARRAY(
                SELECT eventsched_log.uid(victim)
                FROM json_array_elements_text(v_item.item #> '{3,victims}') AS victim);
            v_now.nominated := v_item.item #>> '{3,node}';
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
                v_stays := v_stays || ROW(v_item.seq, v_since, v_at, v_id, p_stream,
                                          v_before)::eventsched_log.queue_stay;
            END IF;
        END IF;
        IF v_now.state = 'bound' THEN
            v_now.waiting_since := NULL;
        END IF;
        IF v_now.uid IS NULL THEN  -- a record of a pod that is gone changes no row
            v_now := NULL;
        END IF;
    END LOOP;
    IF v_now.uid IS NOT NULL THEN
        v_nows := v_nows || v_now;
    ELSIF v_uid IS NOT NULL THEN
        v_ended := v_ended || v_id;
    END IF;
    IF v_pods IS NOT NULL THEN
        WITH added AS (
            INSERT INTO eventsched_log.pod SELECT * FROM unnest(v_pods)
            ON CONFLICT ON CONSTRAINT pod_pkey DO NOTHING
            RETURNING uid, seq
        )
        SELECT v_others || array_agg(p.uid) INTO v_others  -- their second life
        FROM unnest(v_pods) AS p LEFT JOIN added AS a ON a.uid = p.uid AND a.seq = p.seq
        WHERE a.uid IS NULL;
    END IF;
    IF v_ended IS NOT NULL THEN
        DELETE FROM eventsched_log.pod_now n WHERE n.stream = p_stream AND n.uid = ANY (v_ended);
    END IF;
    IF v_nows IS NOT NULL THEN
        INSERT INTO eventsched_log.pod_now SELECT * FROM unnest(v_nows)
        ON CONFLICT ON CONSTRAINT pod_now_pkey DO UPDATE SET
            seq = excluded.seq, since = excluded.since, waiting_since = excluded.waiting_since,
            decided_seq = excluded.decided_seq, attempts = excluded.attempts,
            priority = excluded.priority, verdict = excluded.verdict,
            deleting = excluded.deleting, state = excluded.state,
            namespace = excluded.namespace, name = excluded.name,
            scheduler = excluded.scheduler, owner_kind = excluded.owner_kind,
            owner_name = excluded.owner_name, node = excluded.node,
            nominated = excluded.nominated, asked = excluded.asked, plugin = excluded.plugin,
            message = excluded.message, reserved_seq = excluded.reserved_seq,
            reserved_at = excluded.reserved_at;
    END IF;
    IF v_decided IS NOT NULL THEN
        INSERT INTO eventsched_log.decision SELECT * FROM unnest(v_decided);
    END IF;
    IF v_moves IS NOT NULL THEN
        INSERT INTO eventsched_log.queue_move SELECT * FROM unnest(v_moves);
    END IF;
    IF v_stays IS NOT NULL THEN
        INSERT INTO eventsched_log.queue_stay SELECT * FROM unnest(v_stays);
    END IF;
    IF v_reserved IS NOT NULL THEN
        IF v_seen IS NOT NULL THEN  -- the cluster showed the pod there before our bind's outcome
            v_reserved := ARRAY(
                SELECT r FROM unnest(v_reserved) AS r WHERE r.seq NOT IN (
                    SELECT s.seq FROM unnest(v_seen, v_bound) AS s (seq, bound)
                    WHERE NOT EXISTS (SELECT FROM unnest(v_reserved) AS o
                                      WHERE o.seq > s.seq AND o.seq < s.bound)));
        END IF;
        INSERT INTO eventsched_log.reservation SELECT * FROM unnest(v_reserved);
    END IF;
    IF v_ends IS NOT NULL THEN
        INSERT INTO eventsched_log.pod_end SELECT * FROM unnest(v_ends);
    END IF;
    IF v_refusers IS NOT NULL THEN
        INSERT INTO eventsched_log.refusal (seq, stream, number, nodes)
        SELECT r.seq, p_stream, (c ->> 0)::integer, (c ->> 1)::integer
        FROM unnest(v_refusers, v_counts) AS r (seq, counts), json_array_elements(r.counts) AS c;
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
    IF v_has_more THEN
        PERFORM eventsched_log.derive_names(p_stream, p_first, p_body);
    END IF;
END $$;
