-- The pods that there are: one row each, kept by append() from the records of each batch, and gone
-- with the pod, so it does not grow with history. docs/log-format.md says what each record changes.

CREATE TABLE eventsched_log.pod_now (
    uid           uuid NOT NULL,
    seq           bigint NOT NULL,
    since         bigint NOT NULL,
    waiting_since bigint,
    decided_seq   bigint,
    stream        integer NOT NULL,
    attempts      integer NOT NULL,
    priority      integer NOT NULL,
    verdict       integer,
    deleting      boolean NOT NULL,
    state         text NOT NULL,
    namespace     text NOT NULL,
    name          text NOT NULL,
    scheduler     text NOT NULL,
    owner_kind    text,
    owner_name    text,
    node          text,
    nominated     text,
    asked         text,
    plugin        text,
    message       text,
    PRIMARY KEY (stream, uid)
) WITH (fillfactor = 60);

-- Replaces derive() of 0001_append.sql. One pass over the records, where each kind had a statement
-- that unfolded the body again: that pays for half of what the rows of pod_now cost. Consecutive
-- records of one pod are folded in v_now and stored once; a last element, null, has the row stored
-- that is still in hand. The text of a record begins with its kind. With p_is_old only pod_now is
-- filled: the other tables have their rows. append() sets the search_path.
DROP FUNCTION eventsched_log.derive(integer, bigint, json);
CREATE FUNCTION eventsched_log.derive(
    p_stream integer, p_first bigint, p_body json, p_is_old boolean DEFAULT false
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_seq      bigint := p_first - 1;
    v_item     json;
    v_at       bigint;
    v_kind     text;
    v_uid      text;
    v_in_hand  text := '';
    v_before   text;
    v_has_more boolean := false;
    v_pod      record;
    v_said     record;
    v_now      eventsched_log.pod_now;
BEGIN
    FOREACH v_item IN ARRAY ARRAY(SELECT json_array_elements(p_body)) || NULL::json LOOP
        v_seq := v_seq + 1;
        v_kind := split_part(v_item::text, '"', 4);
        v_has_more := v_has_more OR v_kind IN ('NodeAdded', 'VerdictDefined', 'ScoringDefined');
        CONTINUE WHEN v_kind NOT IN (  -- none: the loop ends with it
            'PodAdded', 'PodUpdated', 'PodDeleted', 'PodQueued', 'PodDecided', 'PodBound',
            'PodUnreserved', 'PodSkipped', 'BindIntended', 'ExtenderReplied', 'PreemptionDecided',
            'NominationCleared', 'EvictionSucceeded');
        v_at := substr(split_part(v_item::text, ',', 1), 2)::bigint;
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
                INSERT INTO eventsched_log.pod_now SELECT v_now.*
                ON CONFLICT ON CONSTRAINT pod_now_pkey DO UPDATE SET
                    seq = excluded.seq, since = excluded.since,
                    waiting_since = excluded.waiting_since, decided_seq = excluded.decided_seq,
                    attempts = excluded.attempts, priority = excluded.priority,
                    verdict = excluded.verdict, deleting = excluded.deleting,
                    state = excluded.state, namespace = excluded.namespace, name = excluded.name,
                    scheduler = excluded.scheduler, owner_kind = excluded.owner_kind,
                    owner_name = excluded.owner_name, node = excluded.node,
                    nominated = excluded.nominated, asked = excluded.asked,
                    plugin = excluded.plugin, message = excluded.message;
            END IF;
            EXIT WHEN v_item IS NULL;
            v_in_hand := v_uid;
            v_now := NULL;
            IF v_kind = 'PodBound' THEN  -- what most rows come to, without reading them first
                UPDATE eventsched_log.pod_now n
                SET since = CASE n.state WHEN 'bound' THEN n.since ELSE v_at END, state = 'bound',
                    waiting_since = NULL, node = v_item #>> '{3,node}'
                WHERE n.stream = p_stream AND n.uid = eventsched_log.uid(v_uid);
                v_in_hand := '';
                CONTINUE;
            ELSIF v_kind NOT IN ('PodAdded', 'PodDeleted') THEN
                SELECT * INTO v_now FROM eventsched_log.pod_now n
                WHERE n.stream = p_stream AND n.uid = eventsched_log.uid(v_uid);
            END IF;
        END IF;
        v_before := v_now.state;
        CASE v_kind
        WHEN 'PodAdded' THEN
            v_now := ROW(
                eventsched_log.uid(v_uid), v_seq, v_at, NULL, NULL, p_stream, 0,
                coalesce(v_pod.priority, 0), NULL, coalesce(v_pod.deleting, false),
                CASE WHEN v_pod.node_name IS NULL THEN 'unqueued' ELSE 'bound' END,
                coalesce(v_pod.namespace, 'default'), v_pod.name,
                coalesce(v_pod.scheduler_name, 'default-scheduler'), v_pod.owner ->> 'kind',
                v_pod.owner ->> 'name', v_pod.node_name,
                CASE WHEN v_pod.node_name IS NULL THEN v_pod.nominated_node END,
                v_pod.nominated_node, NULL, NULL)::eventsched_log.pod_now;
            IF NOT p_is_old THEN
                INSERT INTO eventsched_log.pod (stream, uid, namespace, name, seq)
                VALUES (p_stream, v_now.uid, v_now.namespace, v_now.name, v_seq)
                ON CONFLICT ON CONSTRAINT pod_pkey DO NOTHING;
            END IF;
        WHEN 'PodUpdated' THEN
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
            DELETE FROM eventsched_log.pod_now n
            WHERE n.stream = p_stream AND n.uid = eventsched_log.uid(v_uid);
            v_now := NULL;
        WHEN 'PodQueued' THEN
            v_now.state := v_item #>> '{3,queue}';
            v_now.waiting_since := coalesce(v_now.waiting_since, v_at);
        WHEN 'PodDecided' THEN
            IF NOT p_is_old THEN
                INSERT INTO eventsched_log.decision
                    (stream, seq, at, pod, attempt, profile, outcome, node, score, runner_up,
                     runner_up_score, feasible, evaluated, ties, draw)
                VALUES (p_stream, v_seq, v_at, eventsched_log.uid(v_uid), v_said.attempt,
                        coalesce(v_said.profile, 'default-scheduler'), v_said.outcome,
                        v_said.node, coalesce(v_said.score, 0), v_said.runner_up,
                        coalesce(v_said.runner_up_score, 0), coalesce(v_said.feasible, 0),
                        coalesce(v_said.evaluated, 0), coalesce(v_said.ties, 0),
                        CASE WHEN v_said.draw >= 9223372036854775808
                             THEN v_said.draw - 18446744073709551616
                             ELSE coalesce(v_said.draw, 0) END);
            END IF;
            v_now.attempts := v_said.attempt;
            v_now.decided_seq := v_seq;
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
            v_now.state := 'bound';
            v_now.node := v_item #>> '{3,node}';
        WHEN 'PodUnreserved' THEN
            IF v_now.state <> 'bound' THEN
                v_now.state := 'unqueued';
                v_now.node := NULL;
            END IF;
        WHEN 'PodSkipped' THEN
            v_now.state := 'unqueued';
        WHEN 'BindIntended' THEN
            v_now.state := 'binding';
        WHEN 'ExtenderReplied' THEN
            IF (v_item #>> '{3,attempt}')::integer > 0 THEN
                v_now.state := 'binding';
                v_now.node := v_item #>> '{3,node}';
                v_now.attempts := (v_item #>> '{3,attempt}')::integer;
                v_now.nominated := NULL;
            END IF;
        WHEN 'PreemptionDecided' THEN
            v_now.nominated := v_item #>> '{3,node}';
        WHEN 'NominationCleared' THEN
            v_now.nominated := NULL;
        WHEN 'EvictionSucceeded' THEN
            v_now.deleting := true;
        END CASE;
        IF v_now.state <> v_before THEN
            v_now.since := v_at;
        END IF;
        IF v_now.state = 'bound' THEN
            v_now.waiting_since := NULL;
        END IF;
    END LOOP;
    IF v_has_more AND NOT p_is_old THEN
        PERFORM eventsched_log.derive_names(p_stream, p_first, p_body);
    END IF;
END $$;

-- The rows of nodes and of the dictionaries, which most batches have none of.
CREATE FUNCTION eventsched_log.derive_names(p_stream integer, p_first bigint, p_body json)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF strpos(p_body::text, '"kind":"NodeAdded"') > 0 THEN
        INSERT INTO eventsched_log.node (stream, ordinal, name, seq)
        SELECT p_stream,
               (SELECT count(*) FROM eventsched_log.node n WHERE n.stream = p_stream) - 1
                   + row_number() OVER (ORDER BY n),
               item -> 3 -> 'node' ->> 'name', p_first + n - 1
        FROM json_array_elements(p_body) WITH ORDINALITY AS e (item, n)
        WHERE item -> 3 ->> 'kind' = 'NodeAdded';
    END IF;
    IF strpos(p_body::text, '"kind":"VerdictDefined"') > 0 THEN
        INSERT INTO eventsched_log.verdict (stream, number, plugin, code, reasons)
        SELECT p_stream, (item -> 3 ->> 'number')::integer, item -> 3 -> 'verdict' ->> 'plugin',
               item -> 3 -> 'verdict' ->> 'code',
               ARRAY(SELECT json_array_elements_text(item -> 3 -> 'verdict' -> 'reasons'))
        FROM json_array_elements(p_body) AS e (item)
        WHERE item -> 3 ->> 'kind' = 'VerdictDefined';
    END IF;
    IF strpos(p_body::text, '"kind":"ScoringDefined"') > 0 THEN
        INSERT INTO eventsched_log.scoring (stream, number, place, plugin, weight, normalization)
        SELECT p_stream, (item -> 3 ->> 'number')::integer, place - 1, c ->> 'plugin',
               (c ->> 'weight')::bigint, coalesce(c ->> 'normalization', 'identity')
        FROM json_array_elements(p_body) AS e (item),
             json_array_elements(item -> 3 -> 'columns') WITH ORDINALITY AS f (c, place)
        WHERE item -> 3 ->> 'kind' = 'ScoringDefined';
    END IF;
END $$;


-- A reasonable page fill as rows come and go.
ALTER TABLE eventsched_log.pod_now SET (autovacuum_vacuum_scale_factor = 0.05);

CREATE VIEW eventsched.pods_now AS
SELECT s.name AS stream, n.namespace, n.name AS pod, n.uid AS pod_uid, n.state,
       eventsched_log.time(n.since) AS since,
       eventsched_log.time(n.waiting_since) AS waiting_since, n.attempts,
       CASE WHEN n.verdict >= 65533 THEN NULL
            ELSE coalesce(nullif(v.plugin, ''), nullif(n.plugin, '')) END AS plugin,
       CASE n.verdict WHEN 65533 THEN 'Excluded' WHEN 65534 THEN 'NotEvaluated' ELSE v.code END
           AS code,
       CASE n.verdict WHEN 65533 THEN 'PreFilter left the node out'
                      WHEN 65534 THEN 'the search ended before this node'
                      ELSE coalesce(array_to_string(v.reasons, ', '), n.message) END AS reason,
       n.message, n.owner_kind, n.owner_name, n.node, n.nominated, n.priority,
       n.scheduler AS scheduler_name, n.deleting, n.seq, n.decided_seq
FROM eventsched_log.pod_now n
JOIN eventsched_log.stream s ON s.id = n.stream
LEFT JOIN eventsched_log.verdict v ON v.stream = n.stream AND v.number = n.verdict;

CREATE VIEW eventsched.oldest_waiting AS
SELECT DISTINCT ON (stream, scheduler_name, state) *
FROM eventsched.pods_now
WHERE waiting_since IS NOT NULL AND state <> 'unqueued'
ORDER BY stream, scheduler_name, state, waiting_since, seq;

-- Preemptions are few: the batches that hold one are found by index batch_preemptions, which is
-- made when the table is filled.
CREATE VIEW eventsched_log.preempted AS
SELECT s.id, s.name AS stream, b.first, b.first + e.n - 1 AS seq,
       eventsched_log.time((e.item ->> 0)::bigint) AS at,
       eventsched_log.uid(e.item #>> '{3,uid}') AS pod_uid, e.item -> 3 AS record
FROM eventsched_log.stream s
JOIN eventsched_log.batch b
    ON b.stream = s.id AND strpos(b.body::text, '"kind":"PreemptionDecided"') > 0
CROSS JOIN LATERAL json_array_elements(b.body) WITH ORDINALITY AS e (item, n)
WHERE e.item #>> '{3,kind}' = 'PreemptionDecided';

-- The first record after a position, of a batch that begins at p_first or later, that ends a pod's
-- eviction; only the pod's end if p_gone. Looks from there on and stops at the first one.
CREATE FUNCTION eventsched_log.eviction_end(
    p_stream integer, p_first bigint, p_seq bigint, p_uid text, p_gone boolean
) RETURNS TABLE (kind text, message text, seq bigint, at timestamptz)
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    v_first bigint;
    v_body  json;
BEGIN
    FOR v_first, v_body IN
        SELECT b.first, b.body FROM eventsched_log.batch b
        WHERE b.stream = p_stream AND b.first >= p_first
          AND strpos(b.body::text, '"uid":' || to_json(p_uid)) > 0
        ORDER BY b.first
    LOOP
        RETURN QUERY
        SELECT r.record ->> 'kind', r.record ->> 'message', v_first + e.n - 1,
               eventsched_log.time((e.item ->> 0)::bigint)
        FROM json_array_elements(v_body) WITH ORDINALITY AS e (item, n)
        CROSS JOIN LATERAL (SELECT e.item -> 3 AS record) r
        WHERE v_first + e.n - 1 > p_seq
          AND p_uid IN (r.record ->> 'uid', r.record #>> '{pod,uid}')
          AND CASE r.record ->> 'kind'
                  WHEN 'PodDeleted' THEN true
                  WHEN 'PodUpdated' THEN
                      NOT p_gone AND coalesce(r.record #>> '{pod,deleting}', '') = 'true'
                  WHEN 'EvictionSucceeded' THEN NOT p_gone
                  WHEN 'EvictionFailed' THEN NOT p_gone
                  ELSE false END
        ORDER BY e.n LIMIT 1;
        EXIT WHEN FOUND;
    END LOOP;
END $$;

CREATE OR REPLACE VIEW eventsched.preemptions AS
SELECT e.stream, e.seq, e.at, o.namespace, o.name AS pod, e.pod_uid,
       (e.record ->> 'attempt')::integer AS attempt, e.record ->> 'node' AS node,
       e.record ->> 'criterion' AS criterion,
       ARRAY(SELECT coalesce(p.namespace || '/' || p.name, v.uid)
             FROM json_array_elements_text(e.record -> 'victims') WITH ORDINALITY AS v (uid, n)
             LEFT JOIN eventsched_log.pod p
                 ON p.stream = e.id AND p.uid = eventsched_log.uid(v.uid)
             ORDER BY v.n) AS victims,
       coalesce((e.record ->> 'nodes')::integer, 0) AS nodes,
       coalesce((e.record ->> 'looked')::integer, 0) AS looked,
       coalesce((e.record ->> 'candidates')::integer, 0) AS candidates,
       coalesce((e.record ->> 'violations')::integer, 0) AS violations,
       coalesce((e.record ->> 'highest')::integer, 0) AS highest,
       coalesce((e.record ->> 'total')::bigint, 0) AS total,
       eventsched_log.time((e.record ->> 'start')::bigint) AS start,
       l.node AS landed_on, l.seq AS landed_seq
FROM eventsched_log.preempted e
LEFT JOIN eventsched_log.pod o ON o.stream = e.id AND o.uid = e.pod_uid
LEFT JOIN LATERAL (  -- the next attempt that found a node
    SELECT seq, node FROM eventsched_log.decision
    WHERE stream = e.id AND pod = e.pod_uid AND seq > e.seq
      AND outcome IN ('scheduled', 'waiting')
    ORDER BY seq LIMIT 1
) l ON true;

CREATE OR REPLACE VIEW eventsched.evictions AS
SELECT i.stream, p.namespace, p.name AS pod, i.pod_uid, i.node, i.preemptor, i.preemptor_uid,
       i.seq AS decided_seq, i.at AS decided_at,
       CASE WHEN i.spared IS NOT NULL THEN i.spared
            WHEN o.kind IS NULL THEN 'open'
            WHEN o.kind = 'EvictionFailed' THEN 'failed'
            ELSE 'accepted' END AS outcome,
       o.message, o.seq AS outcome_seq, o.at AS outcome_at, g.seq AS gone_seq, g.at AS gone_at
FROM (
    SELECT e.stream, e.id, e.first, e.seq, e.at, e.record ->> 'node' AS node,
           e.pod_uid AS preemptor_uid, m.namespace || '/' || m.name AS preemptor,
           v.uid, eventsched_log.uid(v.uid) AS pod_uid,
           CASE WHEN e.record -> 'leaving' IS NOT NULL AND v.uid IN (
                    SELECT json_array_elements_text(e.record -> 'leaving')) THEN 'leaving'
                WHEN e.record -> 'sent_back' IS NOT NULL AND v.uid IN (
                    SELECT json_array_elements_text(e.record -> 'sent_back')) THEN 'sent back'
           END AS spared
    FROM eventsched_log.preempted e
    LEFT JOIN eventsched_log.pod m ON m.stream = e.id AND m.uid = e.pod_uid
    CROSS JOIN LATERAL json_array_elements_text(e.record -> 'victims') AS v (uid)
) i
LEFT JOIN eventsched_log.pod p ON p.stream = i.id AND p.uid = i.pod_uid
LEFT JOIN LATERAL eventsched_log.eviction_end(i.id, i.first, i.seq, i.uid, false) o
    ON i.spared IS NULL
LEFT JOIN eventsched_log.pod_now n
    ON n.stream = i.id AND n.uid = i.pod_uid AND n.seq < i.seq  -- still there: nothing to look for
LEFT JOIN LATERAL eventsched_log.eviction_end(i.id, i.first, i.seq, i.uid, true) g
    ON n.uid IS NULL;

COMMENT ON TABLE eventsched_log.pod_now IS
    'Derived: the pods that there are, and where each stands; gone with the pod';
COMMENT ON FUNCTION eventsched_log.derive IS
    'Writes the derived rows of a batch';
COMMENT ON FUNCTION eventsched_log.derive_names IS
    'Writes the derived rows of nodes and dictionaries of a batch';
COMMENT ON FUNCTION eventsched_log.eviction_end IS
    'What became of an eviction: the first record after a position that says so';
COMMENT ON VIEW eventsched_log.preempted IS 'The records of preemptions, by index';
COMMENT ON VIEW eventsched.pods_now IS
    'The pods that there are now, with where each stands, since when, and why';
COMMENT ON COLUMN eventsched.pods_now.state IS
    'active, backoff, unschedulable or gated (a queue); waiting (at Permit or PreBind); binding; '
    'bound; unqueued (not this scheduler''s to place)';
COMMENT ON COLUMN eventsched.pods_now.since IS 'When it came into that state';
COMMENT ON COLUMN eventsched.pods_now.waiting_since IS
    'When it first came into a queue; null if it is on a node or never came into one';
COMMENT ON COLUMN eventsched.pods_now.plugin IS
    'The plugin that refused most nodes in the last attempt, or ended the attempt';
COMMENT ON COLUMN eventsched.pods_now.code IS 'The status code of those refusals';
COMMENT ON COLUMN eventsched.pods_now.reason IS 'Their reason';
COMMENT ON COLUMN eventsched.pods_now.message IS 'The whole message of the last failed attempt';
COMMENT ON COLUMN eventsched.pods_now.node IS 'The node that it is on or reserved for';
COMMENT ON COLUMN eventsched.pods_now.nominated IS 'The node where others have to leave for it';
COMMENT ON COLUMN eventsched.pods_now.seq IS 'Position of the record that added it';
COMMENT ON COLUMN eventsched.pods_now.decided_seq IS
    'Position of its last attempt: see verdicts() and scores()';
COMMENT ON VIEW eventsched.oldest_waiting IS
    'The pod that has waited longest, for each schedulerName and state';
