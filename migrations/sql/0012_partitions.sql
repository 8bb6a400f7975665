-- The tables by position are partitioned by ranges of a stream's positions, so that old rows go by
-- dropping whole partitions. All of these tables have the same ranges. A partition is named by its
-- table, the number of its stream and its first position: batch_1_0.

CREATE TABLE eventsched_log.partition (
    first       bigint NOT NULL,
    next        bigint NOT NULL,
    base        bigint,
    made_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    stream      integer NOT NULL REFERENCES eventsched_log.stream,
    has_vectors boolean NOT NULL DEFAULT true,
    PRIMARY KEY (stream, first)
);

-- The partition of the last record, so that an append need not look it up.
ALTER TABLE eventsched_log.head
    ADD COLUMN partition_first bigint NOT NULL DEFAULT 0,
    ADD COLUMN partition_next  bigint NOT NULL DEFAULT 0;

CREATE FUNCTION eventsched_log.partitioned_tables() RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT ARRAY['batch', 'detail', 'decision', 'queue_move', 'queue_stay', 'reservation',
                 'pod_end', 'refusal', 'mention']
$$;

-- The number of positions of a new partition: the setting eventsched.partition_records, twice as
-- many for each 128 partitions that there are, so that their number stays small.
CREATE FUNCTION eventsched_log.partition_size(p_stream integer) RETURNS bigint
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN greatest(coalesce(
            nullif(current_setting('eventsched.partition_records', true), '')::bigint, 4194304), 1)
        << ((SELECT count(*) FROM eventsched_log.partition WHERE stream = p_stream) / 128)::integer;
END $$;

-- Takes no lock on the partitioned table that an append would wait for.
CREATE FUNCTION eventsched_log.attach_partition(
    p_table text, p_stream integer, p_first bigint, p_next bigint
) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_name    text := format('%s_%s_%s', p_table, p_stream, p_first);
    v_trigger text;
BEGIN
    EXECUTE format('ALTER TABLE eventsched_log.%I ATTACH PARTITION eventsched_log.%I '
                   'FOR VALUES FROM (%s, %s) TO (%s, %s)',
                   p_table, v_name, p_stream, p_first, p_stream, p_next);
    IF EXISTS (SELECT FROM pg_trigger
               WHERE tgrelid = format('eventsched_log.%I', p_table)::regclass
                 AND tgname = 'append_only_all') THEN  -- of statements: a partition needs its own
        EXECUTE format('CREATE TRIGGER append_only_all BEFORE TRUNCATE ON eventsched_log.%I '
                       'FOR EACH STATEMENT EXECUTE FUNCTION eventsched_log.deny()', v_name);
        FOREACH v_trigger IN ARRAY ARRAY['append_only', 'append_only_all'] LOOP
            EXECUTE format('ALTER TABLE eventsched_log.%I ENABLE ALWAYS TRIGGER %I',
                           v_name, v_trigger);
        END LOOP;
    END IF;
END $$;

CREATE FUNCTION eventsched_log.make_partition(p_stream integer, p_first bigint, p_next bigint)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_table text;
BEGIN
    FOREACH v_table IN ARRAY eventsched_log.partitioned_tables() LOOP
        EXECUTE format(
            'CREATE TABLE eventsched_log.%I (LIKE eventsched_log.%I INCLUDING ALL) %s',
            format('%s_%s_%s', v_table, p_stream, p_first), v_table,
            CASE WHEN v_table IN ('batch', 'detail') THEN 'WITH (toast_tuple_target = 128)' END);
        PERFORM eventsched_log.attach_partition(v_table, p_stream, p_first, p_next);
    END LOOP;
    INSERT INTO eventsched_log.partition (stream, first, next) VALUES (p_stream, p_first, p_next);
END $$;

-- Makes partitions until there is one for the position before p_until. Does not touch the head,
-- which an append has locked while it waits here for another session.
CREATE FUNCTION eventsched_log.extend_partitions(p_stream integer, p_until bigint)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_first bigint;
    v_size  bigint;
    v_next  bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('eventsched_log.partition'));
    LOOP
        SELECT coalesce(max(next), 0) INTO v_first
        FROM eventsched_log.partition WHERE stream = p_stream;
        EXIT WHEN v_first >= p_until;
        v_size := eventsched_log.partition_size(p_stream);
        v_next := (v_first / v_size + 1) * v_size;
        PERFORM eventsched_log.make_partition(p_stream, v_first, v_next);
    END LOOP;
END $$;

