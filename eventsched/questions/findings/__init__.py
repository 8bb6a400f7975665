"""What stands out in a log, beside its anomalies: who evicted whom, which plugins refuse most, and
pods that only the flush of the unschedulable queue brought to a node.

Start with ``evictions_page`` (preemption_rows.py). Answers are read from rows, within a bounded
number of them. The API uses it; it may import what eventsched/questions may.
"""
