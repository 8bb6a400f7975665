-- A new node may get the row of a deleted one, which its NodeAdded record then names.
ALTER TABLE eventsched_log.node
    DROP CONSTRAINT node_pkey,
    ADD CONSTRAINT node_pkey PRIMARY KEY (stream, ordinal, seq);

COMMENT ON TABLE eventsched_log.node IS
    'Derived: the nodes of each row of the vectors; the newest before a position has it there';

CREATE OR REPLACE FUNCTION eventsched_log.derive_names(p_stream integer, p_first bigint, p_body json)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF strpos(p_body::text, '"kind":"NodeAdded"') > 0 THEN
        INSERT INTO eventsched_log.node (stream, ordinal, name, seq)
        SELECT p_stream,
               coalesce((item -> 3 ->> 'row')::integer,
                        (SELECT coalesce(max(ordinal), -1) FROM eventsched_log.node
                         WHERE stream = p_stream)
                        + row_number() OVER (PARTITION BY item -> 3 -> 'row' IS NULL ORDER BY n)),
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
