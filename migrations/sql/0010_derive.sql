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
