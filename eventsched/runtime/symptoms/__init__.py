"""What a replica notices in the log, for the metrics of a leader: pods that wait too long
(``long_waits``) and preemptions that do not help (``preemption_anomalies``).

Both follow committed records in memory that is bounded by the cluster's pods: a standby those that
it reads, a leader its own. So a standby that takes over knows what the leader before it knew.
The views of schema 0020 and later answer the same questions from the whole log (docs/sql.md).
Only process imports it.
"""
