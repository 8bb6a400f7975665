"""What a leader notices in its own commits, for metrics: pods that wait too long
(``long_waits``) and preemptions that do not help (``preemption_anomalies``).

Both follow committed records of the present term in memory that is bounded by the cluster's pods.
The views of schema 0020 and later answer the same questions from the whole log (docs/sql.md).
Only process imports it.
"""
