-- The newest three, so that one that a newer version cannot use, or that is damaged, is not the
-- only one; of the others one for each 25,000 positions, as long as the records after it are kept,
-- so that the state at any position is near. Large ones are kept less often: together they have at
-- most 100 bytes for each position. What lies at or after the new one is of a history that is no
-- more.
CREATE OR REPLACE FUNCTION eventsched_log.keep_snapshot(
    p_stream integer, p_epoch integer, p_token uuid,
    p_seq bigint, p_hash bytea, p_digest text, p_version text, p_body bytea
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM eventsched_log.head
    WHERE stream = p_stream AND epoch = p_epoch AND token = p_token FOR UPDATE;
    IF NOT FOUND THEN RETURN; END IF;
    DELETE FROM eventsched_log.snapshot WHERE stream = p_stream AND seq >= p_seq;
    DELETE FROM eventsched_log.snapshot s
    WHERE s.stream = p_stream AND s.seq = (  -- the one that is no longer of the newest three
        SELECT seq FROM eventsched_log.snapshot WHERE stream = p_stream
        ORDER BY seq DESC OFFSET 2 LIMIT 1
    ) AND EXISTS (
        SELECT FROM eventsched_log.snapshot e
        WHERE e.stream = p_stream AND e.seq < s.seq
          AND e.seq > s.seq - greatest(25000, length(s.body) / 100)
    );
    INSERT INTO eventsched_log.snapshot (stream, seq, hash, digest, version, body)
    VALUES (p_stream, p_seq, p_hash, p_digest, p_version, p_body);
END $$;

COMMENT ON FUNCTION eventsched_log.keep_snapshot IS
    'Adds a snapshot, and deletes an older one that is near to another';
