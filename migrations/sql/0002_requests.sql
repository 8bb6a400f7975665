-- What people ask of a stream's scheduler while it runs. Not a part of the log: the answer is a
-- record there, and marks the request in the transaction that appends it. So whatever is killed in
-- between, a request is answered once.

CREATE TABLE eventsched_log.request (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    seq      bigint,
    asked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    stream   integer NOT NULL REFERENCES eventsched_log.stream,
    asked_by text NOT NULL,
    plugin   text NOT NULL,
    key      text NOT NULL
);
CREATE INDEX request_open ON eventsched_log.request (stream) WHERE seq IS NULL;

-- Asks for a plugin to forget a key; the number of the request, that of an open one where there is
-- one already. Who asks is who has connected, whatever role was taken on.
CREATE FUNCTION eventsched_log.ask_to_forget(p_stream text, p_plugin text, p_key text)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_stream integer;
    v_id     bigint;
BEGIN
    SELECT s.id INTO v_stream FROM eventsched_log.stream s WHERE s.name = p_stream;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no stream %', p_stream USING ERRCODE = 'ES004';
    END IF;
    SELECT r.id INTO v_id FROM eventsched_log.request r
    WHERE r.stream = v_stream AND r.seq IS NULL AND r.plugin = p_plugin AND r.key = p_key
    ORDER BY r.id LIMIT 1;
    IF NOT FOUND THEN
        INSERT INTO eventsched_log.request (stream, asked_by, plugin, key)
        VALUES (v_stream, session_user, p_plugin, p_key) RETURNING id INTO v_id;
    END IF;
    RETURN v_id;
END $$;

CREATE FUNCTION eventsched_log.mark_requests() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE eventsched_log.request r SET seq = NEW.first + e.n - 1
    FROM json_array_elements(NEW.body) WITH ORDINALITY AS e (item, n)
    WHERE e.item -> 3 ->> 'kind' = 'MemoryForgotten' AND r.stream = NEW.stream
      AND r.id = (e.item -> 3 ->> 'request')::bigint AND r.seq IS NULL;
    RETURN NULL;
END $$;

CREATE TRIGGER mark_requests AFTER INSERT ON eventsched_log.batch FOR EACH ROW
WHEN (strpos(NEW.body::text, '"kind":"MemoryForgotten"') > 0)
EXECUTE FUNCTION eventsched_log.mark_requests();

CREATE VIEW eventsched.requests AS
SELECT s.name AS stream, r.id AS request, r.asked_at, r.asked_by, r.plugin, r.key, r.seq
FROM eventsched_log.request r JOIN eventsched_log.stream s ON s.id = r.stream;

CREATE VIEW eventsched.memory AS
SELECT stream, plugin, key, value, seq, at
FROM (
    SELECT DISTINCT ON (stream, record ->> 'plugin', record ->> 'key')
           stream, record ->> 'plugin' AS plugin, record ->> 'key' AS key,
           record -> 'value' AS value, seq, at
    FROM eventsched.events
    WHERE kind = 'MemoryChanged'
    ORDER BY stream, record ->> 'plugin', record ->> 'key', seq DESC
) newest
WHERE value IS NOT NULL;  -- null: forgotten

-- A value is {"node": …, "at": …}; in older logs it is the node's name.
CREATE OR REPLACE VIEW eventsched.first_nodes AS
SELECT stream, key, coalesce(value ->> 'node', value #>> '{}') AS node, seq, at
FROM eventsched.memory
WHERE plugin = 'FirstScheduledNode';

COMMENT ON TABLE eventsched_log.request IS
    'What people ask of the scheduler of a stream; no part of the log';
COMMENT ON COLUMN eventsched_log.request.seq IS
    'Position of the record that answers it; null while there is none';
COMMENT ON FUNCTION eventsched_log.ask_to_forget IS
    'Asks the scheduler of a stream to have a plugin forget a key; the number of the request';
COMMENT ON FUNCTION eventsched_log.mark_requests IS
    'Trigger: a request is answered when its record is in the log';
COMMENT ON VIEW eventsched.requests IS
    'What people asked of a stream''s scheduler, and the position of the answer';
COMMENT ON VIEW eventsched.memory IS
    'What plugins remember: the newest value of each key that was not forgotten';
COMMENT ON VIEW eventsched.first_nodes IS
    'FirstScheduledNode''s memory: the node that a pod goes back to; at: when last bound there';
COMMENT ON COLUMN eventsched.requests.asked_by IS 'The user who had connected to the database';
COMMENT ON COLUMN eventsched.requests.seq IS
    'Position of the record that answers it; null while there is none';
COMMENT ON COLUMN eventsched.memory.value IS 'As the plugin keeps it';
COMMENT ON COLUMN eventsched.memory.seq IS 'Position of the record that says so';
COMMENT ON COLUMN eventsched.first_nodes.key IS
    'namespace/name, or what else the plugin''s arguments make of a pod';
