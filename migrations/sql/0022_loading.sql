-- Appends batches that follow each other, as append() does with each of them. What all batches of a
-- stream change, the head and the counts of records, is changed once: within one transaction each
-- change has to pass all earlier versions of such a row.
CREATE FUNCTION eventsched_log.append_batches(
    p_stream integer, p_epoch integer, p_token uuid, p_first bigint, p_counts integer[],
    p_written_at bigint[], p_marks json[], p_previous bytea, p_hashes bytea[], p_bodies json[],
    p_seqs bigint[], p_bases bigint[], p_details bytea[]
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_head     eventsched_log.head;
    v_batches  integer := cardinality(p_counts);
    v_first    bigint := p_first;
    v_next     bigint := p_first + (SELECT sum(count) FROM unnest(p_counts) AS count);
    v_end      bigint;  -- of the partitions
    v_previous bytea := p_previous;
BEGIN
    IF NOT v_batches = ALL (ARRAY[cardinality(p_written_at), cardinality(p_marks),
                               cardinality(p_hashes), cardinality(p_bodies)]) THEN
        RAISE EXCEPTION 'the batches from % on have other numbers of parts', p_first
            USING ERRCODE = 'ES003';
    END IF;
    UPDATE eventsched_log.head
    SET next = v_next, hash = p_hashes[v_batches], renewals = renewals + 1
    WHERE stream = p_stream AND epoch = p_epoch AND token = p_token
      AND next = p_first AND hash = p_previous
    RETURNING partition_next INTO v_end;
    IF NOT FOUND THEN
        SELECT * INTO v_head FROM eventsched_log.head WHERE stream = p_stream;
        IF v_head.epoch <> p_epoch OR v_head.token <> p_token THEN
            RAISE EXCEPTION '%', v_head.epoch USING ERRCODE = 'ES001';
        END IF;
        RAISE EXCEPTION '%', v_head.next USING ERRCODE = 'ES002';
    END IF;
    IF v_next > v_end THEN
        PERFORM eventsched_log.extend_partitions(p_stream, v_next);
        UPDATE eventsched_log.head h SET partition_first = p.first, partition_next = p.next
        FROM eventsched_log.partition p
        WHERE h.stream = p_stream AND p.stream = p_stream AND p.first < v_next AND p.next >= v_next;
    END IF;
    FOR i IN 1 .. v_batches LOOP
        IF p_hashes[i] <> sha256('\x02' || v_previous || int4send(p_epoch) || uuid_send(p_token)
                || int8send(v_first) || int4send(p_counts[i]) || int8send(p_written_at[i])
                || sha256(convert_to(p_marks[i]::text, 'UTF8'))
                || sha256(convert_to(p_bodies[i]::text, 'UTF8')))
           OR json_array_length(p_bodies[i]) <> p_counts[i] THEN
            RAISE EXCEPTION 'the batch at % is not what its hash says', v_first
                USING ERRCODE = 'ES003';
        END IF;
        INSERT INTO eventsched_log.batch
            (stream, first, count, epoch, written_at, mark, hash, body)
        VALUES (p_stream, v_first, p_counts[i], p_epoch,
                'epoch'::timestamptz + p_written_at[i] * interval '1 microsecond', p_marks[i],
                p_hashes[i], p_bodies[i]);
        PERFORM eventsched_log.derive(p_stream, v_first, p_bodies[i], true);
        v_first := v_first + p_counts[i];
        v_previous := p_hashes[i];
    END LOOP;
    INSERT INTO eventsched_log.record_count AS c (stream, kind, records)
    SELECT p_stream, split_part(item::text, '"', 4) AS kind, count(*)
    FROM unnest(p_bodies) AS b (body), json_array_elements(b.body) AS e (item)
    GROUP BY kind
    ON CONFLICT ON CONSTRAINT record_count_pkey
    DO UPDATE SET records = c.records + excluded.records;
    IF cardinality(p_seqs) > 0 THEN
        INSERT INTO eventsched_log.detail (stream, seq, base, body)
        SELECT p_stream, d.seq, d.base, d.body
        FROM unnest(p_seqs, p_bases, p_details) AS d (seq, base, body);
        UPDATE eventsched_log.partition p SET base = least(p.base, d.base)
        FROM (SELECT q.first, min(e.base) AS base
              FROM unnest(p_seqs, p_bases) AS e (seq, base)
              JOIN eventsched_log.partition q
                  ON q.stream = p_stream AND e.seq >= q.first AND e.seq < q.next
              WHERE e.base < q.first GROUP BY q.first) d
        WHERE p.stream = p_stream AND p.first = d.first;
    END IF;
END $$;

COMMENT ON FUNCTION eventsched_log.append_batches IS
    'Appends batches that follow each other, for who loads a stream';
