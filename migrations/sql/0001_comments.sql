-- What \d+ says.

COMMENT ON SCHEMA eventsched IS 'eventsched for people: views and functions over the log';
COMMENT ON SCHEMA eventsched_log IS 'The log of eventsched: tables. Read the views in eventsched.';

COMMENT ON TABLE eventsched_log.stream IS 'One row a stream: the log of one scheduler identity';
COMMENT ON TABLE eventsched_log.head IS 'Fence, sequencer and chain head of a stream';
COMMENT ON TABLE eventsched_log.epoch IS 'Who wrote when: one row for each time a writer took over';
COMMENT ON TABLE eventsched_log.batch IS
    'The log: records that were committed together, as [[time in µs, cause, version, record], …]';
COMMENT ON COLUMN eventsched_log.batch.first IS 'Position of the first record';
COMMENT ON COLUMN eventsched_log.batch.mark IS 'How far the writer had read its sources';
COMMENT ON COLUMN eventsched_log.batch.hash IS 'sha256 over this batch and the one before';
COMMENT ON TABLE eventsched_log.detail IS
    'Codes and raw scores of every node for a decision, whole or as a delta to base';
COMMENT ON TABLE eventsched_log.snapshot IS 'State at a position; a cache';
COMMENT ON TABLE eventsched_log.node IS 'Derived: the node of each row of the vectors';
COMMENT ON TABLE eventsched_log.pod IS 'Derived: names of pods';
COMMENT ON TABLE eventsched_log.decision IS 'Derived: one row an attempt';
COMMENT ON TABLE eventsched_log.verdict IS 'Derived: the words that a code stands for';
COMMENT ON TABLE eventsched_log.scoring IS 'Derived: the score columns that a number stands for';

COMMENT ON VIEW eventsched.streams IS 'One row a stream: its length, writer and head';
COMMENT ON COLUMN eventsched.streams.records IS 'Number of records, and the next one''s position';
COMMENT ON COLUMN eventsched.streams.epoch IS 'Reign of its present or last writer, from 1';
COMMENT ON COLUMN eventsched.streams.holder IS 'Who that writer is';
COMMENT ON COLUMN eventsched.streams.written_at IS 'When the last batch was written (wall clock)';
COMMENT ON COLUMN eventsched.streams.head IS 'SHA-256 of the last batch: stands for all before it';

COMMENT ON VIEW eventsched.events IS
    'Every record: what happened outside, and what was decided. ORDER BY seq for their order';
COMMENT ON COLUMN eventsched.events.seq IS 'Position in the stream, from 0, without gaps';
COMMENT ON COLUMN eventsched.events.at IS 'When it happened; a simulation begins at 1970-01-01 UTC';
COMMENT ON COLUMN eventsched.events.cause IS
    'Position of the first record of the same step: what led to this one, or itself';
COMMENT ON COLUMN eventsched.events.kind IS 'Name of its shape, such as NodeAdded or PodBound';
COMMENT ON COLUMN eventsched.events.namespace IS 'Of the pod that it is about; null for none';
COMMENT ON COLUMN eventsched.events.pod IS 'Name of the pod that it is about; null for none';
COMMENT ON COLUMN eventsched.events.pod_uid IS 'A uid that is no UUID stands as MD5 of its text';
COMMENT ON COLUMN eventsched.events.record IS 'The whole, without fields that have their default';
COMMENT ON COLUMN eventsched.events.epoch IS 'Reign of the writer that wrote it';
COMMENT ON COLUMN eventsched.events.written_at IS 'When its batch was written (wall clock)';

COMMENT ON VIEW eventsched.decisions IS
    'One row for each attempt to place a pod; verdicts() and scores() tell why';
COMMENT ON COLUMN eventsched.decisions.seq IS 'Position of the attempt''s record';
COMMENT ON COLUMN eventsched.decisions.attempt IS 'Number of the attempt for this pod, from 1';
COMMENT ON COLUMN eventsched.decisions.profile IS 'schedulerName of the profile that decided';
COMMENT ON COLUMN eventsched.decisions.outcome IS
    'scheduled, waiting (at Permit), unschedulable or error';
COMMENT ON COLUMN eventsched.decisions.node IS 'The node chosen; null where none was';
COMMENT ON COLUMN eventsched.decisions.score IS 'Sum of the weighted scores of the chosen node';
COMMENT ON COLUMN eventsched.decisions.runner_up IS 'The next best node; null where none was left';
COMMENT ON COLUMN eventsched.decisions.feasible IS 'Nodes that could take the pod';
COMMENT ON COLUMN eventsched.decisions.evaluated IS 'Nodes that Filter was asked about';
COMMENT ON COLUMN eventsched.decisions.ties IS
    'Nodes with the best score; number draw % ties of them, in row order, was chosen';
COMMENT ON COLUMN eventsched.decisions.draw IS
    'Keyed hash of seed, pod and attempt, from 0 to 2^64 - 1; 0 where there was no tie';

