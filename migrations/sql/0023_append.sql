-- append() and append_batches() share their steps: the head moves, each batch is stored and its rows
-- are derived, the records are counted, the vectors are stored.

-- Moves the head of a stream from p_first to p_next, and makes the partitions up to there if
-- housekeeping has not. False if the batch at p_first with hash p_hash is stored already: the head
-- row's lock makes a retry wait for a first attempt that is still running.
CREATE FUNCTION eventsched_log.move_head(
    p_stream integer, p_epoch integer, p_token uuid, p_first bigint, p_next bigint,
    p_previous bytea, p_hash bytea
) RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_head eventsched_log.head;
    v_end  bigint;  -- of the partitions
BEGIN
    UPDATE eventsched_log.head
    SET next = p_next, hash = p_hash, renewals = renewals + 1
    WHERE stream = p_stream AND epoch = p_epoch AND token = p_token
      AND next = p_first AND hash = p_previous
    RETURNING partition_next INTO v_end;
    IF NOT FOUND THEN
        PERFORM FROM eventsched_log.batch
        WHERE stream = p_stream AND first = p_first AND hash = p_hash;
        IF FOUND THEN  -- a write, so that this commit too waits until the log is durable
            UPDATE eventsched_log.head SET renewals = renewals + 1 WHERE stream = p_stream;
            RETURN false;
        END IF;
        SELECT * INTO v_head FROM eventsched_log.head WHERE stream = p_stream;
        IF v_head.epoch <> p_epoch OR v_head.token <> p_token THEN
            RAISE EXCEPTION '%', v_head.epoch USING ERRCODE = 'ES001';
        END IF;
        RAISE EXCEPTION '%', v_head.next USING ERRCODE = 'ES002';
    END IF;
    IF p_next > v_end THEN
        PERFORM eventsched_log.extend_partitions(p_stream, p_next);
        UPDATE eventsched_log.head h SET partition_first = p.first, partition_next = p.next
        FROM eventsched_log.partition p
        WHERE h.stream = p_stream AND p.stream = p_stream AND p.first < p_next AND p.next >= p_next;
    END IF;
    RETURN true;
END $$;

-- Stores a batch if it is what its hash says, and derives its rows. Returns the kinds of its records.
CREATE FUNCTION eventsched_log.store_batch(
    p_stream integer, p_epoch integer, p_token uuid, p_first bigint, p_count integer,
    p_written_at bigint, p_mark json, p_previous bytea, p_hash bytea, p_body json
) RETURNS text[] LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
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
    RETURN eventsched_log.derive_rows(p_stream, p_first, p_body);
END $$;

