-- What writers may do: begin an epoch, append, renew. Nothing else changes the log.

CREATE FUNCTION eventsched_log.acquire(
    p_stream text, p_token uuid, p_holder text, p_version text,
    OUT stream integer, OUT epoch integer, OUT next bigint, OUT hash bytea
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_stream   integer;
    v_system   bigint;
    v_timeline integer;
BEGIN
    INSERT INTO eventsched_log.stream (name) VALUES (p_stream) ON CONFLICT (name) DO NOTHING;
    SELECT s.id INTO STRICT v_stream FROM eventsched_log.stream s WHERE s.name = p_stream;
    INSERT INTO eventsched_log.head (stream, epoch, token, holder, next, hash, renewals)
    VALUES (v_stream, 0, p_token, p_holder, 0,
            sha256(convert_to('eventsched/1/' || p_stream, 'UTF8')), 0)
    ON CONFLICT ON CONSTRAINT head_pkey DO NOTHING;
    UPDATE eventsched_log.head h
    SET epoch = h.epoch + 1, token = p_token, holder = p_holder, renewals = h.renewals + 1
    WHERE h.stream = v_stream
    RETURNING h.stream, h.epoch, h.next, h.hash
    INTO acquire.stream, acquire.epoch, acquire.next, acquire.hash;
    BEGIN  -- a managed Postgres may hide these; they only help to notice a failover
        SELECT system_identifier INTO v_system FROM pg_control_system();
        SELECT timeline_id INTO v_timeline FROM pg_control_checkpoint();
    EXCEPTION WHEN insufficient_privilege OR undefined_function THEN NULL;
    END;
    INSERT INTO eventsched_log.epoch
        (stream, epoch, first, token, holder, version, system_id, timeline)
    VALUES (v_stream, acquire.epoch, acquire.next, p_token, p_holder, p_version,
            v_system, v_timeline);
END $$;

CREATE FUNCTION eventsched_log.uid(p_uid text) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_uid ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN p_uid
                ELSE md5(p_uid) END::uuid
$$;

-- The rows that follow from records; called by append() only. A search of the text tells which
-- kinds there are: most batches are small, and a statement that finds nothing costs as much as one.
CREATE FUNCTION eventsched_log.derive(p_stream integer, p_first bigint, p_body json)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_text text := p_body::text;
BEGIN
    IF strpos(v_text, '"kind":"PodAdded"') > 0 THEN
        INSERT INTO eventsched_log.pod (stream, uid, namespace, name, seq)
        SELECT p_stream, eventsched_log.uid(p.uid), coalesce(p.namespace, 'default'), p.name,
               p_first + n - 1
        FROM json_array_elements(p_body) WITH ORDINALITY AS e (item, n),
             json_to_record(item -> 3 -> 'pod') AS p (uid text, namespace text, name text)
        WHERE item -> 3 ->> 'kind' = 'PodAdded'
        ON CONFLICT ON CONSTRAINT pod_pkey DO NOTHING;
    END IF;
    IF strpos(v_text, '"kind":"PodDecided"') > 0 THEN
        INSERT INTO eventsched_log.decision
            (stream, seq, at, pod, attempt, profile, outcome, node, score, runner_up,
             runner_up_score, feasible, evaluated, ties, draw)
        SELECT p_stream, p_first + n - 1, (item ->> 0)::bigint, eventsched_log.uid(d.uid),
               d.attempt, coalesce(d.profile, 'default-scheduler'), d.outcome, d.node,
               coalesce(d.score, 0), d.runner_up, coalesce(d.runner_up_score, 0),
               coalesce(d.feasible, 0), coalesce(d.evaluated, 0), coalesce(d.ties, 0),
               CASE WHEN d.draw >= 9223372036854775808 THEN d.draw - 18446744073709551616
                    ELSE coalesce(d.draw, 0) END
        FROM json_array_elements(p_body) WITH ORDINALITY AS e (item, n),
             json_to_record(item -> 3) AS d (
                 uid text, attempt integer, profile text, outcome eventsched_log.outcome,
                 node text, score bigint, runner_up text, runner_up_score bigint,
                 feasible integer, evaluated integer, ties integer, draw numeric)
        WHERE item -> 3 ->> 'kind' = 'PodDecided';
    END IF;
    IF strpos(v_text, '"kind":"NodeAdded"') > 0 THEN
        INSERT INTO eventsched_log.node (stream, ordinal, name, seq)
        SELECT p_stream,
               (SELECT count(*) FROM eventsched_log.node n WHERE n.stream = p_stream) - 1
                   + row_number() OVER (ORDER BY n),
               item -> 3 -> 'node' ->> 'name', p_first + n - 1
        FROM json_array_elements(p_body) WITH ORDINALITY AS e (item, n)
        WHERE item -> 3 ->> 'kind' = 'NodeAdded';
    END IF;
    IF strpos(v_text, '"kind":"VerdictDefined"') > 0 THEN
        INSERT INTO eventsched_log.verdict (stream, number, plugin, code, reasons)
        SELECT p_stream, (item -> 3 ->> 'number')::integer, item -> 3 -> 'verdict' ->> 'plugin',
               item -> 3 -> 'verdict' ->> 'code',
               ARRAY(SELECT json_array_elements_text(item -> 3 -> 'verdict' -> 'reasons'))
        FROM json_array_elements(p_body) AS e (item)
        WHERE item -> 3 ->> 'kind' = 'VerdictDefined';
    END IF;
    IF strpos(v_text, '"kind":"ScoringDefined"') > 0 THEN
        INSERT INTO eventsched_log.scoring (stream, number, place, plugin, weight, normalization)
        SELECT p_stream, (item -> 3 ->> 'number')::integer, place - 1, c ->> 'plugin',
               (c ->> 'weight')::bigint, coalesce(c ->> 'normalization', 'identity')
        FROM json_array_elements(p_body) AS e (item),
             json_array_elements(item -> 3 -> 'columns') WITH ORDINALITY AS f (c, place)
        WHERE item -> 3 ->> 'kind' = 'ScoringDefined';
    END IF;
END $$;

-- One round trip, one commit. The head row's lock makes a retry wait for a first attempt that is
-- still running; offered again, the identical batch is passed over.
CREATE FUNCTION eventsched_log.append(
    p_stream integer, p_epoch integer, p_token uuid, p_first bigint, p_count integer,
    p_written_at bigint, p_mark json, p_previous bytea, p_hash bytea, p_body json,
    p_seqs bigint[], p_bases bigint[], p_details bytea[]
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_head eventsched_log.head;
BEGIN
    UPDATE eventsched_log.head
    SET next = next + p_count, hash = p_hash, renewals = renewals + 1
    WHERE stream = p_stream AND epoch = p_epoch AND token = p_token
      AND next = p_first AND hash = p_previous;
    IF NOT FOUND THEN
        PERFORM FROM eventsched_log.batch
        WHERE stream = p_stream AND first = p_first AND hash = p_hash;
        IF FOUND THEN  -- a write, so that this commit too waits until the log is durable
            UPDATE eventsched_log.head SET renewals = renewals + 1 WHERE stream = p_stream;
            RETURN;
        END IF;
        SELECT * INTO v_head FROM eventsched_log.head WHERE stream = p_stream;
        IF v_head.epoch <> p_epoch OR v_head.token <> p_token THEN
            RAISE EXCEPTION '%', v_head.epoch USING ERRCODE = 'ES001';
        END IF;
        RAISE EXCEPTION '%', v_head.next USING ERRCODE = 'ES002';
    END IF;
    IF p_hash <> sha256('\x02' || p_previous || int4send(p_epoch) || uuid_send(p_token)
            || int8send(p_first) || int4send(p_count) || int8send(p_written_at)
            || sha256(convert_to(p_mark::text, 'UTF8')) || sha256(convert_to(p_body::text, 'UTF8')))
       OR json_array_length(p_body) <> p_count THEN
        RAISE EXCEPTION 'the batch at % is not what its hash says', p_first
            USING ERRCODE = 'ES003';
    END IF;
    INSERT INTO eventsched_log.batch (stream, first, count, epoch, written_at, mark, hash, body)
    VALUES (p_stream, p_first, p_count, p_epoch,
            'epoch'::timestamptz + p_written_at * interval '1 microsecond', p_mark, p_hash, p_body);
    IF cardinality(p_seqs) > 0 THEN
        INSERT INTO eventsched_log.detail (stream, seq, base, body)
        SELECT p_stream, d.seq, d.base, d.body
        FROM unnest(p_seqs, p_bases, p_details) AS d (seq, base, body);
    END IF;
    PERFORM eventsched_log.derive(p_stream, p_first, p_body);
END $$;

-- An idle writer learns here that it was replaced (ES001). Returns the number of renewals.
CREATE FUNCTION eventsched_log.renew(p_stream integer, p_epoch integer, p_token uuid)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_renewals bigint;
    v_epoch    integer;
BEGIN
    UPDATE eventsched_log.head SET renewals = renewals + 1
    WHERE stream = p_stream AND epoch = p_epoch AND token = p_token
    RETURNING renewals INTO v_renewals;
    IF NOT FOUND THEN
        SELECT epoch INTO v_epoch FROM eventsched_log.head WHERE stream = p_stream;
        RAISE EXCEPTION '%', v_epoch USING ERRCODE = 'ES001';
    END IF;
    RETURN v_renewals;
END $$;

-- Keeps the newest snapshot only: it is a cache. A writer that was replaced keeps none.
CREATE FUNCTION eventsched_log.keep_snapshot(
    p_stream integer, p_epoch integer, p_token uuid,
    p_seq bigint, p_hash bytea, p_digest text, p_version text, p_body bytea
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM eventsched_log.head
    WHERE stream = p_stream AND epoch = p_epoch AND token = p_token FOR UPDATE;
    IF NOT FOUND THEN RETURN; END IF;
    DELETE FROM eventsched_log.snapshot WHERE stream = p_stream;
    INSERT INTO eventsched_log.snapshot (stream, seq, hash, digest, version, body)
    VALUES (p_stream, p_seq, p_hash, p_digest, p_version, p_body);
END $$;

-- Deletes the vectors of decisions that were written before a time, but those that a kept delta
-- builds on; how many. What the chain holds of them, their digests, stays for ever.
CREATE FUNCTION eventsched_log.thin(p_stream text, p_before timestamptz)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_stream integer;
    v_end    bigint;
    v_count  bigint;
BEGIN
    SELECT id INTO v_stream FROM eventsched_log.stream WHERE name = p_stream;
    SELECT first + count INTO v_end FROM eventsched_log.batch
    WHERE stream = v_stream AND written_at < p_before ORDER BY first DESC LIMIT 1;
    WITH RECURSIVE needed AS (
        SELECT base FROM eventsched_log.detail
        WHERE stream = v_stream AND seq >= v_end AND base < v_end
        UNION
        SELECT d.base FROM needed n
        JOIN eventsched_log.detail d ON d.stream = v_stream AND d.seq = n.base
        WHERE d.base IS NOT NULL
    )
    DELETE FROM eventsched_log.detail d
    WHERE d.stream = v_stream AND d.seq < v_end
      AND NOT EXISTS (SELECT FROM needed n WHERE n.base = d.seq);
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $$;

CREATE FUNCTION eventsched_log.deny() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the log is append-only: % on %', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'ES009';
END $$;

DO $$
DECLARE
    v_table text;
BEGIN
    FOREACH v_table IN ARRAY ARRAY['stream', 'epoch', 'batch', 'node', 'pod', 'decision',
                                   'verdict', 'scoring'] LOOP
        EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON eventsched_log.%I '
                       'FOR EACH ROW EXECUTE FUNCTION eventsched_log.deny()', v_table);
        EXECUTE format('CREATE TRIGGER append_only_all BEFORE TRUNCATE ON eventsched_log.%I '
                       'FOR EACH STATEMENT EXECUTE FUNCTION eventsched_log.deny()', v_table);
        EXECUTE format('ALTER TABLE eventsched_log.%I ENABLE ALWAYS TRIGGER append_only', v_table);
        EXECUTE format('ALTER TABLE eventsched_log.%I ENABLE ALWAYS TRIGGER append_only_all',
                       v_table);
    END LOOP;
END $$;