COMMENT ON VIEW eventsched.refusals IS
    'What nodes were told in each attempt, counted: one row for each attempt and kind of refusal';
COMMENT ON COLUMN eventsched.refusals.plugin IS
    'Who refused; null where PreFilter as a whole left nodes out';
COMMENT ON COLUMN eventsched.refusals.code IS
    'Status code, or Excluded (by PreFilter) or NotEvaluated (the search had ended)';
COMMENT ON COLUMN eventsched.refusals.nodes IS 'Number of nodes that were told so';

COMMENT ON VIEW eventsched.bindings IS
    'Pods that we placed and that were bound, with the decision that did it';
COMMENT ON COLUMN eventsched.bindings.decided_seq IS 'Position of the decision';
COMMENT ON COLUMN eventsched.bindings.bound_seq IS 'Position of the record that says it is bound';

COMMENT ON VIEW eventsched.queue_moves IS 'Where pods waited, and what moved them';
COMMENT ON COLUMN eventsched.queue_moves.queue IS
    'Where to: active, backoff, unschedulable or gated';
COMMENT ON COLUMN eventsched.queue_moves.cause IS
    'What moved it: a cluster event (NodeAdd), PodAdd, AttemptFailed, BackoffComplete, Flush…';
COMMENT ON COLUMN eventsched.queue_moves.caused_by IS
    'Position of the record that began the step: the node that came, the pod that went';
COMMENT ON COLUMN eventsched.queue_moves.plugin IS 'Whose hint or refusal it was; null for none';
COMMENT ON COLUMN eventsched.queue_moves.rejectors IS
    'Plugins that refused the pod in its last attempt: only their hints wake it';
COMMENT ON COLUMN eventsched.queue_moves.pending IS
    'Those of them that said Pending: they wake it without backoff';
COMMENT ON COLUMN eventsched.queue_moves.until IS 'End of its backoff; null where there is none';
COMMENT ON COLUMN eventsched.queue_moves.failures IS 'Attempts in a row that found no node';
COMMENT ON COLUMN eventsched.queue_moves.errors IS 'Attempts in a row that ended in an error';

COMMENT ON VIEW eventsched.reservations IS 'Nodes held for pods, from the decision to its end';
COMMENT ON COLUMN eventsched.reservations.ended_seq IS 'Position of its end; null: it is held';
COMMENT ON COLUMN eventsched.reservations.ended_by IS
    'PodBound, PodUnreserved (given up), PodUpdated (bound by another) or PodDeleted';

COMMENT ON VIEW eventsched.first_nodes IS
    'FirstScheduledNode''s memory: the node that each pod name was first placed on';
COMMENT ON COLUMN eventsched.first_nodes.key IS 'namespace/name';
COMMENT ON COLUMN eventsched.first_nodes.seq IS 'Position of the record that says so';

COMMENT ON FUNCTION eventsched.verdicts IS
    'What each node was told in the decision at a position of a stream, in row order; nothing '
    'where its vectors are not kept';
COMMENT ON FUNCTION eventsched.scores IS
    'Scores of each feasible node by each plugin in the decision at a position of a stream: raw, '
    'normalised to 0..100, times weight; rank of the node by their sum, best first';

COMMENT ON FUNCTION eventsched_log.time IS 'Microseconds since 1970 UTC as a time';
COMMENT ON FUNCTION eventsched_log.uid IS 'A uid as tables have it: MD5 of what is no UUID';
COMMENT ON FUNCTION eventsched_log.record IS 'The record at a position';
COMMENT ON FUNCTION eventsched_log.entries IS
    'One column of stored vectors: the rows that it names, and their values';
COMMENT ON FUNCTION eventsched_log.integer_at IS
    'A signed little-endian integer of so many bytes';
COMMENT ON FUNCTION eventsched_log.vector IS
    'One column of a decision over all rows; nothing where a part of it is gone';
COMMENT ON FUNCTION eventsched_log.scored IS
    'Raw and normalised scores of the feasible rows of a decision';
COMMENT ON FUNCTION eventsched_log.thin IS
    'Deletes vectors that are older than a time; decisions and their digests stay';
COMMENT ON FUNCTION eventsched_log.acquire IS
    'Begins an epoch: earlier writers of the stream are fenced from now on';
COMMENT ON FUNCTION eventsched_log.append IS
    'Appends a batch, or passes a known one over';
COMMENT ON FUNCTION eventsched_log.derive IS
    'Writes the derived rows of a batch';
COMMENT ON FUNCTION eventsched_log.renew IS
    'A sign of life; fails for a writer that was replaced';
COMMENT ON FUNCTION eventsched_log.keep_snapshot IS
    'Puts a snapshot in the place of older ones';
COMMENT ON FUNCTION eventsched_log.deny IS 'Trigger: what is in the log stays';
