-- A full partition is sealed by a record of the log, PartitionSealed. Then it may be dropped whole:
-- the record proves what was in it, and names the checkpoint from which the log can be read on.

ALTER TABLE eventsched_log.partition ADD COLUMN seal bigint;

-- States that later versions can read, too. One stays for each seal, and for the partitions that
-- were dropped the newest.
CREATE TABLE eventsched_log.checkpoint (
    seq     bigint NOT NULL,
    stream  integer NOT NULL REFERENCES eventsched_log.stream,
    hash    bytea NOT NULL,
    digest  text NOT NULL,
    version text NOT NULL,
    body    bytea NOT NULL,
    PRIMARY KEY (stream, seq)
);
ALTER TABLE eventsched_log.checkpoint ALTER body SET STORAGE EXTERNAL;

-- What is in an archive, as `db archive` says. One row a day.
CREATE TABLE eventsched_log.archived (
    first       bigint NOT NULL,
    next        bigint NOT NULL,
    archived_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    stream      integer NOT NULL REFERENCES eventsched_log.stream,
    day         text NOT NULL,
    archived_by text NOT NULL DEFAULT session_user,
    digests     json NOT NULL,
    PRIMARY KEY (stream, first)
);

-- What was dropped: the records from position first to before next, where a batch with this hash
-- ends. One row for each partition, so a few hundred in years.
CREATE TABLE eventsched_log.pruned (
    first     bigint NOT NULL,
    next      bigint NOT NULL,
    seal      bigint NOT NULL,
    pruned_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    stream    integer NOT NULL REFERENCES eventsched_log.stream,
    hash      bytea NOT NULL,
    PRIMARY KEY (stream, first)
);

CREATE FUNCTION eventsched_log.mark_seals() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE eventsched_log.partition p SET seal = NEW.first + e.n - 1
    FROM json_array_elements(NEW.body) WITH ORDINALITY AS e (item, n)
    WHERE e.item -> 3 ->> 'kind' = 'PartitionSealed' AND p.stream = NEW.stream
      AND p.first = (e.item -> 3 ->> 'partition')::bigint AND p.seal IS NULL;
    RETURN NULL;
END $$;

CREATE TRIGGER mark_seals AFTER INSERT ON eventsched_log.batch FOR EACH ROW
WHEN (strpos(NEW.body::text, '"kind":"PartitionSealed"') > 0)
EXECUTE FUNCTION eventsched_log.mark_seals();

-- As before, but prune_names() and prune() delete names that nothing refers to any more.
CREATE OR REPLACE FUNCTION eventsched_log.deny() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND TG_TABLE_NAME IN ('pod', 'node')
       AND current_setting('eventsched.prunes', true) = 'on' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'the log is append-only: % on %', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'ES009';
END $$;