CREATE FUNCTION eventsched_log.count_records(p_stream integer, p_kinds text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO eventsched_log.record_count AS c (stream, kind, records)
    SELECT p_stream, kind, count(*) FROM unnest(p_kinds) AS kind GROUP BY kind
    ON CONFLICT ON CONSTRAINT record_count_pkey
    DO UPDATE SET records = c.records + excluded.records;
END $$;

-- Stores vectors, and notes which of them build on those of an earlier partition.
CREATE FUNCTION eventsched_log.store_details(
    p_stream integer, p_seqs bigint[], p_bases bigint[], p_details bytea[]
) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO eventsched_log.detail (stream, seq, base, body)
    SELECT p_stream, d.seq, d.base, d.body
    FROM unnest(p_seqs, p_bases, p_details) AS d (seq, base, body);
    IF (SELECT min(base) FROM unnest(p_bases) AS base)
       < (SELECT partition_first FROM eventsched_log.head WHERE stream = p_stream) THEN
        UPDATE eventsched_log.partition p SET base = least(p.base, d.base)
        FROM (SELECT q.first, min(e.base) AS base
              FROM unnest(p_seqs, p_bases) AS e (seq, base)
              JOIN eventsched_log.partition q
                  ON q.stream = p_stream AND e.seq >= q.first AND e.seq < q.next
              WHERE e.base < q.first GROUP BY q.first) d
        WHERE p.stream = p_stream AND p.first = d.first;
    END IF;
END $$;

CREATE OR REPLACE FUNCTION eventsched_log.append(
    p_stream integer, p_epoch integer, p_token uuid, p_first bigint, p_count integer,
    p_written_at bigint, p_mark json, p_previous bytea, p_hash bytea, p_body json,
    p_seqs bigint[], p_bases bigint[], p_details bytea[]
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT eventsched_log.move_head(p_stream, p_epoch, p_token, p_first, p_first + p_count,
                                    p_previous, p_hash) THEN
        RETURN;
    END IF;
    PERFORM eventsched_log.count_records(
        p_stream,
        eventsched_log.store_batch(p_stream, p_epoch, p_token, p_first, p_count, p_written_at,
                                   p_mark, p_previous, p_hash, p_body));
    IF cardinality(p_seqs) > 0 THEN
        PERFORM eventsched_log.store_details(p_stream, p_seqs, p_bases, p_details);
    END IF;
END $$;

-- What all batches of a stream change, the head and the counts of records, is changed once: within
-- one transaction each change has to pass all earlier versions of such a row.
CREATE OR REPLACE FUNCTION eventsched_log.append_batches(
    p_stream integer, p_epoch integer, p_token uuid, p_first bigint, p_counts integer[],
    p_written_at bigint[], p_marks json[], p_previous bytea, p_hashes bytea[], p_bodies json[],
    p_seqs bigint[], p_bases bigint[], p_details bytea[]
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_batches integer := cardinality(p_counts);
    v_first   bigint := p_first;
    v_kinds   text[];
BEGIN
    IF NOT v_batches = ALL (ARRAY[cardinality(p_written_at), cardinality(p_marks),
                               cardinality(p_hashes), cardinality(p_bodies)]) THEN
        RAISE EXCEPTION 'the batches from % on have other numbers of parts', p_first
            USING ERRCODE = 'ES003';
    END IF;
    IF NOT eventsched_log.move_head(
            p_stream, p_epoch, p_token, p_first,
            p_first + (SELECT sum(count) FROM unnest(p_counts) AS count), p_previous,
            p_hashes[v_batches]) THEN
        RETURN;
    END IF;
    FOR i IN 1 .. v_batches LOOP
        v_kinds := v_kinds || eventsched_log.store_batch(
            p_stream, p_epoch, p_token, v_first, p_counts[i], p_written_at[i], p_marks[i],
            CASE i WHEN 1 THEN p_previous ELSE p_hashes[i - 1] END, p_hashes[i], p_bodies[i]);
        v_first := v_first + p_counts[i];
    END LOOP;
    PERFORM eventsched_log.count_records(p_stream, v_kinds);
    IF cardinality(p_seqs) > 0 THEN
        PERFORM eventsched_log.store_details(p_stream, p_seqs, p_bases, p_details);
    END IF;
END $$;

-- For an append() that began before this version of it.
CREATE OR REPLACE FUNCTION eventsched_log.derive(
    p_stream integer, p_first bigint, p_body json, p_is_old boolean DEFAULT false
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_kinds text[] := eventsched_log.derive_rows(p_stream, p_first, p_body);
BEGIN
    IF NOT p_is_old THEN  -- append_batches() counts the records itself
        PERFORM eventsched_log.count_records(p_stream, v_kinds);
    END IF;
END $$;

COMMENT ON FUNCTION eventsched_log.move_head IS
    'Moves the head of a stream over batches that follow; internal to append()';
COMMENT ON FUNCTION eventsched_log.store_batch IS
    'Stores a batch and the rows that follow from it; internal to append()';
COMMENT ON FUNCTION eventsched_log.derive_rows IS
    'The rows that follow from the records of a batch; internal to append()';
COMMENT ON FUNCTION eventsched_log.count_records IS
    'Adds records to the counts by kind; internal to append()';
COMMENT ON FUNCTION eventsched_log.store_details IS
    'Stores the vectors of decisions; internal to append()';
