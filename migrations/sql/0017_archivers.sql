-- Records leave the database only once an archive holds them, as a login says that did not write
-- them: a member of eventsched_archiver. Such a login, and who may act as the owner, may also drop
-- what no archive holds.

-- As before, for logins that may act on the stream.
CREATE OR REPLACE FUNCTION eventsched_log.note_archived(
    p_stream text, p_day text, p_first bigint, p_next bigint, p_digests json
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM eventsched_log.require_grant(p_stream);
    INSERT INTO eventsched_log.archived AS a (stream, day, first, next, digests)
    SELECT id, p_day, p_first, p_next, p_digests FROM eventsched_log.stream WHERE name = p_stream
    ON CONFLICT ON CONSTRAINT archived_pkey DO UPDATE
    SET next = p_next, digests = p_digests, archived_at = clock_timestamp(),
        archived_by = session_user
    WHERE a.next <> p_next OR a.digests::text <> p_digests::text;
END $$;

-- The oldest partition of a stream, if it may be dropped (prunable()) by who has connected. With
-- p_needs_archive none that is not archived.
CREATE FUNCTION eventsched_log.droppable(
    p_stream text, p_before timestamptz, p_needs_archive boolean
) RETURNS SETOF eventsched_log.partition
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_partition eventsched_log.partition;
    v_begin     bigint;
    v_end       bigint;
    v_archived  int8multirange;
BEGIN
    PERFORM eventsched_log.require_grant(p_stream);
    SELECT * INTO v_partition FROM eventsched_log.prunable(p_stream, p_before);
    IF NOT FOUND THEN RETURN; END IF;
    SELECT max(b.next) INTO v_end FROM (
        SELECT v_partition.next AS next
        UNION ALL
        (SELECT first + count FROM eventsched_log.batch
         WHERE stream = v_partition.stream AND first < v_partition.next
         ORDER BY first DESC LIMIT 1)
    ) b;
    -- What a batch of the partition before has of this one was dropped with that one, and the note
    -- about it too.
    SELECT least(greatest(v_partition.first, max(next)), v_end) INTO v_begin
    FROM eventsched_log.pruned
    WHERE stream = v_partition.stream AND first < v_partition.first;
    SELECT range_agg(int8range(a.first, a.next)) INTO v_archived FROM eventsched_log.archived a
    WHERE a.stream = v_partition.stream;
    IF NOT coalesce(v_archived @> int8range(v_begin, v_end), v_begin = v_end) THEN
        IF p_needs_archive THEN RETURN; END IF;
        IF NOT pg_has_role(session_user, current_user, 'MEMBER')
           AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = 'eventsched_archiver'
                           AND pg_has_role(session_user, r.oid, 'MEMBER')) THEN
            RAISE EXCEPTION 'role % may not drop positions % to %, which no archive holds',
                session_user, v_partition.first, v_end - 1
                USING ERRCODE = '42501',
                      HINT = format('run `eventsched db archive`, or GRANT eventsched_archiver TO %I',
                                    session_user);
        END IF;
    END IF;
    RETURN NEXT v_partition;
END $$;

DROP FUNCTION eventsched_log.prune_names(text, timestamptz, bigint);
CREATE FUNCTION eventsched_log.prune_names(
    p_stream text, p_before timestamptz, p_from bigint, p_needs_archive boolean DEFAULT false
) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_partition eventsched_log.partition;
    v_ended     uuid[];
    v_last      bigint;