-- For the writer's housekeeping: makes the next partition once the last one is half full. Returns
-- the number of positions for which there are partitions from the head on.
CREATE FUNCTION eventsched_log.make_partitions(p_stream text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_stream integer;
    v_head   bigint;
    v_last   record;
BEGIN
    PERFORM eventsched_log.require_grant(p_stream);
    SELECT h.stream, h.next INTO v_stream, v_head
    FROM eventsched_log.head h JOIN eventsched_log.stream s ON s.id = h.stream
    WHERE s.name = p_stream;
    SELECT first, next INTO v_last FROM eventsched_log.partition
    WHERE stream = v_stream ORDER BY first DESC LIMIT 1;
    IF v_head > v_last.first + (v_last.next - v_last.first) / 2 THEN
        PERFORM eventsched_log.extend_partitions(v_stream, v_last.next + 1);
    END IF;
    RETURN (SELECT max(next) - v_head FROM eventsched_log.partition WHERE stream = v_stream);
END $$;

-- As before, and it makes a partition if housekeeping has not, and notes which vectors build on
-- those of an earlier partition.
CREATE OR REPLACE FUNCTION eventsched_log.append(
    p_stream integer, p_epoch integer, p_token uuid, p_first bigint, p_count integer,
    p_written_at bigint, p_mark json, p_previous bytea, p_hash bytea, p_body json,
    p_seqs bigint[], p_bases bigint[], p_details bytea[]
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_head  eventsched_log.head;
    v_first bigint;
    v_next  bigint;
BEGIN
    UPDATE eventsched_log.head
    SET next = next + p_count, hash = p_hash, renewals = renewals + 1
    WHERE stream = p_stream AND epoch = p_epoch AND token = p_token
      AND next = p_first AND hash = p_previous
    RETURNING partition_first, partition_next INTO v_first, v_next;
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
    IF p_first + p_count > v_next THEN
        PERFORM eventsched_log.extend_partitions(p_stream, p_first + p_count);
        SELECT first, next INTO STRICT v_first, v_next FROM eventsched_log.partition
        WHERE stream = p_stream AND first < p_first + p_count AND next >= p_first + p_count;
        UPDATE eventsched_log.head SET partition_first = v_first, partition_next = v_next
        WHERE stream = p_stream;
    END IF;
    INSERT INTO eventsched_log.batch (stream, first, count, epoch, written_at, mark, hash, body)
    VALUES (p_stream, p_first, p_count, p_epoch,
            'epoch'::timestamptz + p_written_at * interval '1 microsecond', p_mark, p_hash, p_body);
    IF cardinality(p_seqs) > 0 THEN
        INSERT INTO eventsched_log.detail (stream, seq, base, body)
        SELECT p_stream, d.seq, d.base, d.body
        FROM unnest(p_seqs, p_bases, p_details) AS d (seq, base, body);
        IF (SELECT min(base) FROM unnest(p_bases) AS base) < v_first THEN
            UPDATE eventsched_log.partition p SET base = least(p.base, d.base)
            FROM (SELECT q.first, min(e.base) AS base
                  FROM unnest(p_seqs, p_bases) AS e (seq, base)
                  JOIN eventsched_log.partition q
                      ON q.stream = p_stream AND e.seq >= q.first AND e.seq < q.next
                  WHERE e.base < q.first GROUP BY q.first) d
            WHERE p.stream = p_stream AND p.first = d.first;
        END IF;
    END IF;
    PERFORM eventsched_log.derive(p_stream, p_first, p_body);
END $$;

-- Drops the oldest partition of vectors if all of its decisions were written before a time and no
-- vector of a later partition builds on it or an earlier one. Returns the number of its vectors; 0
-- if there is no such partition. Queries on vectors hold it up: then it gives up (55P03) after a
-- time that an append, which would wait behind it, does not notice.
CREATE OR REPLACE FUNCTION eventsched_log.thin_unchecked(p_stream text, p_before timestamptz)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_stream    integer := (SELECT id FROM eventsched_log.stream WHERE name = p_stream);
    v_partition eventsched_log.partition;
    v_written   timestamptz;
    v_end       bigint := 0;
    v_name      text;
    v_count     bigint;
BEGIN
    FOR v_partition IN
        SELECT p.* FROM eventsched_log.partition p
        JOIN eventsched_log.head h ON h.stream = p.stream
        WHERE p.stream = v_stream AND p.next <= h.next ORDER BY p.first
    LOOP
        SELECT b.written_at INTO v_written FROM eventsched_log.batch b
        WHERE b.stream = v_stream AND b.first < v_partition.next
        ORDER BY b.first DESC LIMIT 1;
        EXIT WHEN v_written >= p_before;
        v_end := v_partition.next;
    END LOOP;
    SELECT max(p.next) INTO v_end FROM eventsched_log.partition p
    WHERE p.stream = v_stream AND p.next <= v_end
      AND NOT EXISTS (SELECT FROM eventsched_log.partition l
                      WHERE l.stream = p.stream AND l.first >= p.next AND l.base < p.next);
    PERFORM set_config('lock_timeout', '20ms', true);
    FOR v_partition IN
        SELECT p.* FROM eventsched_log.partition p
        WHERE p.stream = v_stream AND p.next <= v_end AND p.has_vectors ORDER BY p.first
    LOOP
        v_name := format('detail_%s_%s', v_stream, v_partition.first);
        EXECUTE format('SELECT count(*) FROM eventsched_log.%I', v_name) INTO v_count;
        EXECUTE format('DROP TABLE eventsched_log.%I', v_name);
        UPDATE eventsched_log.partition SET has_vectors = false
        WHERE stream = v_stream AND first = v_partition.first;
        IF v_count > 0 THEN RETURN v_count; END IF;
    END LOOP;
    RETURN 0;
END $$;

COMMENT ON TABLE eventsched_log.partition IS
    'The partitions of the tables by position: ranges of positions of a stream';
COMMENT ON COLUMN eventsched_log.partition.base IS
    'The first vector of an earlier partition that a vector of this one builds on';
COMMENT ON COLUMN eventsched_log.head.partition_next IS
    'The end of the partition that holds the last record';
COMMENT ON FUNCTION eventsched_log.partitioned_tables IS 'The tables that are partitioned';
COMMENT ON FUNCTION eventsched_log.partition_size IS 'The number of positions of a new partition';
COMMENT ON FUNCTION eventsched_log.attach_partition IS
    'Makes a table a partition, with the triggers that keep the log append-only';
COMMENT ON FUNCTION eventsched_log.make_partition IS 'Makes a partition of each partitioned table';
COMMENT ON FUNCTION eventsched_log.extend_partitions IS
    'Makes partitions up to a position, unless there are';
COMMENT ON FUNCTION eventsched_log.make_partitions IS
    'Makes the next partition in time; how many positions there are partitions for';
