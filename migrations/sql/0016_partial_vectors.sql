-- As before; of a partial vector (format 2) only the rows that it lists.
CREATE OR REPLACE FUNCTION eventsched_log.vector(p_stream integer, p_seq bigint, p_place integer)
RETURNS TABLE (ordinal integer, value bigint) LANGUAGE sql STABLE PARALLEL SAFE AS $$
    WITH RECURSIVE chain AS (
        SELECT 0 AS depth, base, body FROM eventsched_log.detail
        WHERE stream = p_stream AND seq = p_seq
        UNION ALL
        SELECT c.depth + 1, d.base, d.body FROM chain c
        CROSS JOIN LATERAL (
            SELECT base, body FROM eventsched_log.detail
            WHERE stream = p_stream AND seq = c.base LIMIT 1
        ) d
    ), size AS (
        SELECT eventsched_log.integer_at(body, 2, 4)::integer AS rows,
               get_byte(body, 0) = 2 AS is_partial
        FROM chain
        WHERE depth = 0 AND p_place < get_byte(body, 6)
          AND EXISTS (SELECT FROM chain WHERE base IS NULL)
    ), latest AS (
        SELECT DISTINCT ON (e.ordinal) e.ordinal, e.value
        FROM chain c, eventsched_log.entries(c.body, p_place) e
        ORDER BY e.ordinal, c.depth
    )
    SELECT r, coalesce(l.value, 0)
    FROM size, generate_series(0, size.rows - 1) AS r LEFT JOIN latest l ON l.ordinal = r
    WHERE l.ordinal IS NOT NULL OR NOT size.is_partial
$$;
