"""Counts of a log: pods by owner or by the refusal of their last attempt, and what happened in
the last hour.

Start with ``grouped_pods.py``. Answers are read from rows, within a bounded number of them. The API
uses it; it may import what eventsched/questions may.
"""
