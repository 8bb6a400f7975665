-- The streams that the views show: all, or the one that the setting eventsched.stream names.
--     SET eventsched.stream = 'NAME';
-- A comparison of the name, not an OR, so that the planner takes it for one stream of several.
CREATE VIEW eventsched_log.chosen_stream AS
SELECT id, name, created_at FROM eventsched_log.stream
WHERE name = coalesce(nullif(current_setting('eventsched.stream', true), ''), name);

COMMENT ON VIEW eventsched_log.chosen_stream IS
    'The streams that views show: all, or the one that setting eventsched.stream names';
