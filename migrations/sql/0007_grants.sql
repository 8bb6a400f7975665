-- Which login roles may write which streams. Without rows every member of eventsched_writer may
-- write every stream. A role with rows may write those streams only; a stream with rows may be
-- written by those roles only. No part of the log.

CREATE TABLE eventsched_log.stream_grant (
    role   text NOT NULL,
    stream text NOT NULL,
    PRIMARY KEY (role, stream)
);

-- Who writes is who has connected, whatever role was taken on.
CREATE FUNCTION eventsched_log.require_grant(p_stream text) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM eventsched_log.stream_grant g
               WHERE g.role = session_user OR g.stream = p_stream)
       AND NOT EXISTS (SELECT FROM eventsched_log.stream_grant g
                       WHERE g.role = session_user AND g.stream = p_stream) THEN
        RAISE EXCEPTION 'role % may not write stream %', session_user, p_stream
            USING ERRCODE = '42501',
                  HINT = format('run `eventsched db grant --role %s --stream %s`',
                                session_user, p_stream);
    END IF;
END $$;

-- acquire(), append() and renew() all change the head, keep_snapshot() adds a snapshot. The tokens
-- of other writers can be read, so each of them has to be checked.
CREATE FUNCTION eventsched_log.check_grant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM eventsched_log.stream_grant) THEN
        PERFORM eventsched_log.require_grant(
            (SELECT s.name FROM eventsched_log.stream s WHERE s.id = NEW.stream));
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER check_grant BEFORE UPDATE ON eventsched_log.head FOR EACH ROW
EXECUTE FUNCTION eventsched_log.check_grant();
CREATE TRIGGER check_grant BEFORE INSERT ON eventsched_log.snapshot FOR EACH ROW
EXECUTE FUNCTION eventsched_log.check_grant();

ALTER FUNCTION eventsched_log.thin(text, timestamptz) RENAME TO thin_unchecked;
CREATE FUNCTION eventsched_log.thin(p_stream text, p_before timestamptz) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM eventsched_log.require_grant(p_stream);
    RETURN eventsched_log.thin_unchecked(p_stream, p_before);
END $$;

COMMENT ON TABLE eventsched_log.stream_grant IS
    'Which login roles may write which streams; none: every writer every stream';
COMMENT ON FUNCTION eventsched_log.require_grant IS
    'Fails if who has connected may not write a stream';
COMMENT ON FUNCTION eventsched_log.check_grant IS 'Trigger: a writer needs a grant if there are any';
COMMENT ON FUNCTION eventsched_log.thin IS
    'Deletes vectors that are older than a time; decisions and their digests stay';