-- Keeps the first snapshot of a position or a later one as a checkpoint, if there is any. Returns
-- its position.
CREATE FUNCTION eventsched_log.keep_checkpoint(p_stream text, p_position bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_stream integer := (SELECT id FROM eventsched_log.stream WHERE name = p_stream);
    v_seq    bigint;
BEGIN
    PERFORM eventsched_log.require_grant(p_stream);
    SELECT min(seq) INTO v_seq FROM (
        SELECT seq FROM eventsched_log.checkpoint WHERE stream = v_stream AND seq >= p_position
        UNION ALL
        SELECT s.seq FROM eventsched_log.snapshot s
        CROSS JOIN LATERAL (
            SELECT b.hash, b.first + b.count AS next FROM eventsched_log.batch b
            WHERE b.stream = s.stream AND b.first < s.seq ORDER BY b.first DESC LIMIT 1
        ) b
        WHERE s.stream = v_stream AND s.seq >= p_position AND b.next = s.seq AND b.hash = s.hash
    ) AS usable;
    INSERT INTO eventsched_log.checkpoint (seq, stream, hash, digest, version, body)
    SELECT seq, stream, hash, digest, version, body FROM eventsched_log.snapshot
    WHERE stream = v_stream AND seq = v_seq
    ON CONFLICT DO NOTHING;
    RETURN v_seq;
END $$;

-- Notes that an archive holds the records from one position to before another.
CREATE FUNCTION eventsched_log.note_archived(
    p_stream text, p_day text, p_first bigint, p_next bigint, p_digests json
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO eventsched_log.archived AS a (stream, day, first, next, digests)
    SELECT id, p_day, p_first, p_next, p_digests FROM eventsched_log.stream WHERE name = p_stream
    ON CONFLICT ON CONSTRAINT archived_pkey DO UPDATE
    SET next = p_next, digests = p_digests, archived_at = clock_timestamp(),
        archived_by = session_user
    WHERE a.next <> p_next OR a.digests::text <> p_digests::text;
END $$;

-- The oldest partition of a stream, if it may be dropped: it is sealed, all of its decisions were
-- written before a time, the checkpoint of its seal is there, and no vector of a later partition
-- builds on it.
CREATE FUNCTION eventsched_log.prunable(p_stream text, p_before timestamptz)
RETURNS SETOF eventsched_log.partition
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT p.* FROM (
        SELECT p.* FROM eventsched_log.partition p
        JOIN eventsched_log.stream s ON s.id = p.stream
        WHERE s.name = p_stream ORDER BY p.first LIMIT 1
    ) p
    LEFT JOIN LATERAL (  -- none if a batch that began in an earlier partition ends after this one
        SELECT b.written_at, b.first + b.count AS next FROM eventsched_log.batch b
        WHERE b.stream = p.stream AND b.first < p.next ORDER BY b.first DESC LIMIT 1
    ) b ON true
    WHERE p.seal IS NOT NULL AND coalesce(b.written_at < p_before, true)
      AND EXISTS (SELECT FROM eventsched_log.checkpoint c
                  WHERE c.stream = p.stream AND c.seq >= coalesce(b.next, p.next))
      AND NOT EXISTS (SELECT FROM eventsched_log.partition l
                      WHERE l.stream = p.stream AND l.first >= p.next AND l.base < p.next)
$$;

-- Deletes the names of pods that ended in the oldest partition, if it may be dropped: at most 5,000
-- from a position on. Returns the position to go on from, null when all are gone.
CREATE FUNCTION eventsched_log.prune_names(p_stream text, p_before timestamptz, p_from bigint)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_partition eventsched_log.partition;
    v_ended     uuid[];
    v_last      bigint;
BEGIN
    PERFORM eventsched_log.require_grant(p_stream);
    SELECT * INTO v_partition FROM eventsched_log.prunable(p_stream, p_before);
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

-- Drops one table of the oldest partition, if that may be dropped. Before the first one it notes
-- that the partition is pruned, so that nobody reads what is only partly there; the table of batches
-- comes last, and with it what refers to the partition. Returns the name of the table, null if there
-- is none. Gives up (55P03) if a query holds it up for longer than an append may wait.
CREATE FUNCTION eventsched_log.prune(p_stream text, p_before timestamptz) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_partition eventsched_log.partition;
    v_next      bigint;
    v_table     text;
    v_name      text;
BEGIN
    PERFORM eventsched_log.require_grant(p_stream);
    SELECT * INTO v_partition FROM eventsched_log.prunable(p_stream, p_before);
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

COMMENT ON TABLE eventsched_log.checkpoint IS 'State at a position, kept for a sealed partition';
COMMENT ON TABLE eventsched_log.archived IS 'What an archive holds, as db archive says';
COMMENT ON TABLE eventsched_log.pruned IS 'The partitions that were dropped';
COMMENT ON COLUMN eventsched_log.partition.seal IS
    'Derived: position of the record that seals it; null while there is none';
COMMENT ON COLUMN eventsched_log.pruned.hash IS 'Of its last batch';
COMMENT ON FUNCTION eventsched_log.mark_seals IS 'Trigger: notes which partitions are sealed';
COMMENT ON FUNCTION eventsched_log.keep_checkpoint IS
    'Keeps the first snapshot from a position on as a checkpoint';
COMMENT ON FUNCTION eventsched_log.note_archived IS 'Notes what an archive holds';
COMMENT ON FUNCTION eventsched_log.prunable IS 'The oldest partition, if it may be dropped';
COMMENT ON FUNCTION eventsched_log.prune_names IS
    'Deletes names of pods that ended in the oldest partition';
COMMENT ON FUNCTION eventsched_log.prune IS 'Drops a table of the oldest partition';
