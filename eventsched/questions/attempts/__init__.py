"""Attempts side by side and over time: all verdicts of one as columns, what differs between two,
and the pod's way through queues and waits.

Start with ``verdict_columns`` (verdict_columns.py). The API uses it; it may import what
eventsched/questions may.
"""