BEGIN
    SELECT * INTO v_partition
    FROM eventsched_log.droppable(p_stream, p_before, p_needs_archive);
    IF NOT FOUND THEN RETURN NULL; END IF;
    SELECT array_agg(e.pod), max(e.seq) INTO v_ended, v_last FROM (
        SELECT pod, seq FROM eventsched_log.pod_end
        WHERE stream = v_partition.stream AND seq >= greatest(p_from, v_partition.first)
          AND seq < v_partition.next ORDER BY seq LIMIT 5000) e;
    IF v_last IS NULL THEN RETURN NULL; END IF;
    PERFORM set_config('eventsched.prunes', 'on', true);
    DELETE FROM eventsched_log.pod p
    WHERE p.stream = v_partition.stream AND p.uid = ANY (v_ended) AND p.seq < v_partition.next
      AND NOT EXISTS (SELECT FROM eventsched_log.pod_now n
                      WHERE n.stream = p.stream AND n.uid = p.uid)
      AND NOT EXISTS (SELECT FROM eventsched_log.pod_end l
                      WHERE l.stream = p.stream AND l.pod = p.uid AND l.seq >= v_partition.next);
    PERFORM set_config('eventsched.prunes', 'off', true);
    RETURN v_last + 1;
END $$;

DROP FUNCTION eventsched_log.prune(text, timestamptz);
CREATE FUNCTION eventsched_log.prune(
    p_stream text, p_before timestamptz, p_needs_archive boolean DEFAULT false
) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_partition eventsched_log.partition;
    v_next      bigint;
    v_table     text;
    v_name      text;
BEGIN
    SELECT * INTO v_partition
    FROM eventsched_log.droppable(p_stream, p_before, p_needs_archive);
    IF NOT FOUND THEN RETURN NULL; END IF;
    SELECT next INTO v_next FROM eventsched_log.pruned
    WHERE stream = v_partition.stream AND first = v_partition.first;
    IF NOT FOUND THEN
        INSERT INTO eventsched_log.pruned (stream, first, next, seal, hash)
        SELECT v_partition.stream, v_partition.first, e.next, v_partition.seal, e.hash FROM (
            SELECT first + count AS next, hash FROM eventsched_log.batch
            WHERE stream = v_partition.stream AND first < v_partition.next
            UNION ALL
            SELECT next, hash FROM eventsched_log.pruned WHERE stream = v_partition.stream
        ) AS e ORDER BY e.next DESC LIMIT 1;
        RETURN 'pruned';
    END IF;
    PERFORM set_config('lock_timeout', '20ms', true);
    FOREACH v_table IN ARRAY array_remove(eventsched_log.partitioned_tables(), 'batch') LOOP
        v_name := format('%s_%s_%s', v_table, v_partition.stream, v_partition.first);
        IF to_regclass('eventsched_log.' || quote_ident(v_name)) IS NOT NULL THEN
            EXECUTE format('DROP TABLE eventsched_log.%I', v_name);
            RETURN v_name;
        END IF;
    END LOOP;
    v_name := format('batch_%s_%s', v_partition.stream, v_partition.first);
    EXECUTE format('DROP TABLE eventsched_log.%I', v_name);
    DELETE FROM eventsched_log.partition
    WHERE stream = v_partition.stream AND first = v_partition.first;
    DELETE FROM eventsched_log.checkpoint WHERE stream = v_partition.stream AND seq < v_next;
    DELETE FROM eventsched_log.snapshot WHERE stream = v_partition.stream AND seq < v_next;
    DELETE FROM eventsched_log.archived WHERE stream = v_partition.stream AND next <= v_next;
    PERFORM set_config('eventsched.prunes', 'on', true);
    DELETE FROM eventsched_log.node n
    WHERE n.stream = v_partition.stream AND n.seq < v_partition.next
      AND EXISTS (SELECT FROM eventsched_log.node l
                  WHERE l.stream = n.stream AND l.ordinal = n.ordinal AND l.seq > n.seq
                    AND l.seq < v_partition.next);
    PERFORM set_config('eventsched.prunes', 'off', true);
    RETURN v_name;
END $$;

COMMENT ON FUNCTION eventsched_log.note_archived IS 'Notes what an archive holds';
COMMENT ON FUNCTION eventsched_log.droppable IS
    'The oldest partition, if who has connected may drop it';
COMMENT ON FUNCTION eventsched_log.prune_names IS
    'Deletes names of pods that ended in the oldest partition';
COMMENT ON FUNCTION eventsched_log.prune IS 'Drops a table of the oldest partition';
