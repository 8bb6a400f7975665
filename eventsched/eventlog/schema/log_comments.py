"""The comments on the tables and columns of schema eventsched_log.

psql shows them (``\\d+``), and ``alembic check`` compares them with those that the migrations set.
"""

COMMENTS = {
    "stream": "One row a stream: the log of one scheduler identity",
    "head": "Fence, sequencer and chain head of a stream",
    "partition": "The partitions of the tables by position: ranges of positions of a stream",
    "epoch": "Who wrote when: one row for each time a writer took over",
    "batch": "The log: records that were committed together, as "
    "[[time in µs, cause, version, record], …]",
    "detail": "Codes and raw scores of every node for a decision, whole or as a delta to base",
    "snapshot": "State at a position; a cache",
    "checkpoint": "State at a position, kept for a sealed partition",
    "archived": "What an archive holds, as db archive says",
    "pruned": "The partitions that were dropped",
    "partition.seal": "Derived: position of the record that seals it; null while there is none",
    "pruned.hash": "Of its last batch",
    "node": (
        "Derived: the nodes of each row of the vectors; the newest before a position has it there"
    ),
    "pod": "Derived: names of pods",
    "pod_now": "Derived: the pods that there are, and where each stands; gone with the pod",
    "decision": "Derived: one row an attempt",
    "queue_move": "Derived: one row per move of a pod to a queue",
    "queue_stay": "Derived: one row per stay of a pod in a queue, written when it ends",
    "reservation": "Derived: one row per reservation of a node for a pod, written when it ends",
    "pod_end": "Derived: one row per end of a pod",
    "refusal": "Derived: how many nodes a decision refused with one code",
    "mention": "Derived: the batches with records about a pod that no other table lists",
    "victim": "Derived: one row per victim of a preemption",
    "comparison": (
        "Derived: one row per pod of which a shadow compared its decision with the real one"
    ),
    "record_count": "Derived: the number of records of each kind",
    "verdict": "Derived: the words that a code stands for",
    "scoring": "Derived: the score columns that a number stands for",
    "request": "What people ask of the scheduler of a stream; no part of the log",
    "stream_grant": "Which login roles may write which streams; none: every writer every stream",
    "tenant_grant": (
        "Which tenants see the decisions of which namespaces; stream '': every stream"
    ),
    "tenant_secret": "The key of the ids that tenants see of other pods",
    "request.seq": "Position of the record that answers it; null while there is none",
    "partition.base": (
        "The first vector of an earlier partition that a vector of this one builds on"
    ),
    "head.partition_next": "The end of the partition that holds the last record",
    "batch.first": "Position of the first record",
    "batch.mark": "How far the writer had read its sources",
    "batch.hash": "sha256 over this batch and the one before",
}
"""The comments that the migrations set on tables and columns (migrations/sql: 0001_comments,
0002_requests, 0010_rows, 0012_partitions, 0013_seals, 0014_tenants, 0020_rows)."""
